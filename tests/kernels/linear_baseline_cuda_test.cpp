// The baselines on the GPU: within the error that their arithmetic allows, and capturable.
#include <cuda_runtime.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <optional>

#include "kernels/cuda/runtime/device.hpp"
#include "kernels/linear_baseline_case.hpp"
#include "kernels/vendor/libraries.hpp"
#include "numerics/float_ops.hpp"
#include "ops/context_state.hpp"
#include "study/bench/linear.hpp"
#include "support/device_buffer.hpp"

namespace reprofuse {
namespace {

using cuda::DeviceBuffer;

constexpr std::string_view kBaselines[] = {"sgemm", "layercast", "bf16"};

template <typename T>
DeviceBuffer upload(const std::vector<T>& values) {
  DeviceBuffer buffer(0, values.size() * sizeof(T));
  cuda::copy_to_device(buffer.as<void>(), values.data(), values.size() * sizeof(T));
  return buffer;
}

template <typename T>
std::vector<T> download(const DeviceBuffer& buffer, std::size_t count) {
  std::vector<T> values(count);
  cuda::copy_to_host(values.data(), buffer.as<void>(), count * sizeof(T));
  return values;
}

// A case on the device, with its layer.
class OnDevice {
 public:
  OnDevice(const Context& context, const BaselineCase& c) : case_(c), x_(upload(c.x)) {
    std::vector<WeightView> views;
    for (std::size_t i = 0; i < c.n.size(); ++i) {
      weights_.push_back(upload(c.weights[i].storage));
      biases_.push_back(upload(c.biases[i]));
      results_.push_back(upload(c.poisoned(i)));
      views.push_back(c.weight_view(i, weights_[i].as<void>()));
      outputs_.push_back({c.y_view(i, results_[i].as<float>()), c.bias ? biases_[i].as<float>() : nullptr});
    }
    layer_.emplace(context, views, "baseline");
    workspace_.emplace(context, layer_->workspace_bytes(c.m));
  }

  void enqueue(void* stream) const { layer_->run(case_.x_view(x_.as<float>()), outputs_, *workspace_, stream); }
  std::vector<float> result(std::size_t i) const { return download<float>(results_[i], case_.poisoned(i).size()); }
  std::size_t workspace_bytes() const { return layer_->workspace_bytes(case_.m); }

 private:
  const BaselineCase& case_;
  DeviceBuffer x_;
  std::vector<DeviceBuffer> weights_, biases_, results_;
  std::vector<LinearOutput> outputs_;
  std::optional<LinearLayer> layer_;
  std::optional<Workspace> workspace_;
};

class LinearBaselineCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      BaselineCase c{.m = 1, .k = 8, .n = {8}};
      c.make(pool_);
      const OnDevice layer(Context::cuda("sgemm"), c);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kUnsupported) << error.what();
      GTEST_SKIP() << error.what();
    }
  }

  ThreadPool pool_{4};
};

TEST_F(LinearBaselineCuda, ErrorsStayWithinTheBoundOfTheArithmetic) {
  std::vector<BaselineCase> cases = baseline_cases();
  cases.push_back({.m = 64, .k = 1024, .n = {512, 256, 256}, .bias = true});
  for (const std::string_view numerics : kBaselines)
    for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
      if (numerics == "bf16" && dtype == DType::kF16) continue;
      for (BaselineCase c : cases) {
        c.dtype = dtype;
        c.make(pool_);
        const OnDevice on_device(Context::cuda(numerics), c);
        on_device.enqueue(nullptr);
        for (std::size_t i = 0; i < c.n.size(); ++i)
          EXPECT_LE(c.worst_error(i, on_device.result(i), tolerance_of(numerics, c.k)), 1.0)
              << fmt::format("{} {} m {} k {} output {}", numerics, dtype_name(dtype), c.m, c.k, i);
      }
    }
}

// TF32 would fail this bound, as BF16 must.
TEST_F(LinearBaselineCuda, Bf16IsFarLessExactThanSgemm) {
  BaselineCase c{.m = 64, .k = 1024, .n = {512}};
  c.make(pool_);
  const auto worst = [&](std::string_view numerics) {
    const OnDevice on_device(Context::cuda(numerics), c);
    on_device.enqueue(nullptr);
    return c.worst_error(0, on_device.result(0), tolerance_of("sgemm", c.k));
  };
  EXPECT_LE(worst("sgemm"), 1.0);
  EXPECT_LE(worst("layercast"), 1.0);
  EXPECT_GT(worst("bf16"), 1.0);
}

TEST_F(LinearBaselineCuda, RunsInACapturedGraph) {
  BaselineCase c{.m = 16, .k = 512, .n = {256, 128}, .bias = true};
  c.make(pool_);
  for (const std::string_view numerics : kBaselines) {
    const Context context = Context::cuda(numerics);
    const OnDevice on_device(context, c);
    EXPECT_EQ(study::time_replays(*context.state().backend, 3, [&](void* stream) { on_device.enqueue(stream); }).size(),
              3U);
    for (std::size_t i = 0; i < c.n.size(); ++i)
      EXPECT_LE(c.worst_error(i, on_device.result(i), tolerance_of(numerics, c.k)), 1.0) << numerics;
  }
}

TEST_F(LinearBaselineCuda, LayerCastKeepsItsTransientCopyInTheWorkspace) {
  BaselineCase c{.m = 1, .k = 512, .n = {256, 1024}};
  c.make(pool_);
  const std::size_t sgemm = OnDevice(Context::cuda("sgemm"), c).workspace_bytes();
  EXPECT_EQ(OnDevice(Context::cuda("layercast"), c).workspace_bytes(), sgemm + 1024 * 512 * sizeof(float));
}

// Every 16-bit pattern, through the vector path and, shifted by one element, through the other.
TEST_F(LinearBaselineCuda, WideningIsExactForEveryWeight) {
  constexpr std::int64_t kPatterns = 65536;
  std::vector<std::uint16_t> bits(kPatterns);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  const DeviceBuffer from = upload(bits);
  const DeviceBuffer to(0, kPatterns * sizeof(float));
  for (const DType dtype : {DType::kBF16, DType::kF16})
    for (const std::int64_t shift : {0, 1}) {
      const std::int64_t count = kPatterns - shift;
      cuda::enqueue_widen(0, {from.as<std::uint16_t>() + shift, dtype, 1, count, count}, to.as<float>(), nullptr);
      const auto wide = download<float>(to, static_cast<std::size_t>(count));
      for (std::int64_t i = 0; i < count; ++i) {
        const float expected = widen(dtype, static_cast<std::uint32_t>(i + shift));
        const float got = wide[static_cast<std::size_t>(i)];
        if (std::isnan(expected) && std::isnan(got)) continue;
        ASSERT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(expected))
            << dtype_name(dtype) << " " << i + shift;
      }
    }
}

TEST_F(LinearBaselineCuda, RoundingIsToNearestEven) {
  std::vector<float> values = study::make_activations(5, 40, 1001);
  for (std::uint32_t i = 0; i < 1024; ++i)
    values[i] = std::bit_cast<float>(0x3f800000U + (i << 14));  // ties and halves
  const DeviceBuffer from = upload(values);
  for (const std::int64_t cols : {1001, 1000}) {  // not whole vectors, and rows that do not touch
    const DeviceBuffer to(0, static_cast<std::size_t>(40 * cols) * sizeof(std::uint16_t));
    cuda::enqueue_round_bf16(0, {from.as<float>(), 40, cols, 1001}, to.as<void>(), nullptr);
    const auto got = download<std::uint16_t>(to, static_cast<std::size_t>(40 * cols));
    for (std::int64_t row = 0; row < 40; ++row)
      for (std::int64_t column = 0; column < cols; ++column)
        ASSERT_EQ(got[static_cast<std::size_t>(row * cols + column)],
                  round_bf16(values[static_cast<std::size_t>(row * 1001 + column)]));
  }
}

}  // namespace
}  // namespace reprofuse
