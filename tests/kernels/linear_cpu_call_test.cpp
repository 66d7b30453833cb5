// What a call may hand to a linear layer, and who may call: overlaps, alignment, sizes, threads, numbers of layers.
#include <algorithm>
#include <atomic>
#include <limits>
#include <thread>

#include "ops/context_state.hpp"
#include "support/linear_cpu_case.hpp"

namespace reprofuse {
namespace {

// One matrix holds x and two outputs side by side; a view of it is a range of its columns.
class Slices : public ::testing::Test {
 protected:
  static constexpr std::int64_t kM = 3, kK = 8, kN = 4, kStride = 24;

  std::string run(std::int64_t m, std::int64_t x, std::int64_t y0, std::int64_t y1, std::int64_t stride = kStride,
                  const float* bias = nullptr) {
    std::fill(memory_.begin(), memory_.end(), 1.0F);
    const LinearOutput outputs[] = {{{memory_.data() + y0, m, kN, stride}, bias},
                                    {{memory_.data() + y1, m, kN, stride}, nullptr}};
    return message_of(ErrorCode::kInvalidArgument, [&] {
      layer_.run({memory_.data() + x, m, kK, kStride}, outputs, Workspace(context_, layer_.workspace_bytes(m)));
    });
  }

  std::vector<float> memory_ = std::vector<float>(200, 1.0F);
  std::vector<float> weight_ = std::vector<float>(kN * kK, 0.5F);
  WeightView views_[2] = {{weight_.data(), DType::kF32, kN, kK, kK}, {weight_.data(), DType::kF32, kN, kK, kK}};
  Context context_ = cpu_context(Isa::kScalar, 2);
  LinearLayer layer_ = LinearLayer(context_, views_, "sliced");
};

TEST_F(Slices, ColumnsOfOneMatrixAreNoOverlap) {
  for (const std::int64_t m : {std::int64_t{1}, kM}) {
    EXPECT_EQ(run(m, 0, 8, 12), "no error");
    EXPECT_EQ(run(m, 0, 20, 8), "no error");
    EXPECT_EQ(run(m, 16, 12, 0), "no error");
    EXPECT_EQ(run(m, 8, 4, kStride), "no error") << "the second output starts a row later";
  }
  EXPECT_EQ(memory_[4], 4.0F) << "eight products of 1 and 0.5";
}

TEST_F(Slices, AnOutputOverXIsRefusedAtEveryBatchSize) {
  for (const std::int64_t m : {std::int64_t{1}, kM})
    for (const std::int64_t y : {0, 3, 7})
      EXPECT_EQ(run(m, 0, y, 16), "linear 'sliced' output 0: y overlaps x") << "m " << m << " y " << y;
  EXPECT_EQ(run(kM, 4, 8, 0), "linear 'sliced' output 0: y overlaps x");
  EXPECT_EQ(run(kM, 4, 1, 16), "linear 'sliced' output 0: y overlaps x");
  EXPECT_EQ(run(kM, 0, kStride - 2, 12), "linear 'sliced' output 0: y overlaps x") << "around the end of a row";
  EXPECT_EQ(run(kM, kStride, 100, 2 * kStride), "linear 'sliced' output 1: y overlaps x") << "from its second row on";
  EXPECT_EQ(run(kM, 0, 10, 150, 9), "linear 'sliced' output 0: y overlaps x") << "with another stride";
}

TEST_F(Slices, AnOutputOverAnotherOrOverABiasIsRefused) {
  for (const std::int64_t m : {std::int64_t{1}, kM}) {
    EXPECT_EQ(run(m, 0, 8, 11), "linear 'sliced' output 1: y overlaps that of output 0");
    EXPECT_EQ(run(m, 0, 11, 8), "linear 'sliced' output 1: y overlaps that of output 0");
    EXPECT_EQ(run(m, 0, 8, 12, kStride, memory_.data() + 14),
              "linear 'sliced' output 1: y overlaps the bias of output 0");
    EXPECT_EQ(run(m, 0, 8, 12, kStride, memory_.data() + 16), "no error") << "a bias in the padding";
  }
  EXPECT_EQ(run(kM, 0, 8, 12, kStride, memory_.data() + 2 * kStride + 11),
            "linear 'sliced' output 0: y overlaps the bias of output 0");
}

TEST_F(Slices, PointersOffAFloatsAlignmentAreRefused) {
  const auto misaligned = [](float* pointer) {
    return reinterpret_cast<float*>(reinterpret_cast<std::uintptr_t>(pointer) + 2);
  };
  const auto call = [&](const float* x, float* y, const float* bias) {
    const LinearOutput outputs[] = {{{y, 1, kN, kN}, bias}, {{memory_.data() + 50, 1, kN, kN}, nullptr}};
    return message_of(ErrorCode::kInvalidArgument, [&] { layer_.run({x, 1, kK, kK}, outputs, {nullptr, 0}); });
  };
  float* x = memory_.data();
  float* y = x + 60;
  float* bias = x + 70;
  EXPECT_EQ(call(x, y, bias), "no error");
  EXPECT_EQ(call(misaligned(x), y, bias), "linear 'sliced': the x pointer is not aligned to a float");
  EXPECT_EQ(call(x, misaligned(y), bias), "linear 'sliced' output 0: the y pointer is not aligned to a float");
  EXPECT_EQ(call(x, y, misaligned(bias)), "linear 'sliced' output 0: the bias pointer is not aligned to a float");
}

TEST(LinearCpuSizes, ProductsThatOverflowAreRefused) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 60;  // kHuge * 4 columns * 4 bytes is 2 to the 64: nothing at all
  const std::vector<float> ones(16, 1.0F);
  const Context context = cpu_context(Isa::kScalar);
  const auto prepare = [&](std::int64_t n, std::int64_t k, std::int64_t stride) {
    const WeightView view{ones.data(), DType::kF32, n, k, stride};
    return message_of(ErrorCode::kInvalidArgument, [&] { LinearLayer(context, std::span(&view, 1), "vast"); });
  };
  EXPECT_EQ(prepare(kHuge, 4, 4),
            "linear 'vast' weight 0: 1152921504606846976 rows with row stride 4 are larger than any memory");
  EXPECT_EQ(prepare(4, 4, kHuge),
            "linear 'vast' weight 0: 4 rows with row stride 1152921504606846976 are larger than any memory");
  EXPECT_EQ(prepare(1, kHuge, kHuge),
            "linear 'vast': 1 panels of 1152921504606846976 words are larger than any memory");

  const WeightView view{ones.data(), DType::kF32, 4, 4, 4};
  const LinearLayer layer(context, std::span(&view, 1), "small");
  EXPECT_EQ(message_of(ErrorCode::kInvalidArgument, [&] { layer.workspace_bytes(kHuge); }),
            "a workspace for 1152921504606846976 rows of k = 4 is larger than any memory");
  std::vector<float> y(4);
  const LinearOutput output{.y = {y.data(), kHuge, 4, 4}};
  EXPECT_EQ(message_of(ErrorCode::kInvalidArgument,
                       [&] {
                         layer.run({ones.data(), kHuge, 4, 4}, std::span(&output, 1), {nullptr, 0});
                       }),
            "linear 'small': x of 1152921504606846976 rows with row stride 4 is larger than any memory");
  EXPECT_EQ(message_of(ErrorCode::kInvalidArgument, [&] { Workspace(context, SIZE_MAX); }),
            "a workspace of 18446744073709551615 bytes is larger than any memory");
}

TEST(LinearCpuThreads, SeveralThreadsRunOneLayerEachWithItsOwnWorkspace) {
  const CaseData good({.m = 14, .n = 70, .k = 700, .dtype = DType::kBF16, .bias = true});
  std::vector<float> spoilt(static_cast<std::size_t>(14 * 700), 1.0F);
  spoilt[5 * 700 + 3] = std::numeric_limits<float>::infinity();
  const Context context = cpu_context(supported_isas().back(), 2);
  const LinearLayer layer = make_layer(context, good);
  std::atomic<int> right = 0;
  std::atomic<int> reported = 0;
  const auto call = [&](std::int64_t rows) {
    for (int round = 0; round < 20; ++round) {
      if (matches_reference(context, layer, good, rows)) ++right;
      std::vector<float> y(14 * 70);
      const LinearOutput output{.y = {y.data(), 14, 70, 70}};
      const std::string message = message_of(ErrorCode::kNonFinite, [&] {
        layer.run({spoilt.data(), 14, 700, 700}, std::span(&output, 1), Workspace(context, layer.workspace_bytes(14)));
      });
      if (message == "linear 'tested' row 5 column 0: the result is not finite") ++reported;
    }
  };
  std::vector<std::thread> threads;
  for (const std::int64_t rows : {1, 2, 13, 14}) threads.emplace_back(call, rows);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 80);
  EXPECT_EQ(reported, 80);
}

TEST(LinearCpuLayers, AContextHoldsMoreLayersThanADevicesRecordCanName) {
  const Context context = cpu_context(Isa::kScalar);
  const float one = 1.0F;
  const float infinity = std::numeric_limits<float>::infinity();
  const WeightView view{&one, DType::kF32, 1, 1, 1};
  std::vector<LinearLayer> layers;
  for (int i = 0; i < 70'000; ++i) layers.emplace_back(context, std::span(&view, 1), fmt::format("layer {}", i));
  float y = 0.0F;
  const LinearOutput output{.y = {&y, 1, 1, 1}};
  EXPECT_EQ(message_of(ErrorCode::kNonFinite,
                       [&] {
                         layers[69'999].run({&infinity, 1, 1, 1}, std::span(&output, 1), {nullptr, 0});
                       }),
            "linear 'layer 69999' row 0 column 0: the result is not finite");
}

TEST(RegisteredOps, AContextNamesManyAtATimeAndAnyNumberInItsLife) {
  const Context context = cpu_context(Isa::kScalar);
  const OpRegistry& registry = context.state().ops;
  std::vector<RegisteredOp> ops;
  for (int i = 0; i < 65535; ++i) ops.emplace_back(context, "early", std::vector<std::int64_t>{1});
  EXPECT_EQ(message_of(ErrorCode::kInvalidArgument, [&] { RegisteredOp(context, "one more", {1}); }),
            "a context holds at most 65535 ops at a time");
  const unsigned last = ops.back().index();
  ops.pop_back();
  EXPECT_EQ(message_of(ErrorCode::kNonFinite,
                       [&] {
                         registry.fail_non_finite(last, {2, 0});
                       }),
            "linear 'early' row 2 column 0: the result is not finite");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(RegisteredOp(context, "brief", {1}).index(), last);
  const RegisteredOp late(context, "late", {4, 4});
  EXPECT_EQ(message_of(ErrorCode::kNonFinite,
                       [&] {
                         registry.fail_non_finite(late.index(), {2, 5});
                       }),
            "linear 'late' output 1 row 2 column 1: the result is not finite");
}

}  // namespace
}  // namespace reprofuse
