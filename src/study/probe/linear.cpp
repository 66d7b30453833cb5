#include "reprofuse/linear.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/fp_environment.hpp"
#include "ops/buffer.hpp"
#include "ops/context_state.hpp"
#include "study/probe/probe.hpp"

namespace reprofuse::study {
namespace {

constexpr const char* kLayerName = "probe";

class SharedMemoryLinear final : public HostLinear {
 public:
  SharedMemoryLinear(const Context& context, const WeightView& weight, std::int64_t max_m)
      : layer_(context, {&weight, 1}, kLayerName), workspace_(context, layer_.workspace_bytes(max_m)) {}

  void run(ConstMatrix x, const float* bias, Matrix y) override {
    const LinearOutput output{y, bias};
    layer_.run(x, {&output, 1}, workspace_);
  }

  std::string implementation() const override { return layer_.implementation(); }

 private:
  LinearLayer layer_;
  Workspace workspace_;
};

std::size_t float_bytes(std::int64_t count) {
  return static_cast<std::size_t>(count) * sizeof(float);
}

Buffer copied_to_device(const Context& context, const void* data, std::size_t bytes) {
  Buffer buffer(context, bytes);
  copy_to_device(context, buffer.as<void>(), data, bytes);
  return buffer;
}

// On a device with memory of its own.
class DeviceLinear final : public HostLinear {
 public:
  DeviceLinear(const Context& context, const WeightView& weight, std::int64_t max_m)
      : context_(context),
        max_m_(max_m),
        weight_(copied_to_device(context, weight.data, bytes_of(weight))),
        x_(context, float_bytes(max_m * weight.k)),
        y_(context, float_bytes(max_m * weight.n)),
        bias_(context, float_bytes(weight.n)),
        layer_(make_layer(context, weight)),
        workspace_(context, layer_.workspace_bytes(max_m)) {}

  void run(ConstMatrix x, const float* bias, Matrix y) override {
    require(x.rows <= max_m_, "a layer prepared for {} rows was given {}", max_m_, x.rows);
    require(x.stride == x.cols && y.stride == y.cols, "operands copied to a device must be contiguous");
    copy_to_device(context_, x_.as<void>(), x.data, float_bytes(x.rows * x.cols));
    if (bias != nullptr) copy_to_device(context_, bias_.as<void>(), bias, float_bytes(y.cols));
    const LinearOutput output{{y_.as<float>(), y.rows, y.cols, y.cols}, bias != nullptr ? bias_.as<float>() : nullptr};
    layer_.run({x_.as<float>(), x.rows, x.cols, x.cols}, {&output, 1}, workspace_);
    check_workspace(context_, workspace_.data(), nullptr);
    copy_to_host(context_, y.data, y_.as<void>(), float_bytes(y.rows * y.cols));
  }

  std::string implementation() const override { return layer_.implementation(); }

 private:
  static std::size_t bytes_of(const WeightView& weight) {
    return static_cast<std::size_t>(weight.n * weight.stride) * dtype_bytes(weight.dtype);
  }

  LinearLayer make_layer(const Context& context, WeightView weight) const {
    weight.data = weight_.as<void>();
    return LinearLayer(context, {&weight, 1}, kLayerName);
  }

  Context context_;
  std::int64_t max_m_;
  Buffer weight_;  // [n, stride] of the weight's dtype
  Buffer x_;       // [max_m, k] f32
  Buffer y_;       // [max_m, n] f32
  Buffer bias_;    // [n] f32
  LinearLayer layer_;
  Workspace workspace_;
};

class ReferenceLinear final : public HostLinear {
 public:
  ReferenceLinear(const Numerics& contract, ThreadPool& pool, const WeightView& weight)
      : contract_(contract), pool_(pool), weight_(weight) {}

  void run(ConstMatrix x, const float* bias, Matrix y) override {
    const FpEnvironment pinned;
    const std::int64_t parts = std::min<std::int64_t>(x.rows, pool_.threads());
    pool_.parallel_for(parts, [&](std::int64_t part, int) {
      const std::int64_t row = part * x.rows / parts;
      const std::int64_t rows = (part + 1) * x.rows / parts - row;
      contract_.linear->reference({x.data + row * x.stride, rows, x.cols, x.stride}, weight_, bias,
                                  {y.data + row * y.stride, rows, y.cols, y.stride});
    });
  }

  std::string implementation() const override { return "reference"; }

 private:
  const Numerics& contract_;
  ThreadPool& pool_;
  WeightView weight_;
};

}  // namespace

PrepareLinear kernels_of(const Context& context) {
  return [context](const WeightView& weight, std::int64_t max_m) -> std::unique_ptr<HostLinear> {
    if (context.state().backend->capabilities().shares_host_memory)
      return std::make_unique<SharedMemoryLinear>(context, weight, max_m);
    return std::make_unique<DeviceLinear>(context, weight, max_m);
  };
}

PrepareLinear reference_of(const Numerics& contract, ThreadPool& pool) {
  return [&contract, &pool](const WeightView& weight, std::int64_t) {
    return std::make_unique<ReferenceLinear>(contract, pool, weight);
  };
}

}  // namespace reprofuse::study
