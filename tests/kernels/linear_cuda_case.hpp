// A linear layer's operands on the host and on the device, for the tests of the CUDA kernels.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/runtime/device.hpp"
#include "kernels/reference/reference.hpp"
#include "reprofuse/reprofuse.hpp"
#include "study/probe/probe.hpp"
#include "study/seeded/inputs.hpp"
#include "support/device_buffer.hpp"

namespace reprofuse::test {

using cuda::DeviceBuffer;

inline constexpr float kPoison = 12345.678F;
inline constexpr DType kDTypes[] = {DType::kBF16, DType::kF16, DType::kF32};

inline DeviceBuffer upload(const void* data, std::size_t bytes) {
  DeviceBuffer buffer(0, bytes);
  cuda::copy_to_device(buffer.as<void>(), data, bytes);
  return buffer;
}

// Offsets and padding shift rows off their alignment.
struct Case {
  std::int64_t m, n, k;
  DType dtype = DType::kBF16;
  bool bias = false;
  std::int64_t x_padding = 0, w_padding = 0, y_padding = 0;
  std::int64_t x_offset = 0, w_offset = 0;
  void (*reference)(ConstMatrix, const WeightView&, const float*, Matrix) = reference::linear_fma1;

  std::vector<float> x{}, b{};
  study::Weights w{};
  DeviceBuffer device_x{}, device_w{}, device_b{}, device_y{};

  std::int64_t x_stride() const { return k + x_padding; }
  std::int64_t w_stride() const { return k + w_padding; }
  std::int64_t y_stride() const { return n + y_padding; }

  void make(ThreadPool& pool) {
    x = study::make_activations(1, 1, m * x_stride() + x_offset);
    w = study::make_weights(2, dtype, 1, n * w_stride() + w_offset, pool);
    b = study::make_activations(3, 1, n);
    send();
  }
  void send() {
    device_x = upload(x.data(), x.size() * 4);
    device_w = upload(w.storage.data(), w.storage.size());
    device_b = upload(b.data(), b.size() * 4);
    device_y = DeviceBuffer(0, static_cast<std::size_t>(m * y_stride()) * 4);
  }

  ConstMatrix host_x() const { return {x.data() + x_offset, m, k, x_stride()}; }
  WeightView weight(const void* base) const {
    const auto* data =
        static_cast<const unsigned char*>(base) + static_cast<std::size_t>(w_offset) * dtype_bytes(dtype);
    return {data, dtype, n, k, w_stride()};
  }
  ConstMatrix gpu_x() const { return {device_x.as<float>() + x_offset, m, k, x_stride()}; }
  LinearOutput gpu_output() const {
    return {{device_y.as<float>(), m, n, y_stride()}, bias ? device_b.as<float>() : nullptr};
  }

  std::vector<float> expected() const {
    std::vector<float> y(static_cast<std::size_t>(m * y_stride()), kPoison);
    reference(host_x(), weight(w.storage.data()), bias ? b.data() : nullptr, {y.data(), m, n, y_stride()});
    return y;
  }
  void poison() const {
    const std::vector<float> y(static_cast<std::size_t>(m * y_stride()), kPoison);
    cuda::copy_to_device(device_y.as<float>(), y.data(), y.size() * 4);
  }
  std::vector<float> result() const {
    std::vector<float> y(static_cast<std::size_t>(m * y_stride()));
    cuda::copy_to_host(y.data(), device_y.as<float>(), y.size() * 4);
    return y;
  }
  std::string describe() const {
    return fmt::format("m {} n {} k {} {} bias {} padding {} {} {} offset {} {}", m, n, k, dtype_name(dtype), bias,
                       x_padding, w_padding, y_padding, x_offset, w_offset);
  }
};

// The first difference between the device's y and what was expected. Poisoned padding must survive, so whole buffers
// are compared.
inline std::optional<study::BitDifference> difference_to(const Case& c, const std::vector<float>& expected) {
  const std::vector<float> got = c.result();
  return study::first_difference({got.data(), c.m, c.y_stride(), c.y_stride()},
                                 {expected.data(), c.m, c.y_stride(), c.y_stride()});
}

}  // namespace reprofuse::test
