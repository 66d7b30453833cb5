// The ablated layer on the GPU: in IEEE arithmetic it has the bits of its CPU copy for every tile and split, and on
// tensor cores it has the error of their operands.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "kernels/cuda/runtime/device.hpp"
#include "reprofuse/error.hpp"
#include "study/ablate_support.hpp"
#include "study/ablation/ablate.hpp"
#include "study/ablation/kernels/linear.hpp"
#include "study/probe/probe.hpp"
#include "support/device_buffer.hpp"

namespace reprofuse::study {
namespace {

using ablation::Arithmetic;
using ablation::Merge;
using ablation::Variant;

constexpr int kDevice = 0;
constexpr float kPoison = 12345.678F;

class AblatedCudaLayer : public testing::Test {
 protected:
  static constexpr std::int64_t kM = 37, kN = 131, kK = 1604;  // no tile divides any of them

  void SetUp() override {
    try {
      Context::cuda();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    device_x_ = upload(x_.data(), x_.size() * sizeof(float));
    device_w_ = upload(weights_.storage.data(), weights_.storage.size());
  }

  static cuda::DeviceBuffer upload(const void* data, std::size_t bytes) {
    cuda::DeviceBuffer buffer(kDevice, bytes);
    cuda::copy_to_device(buffer.as<void>(), data, bytes);
    return buffer;
  }

  std::vector<float> on_gpu(const Variant& variant) const {
    const std::vector<float> poison(kM * kN, kPoison);
    const cuda::DeviceBuffer y = upload(poison.data(), poison.size() * sizeof(float));
    const cuda::DeviceBuffer partials(kDevice, cuda::ablation::partial_bytes(variant, kM, kN, kK) + sizeof(float));
    cuda::ablation::enqueue_linear(kDevice, variant,
                                   {{device_x_.as<float>(), kM, kK, kK},
                                    {device_w_.as<void>(), DType::kBF16, kN, kK, kK},
                                    {y.as<float>(), kM, kN, kN},
                                    partials.as<float>()},
                                   nullptr);
    std::vector<float> result(kM * kN);
    cuda::copy_to_host(result.data(), y.as<void>(), result.size() * sizeof(float));
    return result;
  }

  std::vector<float> on_cpu(const Variant& variant) {
    const ablation::CpuLinear layer(weights_.view(), supported_isas().back(), pool_);
    std::vector<float> y(kM * kN);
    layer.run(variant, {x_.data(), kM, kK, kK}, {y.data(), kM, kN, kN});
    return y;
  }

  void expect_cpu_bits(const Variant& variant) {
    const auto difference = first_difference(matrix_of(on_gpu(variant), kM, kN), matrix_of(on_cpu(variant), kM, kN));
    EXPECT_FALSE(difference) << to_string(variant) << ": " << difference->description();
  }

  ThreadPool pool_{2};
  std::vector<float> x_ = make_activations(1, kM, kK);
  Weights weights_ = make_weights(2, DType::kBF16, kN, kK, pool_);
  cuda::DeviceBuffer device_x_, device_w_;
};

TEST_F(AblatedCudaLayer, HasTheBitsOfItsCpuCopyForEveryTileAndSplit) {
  EXPECT_GE(cuda::ablation::tiles().size(), 18U);
  for (const ablation::Tile& tile : cuda::ablation::tiles())
    for (const int splits : {ablation::kOnePerSegment, 1, 2, 3, 8}) expect_cpu_bits({.tile = tile, .splits = splits});
  expect_cpu_bits({.arithmetic = Arithmetic::kMultiplyThenAdd});
}

TEST_F(AblatedCudaLayer, EverySwitchMovesBits) {
  const Variant variants[] = {{},
                              {.arithmetic = Arithmetic::kMultiplyThenAdd},
                              {.arithmetic = Arithmetic::kTf32},
                              {.arithmetic = Arithmetic::kTf32x3},
                              {.arithmetic = Arithmetic::kBf16},
                              {.splits = 1},
                              {.splits = 2}};
  std::set<std::vector<float>> outcomes;
  for (const Variant& variant : variants) EXPECT_TRUE(outcomes.insert(on_gpu(variant)).second) << to_string(variant);
}

TEST_F(AblatedCudaLayer, TensorCoresHaveTheErrorOfTheirOperands) {
  const auto worst = [&](const Variant& variant) {
    const std::vector<float> got = on_gpu(variant), ieee = on_gpu({});
    float error = 0, scale = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      error = std::max(error, std::abs(got[i] - ieee[i]));
      scale = std::max(scale, std::abs(ieee[i]));
    }
    return error / scale;
  };
  const float tf32 = worst({.arithmetic = Arithmetic::kTf32}), bf16 = worst({.arithmetic = Arithmetic::kBf16});
  EXPECT_LT(worst({.arithmetic = Arithmetic::kTf32x3}), 1e-5F);
  EXPECT_GT(tf32, 2e-5F);
  EXPECT_LT(tf32, 2e-3F);
  EXPECT_GT(bf16, tf32);
  EXPECT_LT(bf16, 2e-2F);
}

TEST_F(AblatedCudaLayer, AtomicAdditionsGiveTheSumInSomeOrder) {
  const std::vector<float> raced = on_gpu({.merge = Merge::kAtomic}), ordered = on_gpu({});
  for (std::size_t i = 0; i < raced.size(); ++i) EXPECT_NEAR(raced[i], ordered[i], 1e-4) << i;
}

TEST_F(AblatedCudaLayer, AKernelThatDoesNotExistIsAnError) {
  EXPECT_THROW(on_gpu({.tile = {48, 128, 32}}), Error);
  EXPECT_THROW(on_gpu({.arithmetic = Arithmetic::kTf32, .tile = {16, 64, 16}}), Error);
}

TEST_F(AblatedCudaLayer, TheExperimentsHoldOnSmallCases) {
  const auto machine = make_cuda_ablation_machine();
  AblationOptions options = small_options();
  options.cases = {{"decode", CaseKind::kDecode, 5, 640, 1604}, {"ragged", CaseKind::kRagged, 100, 1000, 1000}};
  for (const auto run : {ablate_r1, ablate_r2, ablate_r3, ablate_r4}) {
    const Experiment found = run(*machine, options);
    EXPECT_TRUE(all_claims_hold(std::span(&found, 1))) << to_markdown(found);
    EXPECT_EQ(found.analogue, "");
  }
}

}  // namespace
}  // namespace reprofuse::study
