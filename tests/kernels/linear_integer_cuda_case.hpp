// What the tests of linear layers that multiply integers on the GPU share: exact-1 and int16-1.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/linear/integer/linear.hpp"
#include "kernels/linear_cuda_case.hpp"
#include "numerics/float_ops.hpp"

namespace reprofuse::test {

// A kernel that a choice of schedules knows, and an H200 without memory.
inline cuda::integer::Kernel kernel_of(cuda::integer::SplitK split_k, int max_k_tiles) {
  return {.name = "test",
          .function = nullptr,
          .tile_m = 64,
          .tile_n = 64,
          .threads = 128,
          .shared_bytes = 0,
          .vector_loads = false,
          .split_k = split_k,
          .cost = {.k_tile = 1, .start = 3},
          .max_k_tiles = max_k_tiles,
          .mma_sync = split_k == cuda::integer::SplitK::kWorkspace,
          .ctas_per_sm = 1};
}

inline cuda::Device device_of_132() {
  return {.ordinal = 0,
          .sm_count = 132,
          .shared_bytes_per_cta = 0,
          .shared_bytes_per_sm = 0,
          .reserved_shared_bytes_per_cta = 0,
          .memory_bytes_per_clock = 0,
          .major = 9,
          .minor = 0,
          .architecture = "sm_90"};
}

// Forty tiles in clusters of three have fewer k-tiles each than in clusters of two; but where the device holds only 39
// such clusters, the last tile would wait for all others.
inline void expect_only_clusters_that_fit(int max_k_tiles) {
  const cuda::Device device = device_of_132();
  std::vector<cuda::integer::Kernel> kernels = {kernel_of(cuda::integer::SplitK::kCluster, max_k_tiles)};
  const cuda::integer::Problem problem{.m = 1, .k = 3072, .n = {40 * 64}, .vector_loads = false};
  kernels[0].at_once = {132, 66, 40, 30, 22, 17, 15, 0};
  EXPECT_EQ(cuda::integer::choose_schedule(device, kernels, problem).splits, 3);
  kernels[0].at_once[2] = 39;
  EXPECT_EQ(cuda::integer::choose_schedule(device, kernels, problem).splits, 2);
  for (const auto schedule : cuda::integer::possible_schedules(kernels, problem)) EXPECT_NE(schedule.splits, 8);
}

// The layers of a contract: what prepares one, what defines its bits, and a context that computes by it.
class IntegerLinearCuda : public ::testing::Test {
 protected:
  IntegerLinearCuda(const cuda::integer::ContractKernels& contract, decltype(Case::reference) reference,
                    Context (*open)())
      : contract_(contract), reference_(reference), open_(open) {}

  void SetUp() override {
    try {
      context_ = open_();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  // Operands that stay as they are, on every schedule.
  void expect_every_schedule_matches(Case& c, WeightUse use = WeightUse::kRead, int max_splits = 8) {
    c.reference = reference_;
    const std::vector<float> expected = c.expected();
    const WeightView weight = c.weight(c.device_w.as<void>());
    const cuda::integer::CudaLinear layer(contract_, {{.name = "test", .use = use}}, {&weight, 1});
    const Workspace workspace(*context_, layer.workspace_bytes(c.m));
    const LinearOutput output = c.gpu_output();
    const kernels::LinearCall call{c.gpu_x(), {&output, 1}, workspace.data(), nullptr};
    for (const auto schedule : layer.schedules(call)) {
      if (schedule.splits > max_splits) continue;
      c.poison();
      layer.run_with(call, schedule);
      EXPECT_FALSE(cuda::take_record(0, workspace.data(), nullptr)) << c.describe();
      const std::string name = layer.kernel_table()[static_cast<std::size_t>(schedule.kernel)].name;
      const auto difference = difference_to(c, expected);
      EXPECT_FALSE(difference) << c.describe() << " " << name << " splits " << schedule.splits << ": "
                               << difference->description();
      kernels_seen_ += name.starts_with("wgmma") ? 1 : 0;
      ++schedules_run_;
    }
  }

  void expect_matches_when_made(Case c, WeightUse use = WeightUse::kRead, int max_splits = 8) {
    c.make(pool_);
    expect_every_schedule_matches(c, use, max_splits);
  }

  void expect_tile_edges_match(std::initializer_list<std::int64_t> rows) {
    for (const DType dtype : kDTypes)
      for (const std::int64_t m : rows)
        expect_matches_when_made({.m = m, .n = 130, .k = 1088, .dtype = dtype, .bias = m % 2 == 0});
    EXPECT_GT(schedules_run_, 500);
    const bool has_wgmma = context_->description().find("sm_90") != std::string::npos;
    EXPECT_EQ(kernels_seen_ > 300, has_wgmma);
  }

  void expect_ragged_shapes_match(std::initializer_list<std::int64_t> terms) {
    for (const DType dtype : kDTypes)
      for (const std::int64_t n : {1, 63, 64, 65, 129, 193, 300, 385})
        for (const std::int64_t k : terms)
          expect_matches_when_made({.m = n % 11 + 1, .n = n, .k = k, .dtype = dtype, .bias = true});
  }

  void expect_strided_and_unaligned_rows_match() {
    for (const DType dtype : kDTypes)
      for (const std::int64_t m : {1, 33, 130}) {
        expect_matches_when_made(
            {.m = m, .n = 70, .k = 640, .dtype = dtype, .x_padding = 4, .w_padding = 8, .y_padding = 3});
        expect_matches_when_made(
            {.m = m, .n = 70, .k = 640, .dtype = dtype, .x_padding = 1, .w_padding = 3, .y_padding = 5});
        expect_matches_when_made({.m = m, .n = 70, .k = 640, .dtype = dtype, .x_offset = 1, .w_offset = 1});
      }
  }

  // Rows of zeros, of subnormals, near the largest number, with one element that dwarfs the others.
  void expect_extreme_rows_match() {
    Case c{.m = 6, .n = 66, .k = 264};
    c.make(pool_);
    const auto scale_row = [&](std::int64_t row, float factor) {
      for (std::int64_t k = 0; k < c.k; ++k) c.x[static_cast<std::size_t>(row * c.k + k)] *= factor;
    };
    scale_row(0, 0.0F);
    scale_row(1, 0x1p-130F);
    scale_row(2, 0x1p-105F);
    scale_row(3, 0x1p+90F);
    c.x[static_cast<std::size_t>(4 * c.k + 100)] = 0x1p+60F;
    for (std::int64_t k = 0; k < c.k; ++k) {
      store_weight(c.w.storage.data(), c.dtype, k, 0);             // row 0: zeros
      store_weight(c.w.storage.data(), c.dtype, c.k + k, 0x0001);  // row 1: the smallest subnormal
      store_weight(c.w.storage.data(), c.dtype, 2 * c.k + k, k == 9 ? 0x4f00 : 0x3f80);  // row 2: one giant
    }
    c.send();
    expect_every_schedule_matches(c);
  }

  void expect_too_many_terms_are_refused(std::int64_t max_terms) {
    const DeviceBuffer memory(0, static_cast<std::size_t>(max_terms + 1) * 2);
    const WeightView beyond{memory.as<void>(), DType::kBF16, 1, max_terms + 1, max_terms + 1};
    EXPECT_THROW(LinearLayer(*context_, {&beyond, 1}), Error);
  }

  // Ten outputs are two launches; each output has its own size, bias and place.
  void expect_fused_outputs_match(std::int64_t m) {
    std::vector<Case> cases;
    std::vector<WeightView> weights;
    std::vector<LinearOutput> outputs;
    const std::int64_t sizes[] = {256, 128, 3, 300, 129, 64, 1, 16, 77, 130};
    for (std::size_t i = 0; i < std::size(sizes); ++i) {
      cases.push_back({.m = m, .n = sizes[i], .k = 1040, .bias = i % 2 == 0, .y_padding = static_cast<int>(i)});
      cases.back().reference = reference_;
      cases.back().make(pool_);
    }
    for (Case& c : cases) {
      c.poison();
      weights.push_back(c.weight(c.device_w.as<void>()));
      outputs.push_back(c.gpu_output());
    }
    const LinearLayer layer(*context_, weights, "fused");
    const Workspace workspace(*context_, layer.workspace_bytes(m));
    layer.run(cases[0].gpu_x(), outputs, workspace);
    check_workspace(*context_, workspace.data(), nullptr);
    for (const Case& c : cases) {
      const auto difference = difference_to(c, c.expected());
      EXPECT_FALSE(difference) << c.describe() << ": " << difference->description();
    }
  }

  void expect_non_finite_operands_to_be_named() {
    Case c{.m = 60, .n = 200, .k = 1024};
    c.make(pool_);
    c.x[static_cast<std::size_t>(5 * c.k + 700)] = std::numeric_limits<float>::quiet_NaN();
    c.send();
    const WeightView weight = c.weight(c.device_w.as<void>());
    const LinearLayer layer(*context_, {&weight, 1}, "qkv");
    const Workspace workspace(*context_, layer.workspace_bytes(c.m));
    const LinearOutput output = c.gpu_output();
    layer.run(c.gpu_x(), {&output, 1}, workspace);
    try {
      check_workspace(*context_, workspace.data(), nullptr);
      FAIL() << "a NaN passed silently";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "linear 'qkv' row 5 column 0: the result is not finite");
    }
    store_weight(c.w.storage.data(), c.dtype, 17 * c.k + 3, 0x7f80);
    c.send();
    try {
      const WeightView infinite = c.weight(c.device_w.as<void>());
      const LinearLayer refused(*context_, {&infinite, 1}, "head");
      FAIL() << "an infinite weight was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kNonFinite);
      EXPECT_STREQ(error.what(), "linear 'head' weight 0 row 17: a weight is not finite");
    }
  }

  // The control: the bits of the other contract must show in the comparison used above.
  void expect_other_bits_to_be_caught() {
    Case c{.m = 4, .n = 64, .k = 1300};
    c.make(pool_);
    const WeightView weight = c.weight(c.device_w.as<void>());
    const LinearLayer layer(*context_, {&weight, 1});
    const Workspace workspace(*context_, layer.workspace_bytes(c.m));
    const LinearOutput output = c.gpu_output();
    c.poison();
    layer.run(c.gpu_x(), {&output, 1}, workspace);
    EXPECT_TRUE(difference_to(c, c.expected()));  // of fma-1
  }

  const cuda::integer::ContractKernels& contract_;
  decltype(Case::reference) reference_;
  Context (*open_)();
  std::optional<Context> context_;
  ThreadPool pool_{4};
  int schedules_run_ = 0;
  int kernels_seen_ = 0;  // runs of kernels by wgmma
};

}  // namespace reprofuse::test
