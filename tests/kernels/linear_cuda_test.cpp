// fma-1 on the GPU: every kernel, split or not, gives the reference's bits at every shape.
#include <cuda_runtime.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "kernels/cuda/linear/fma1/linear.hpp"
#include "kernels/cuda/linear/fma1/params.hpp"
#include "kernels/cuda/runtime/device.hpp"
#include "kernels/linear_cuda_case.hpp"
#include "kernels/reference/reference.hpp"
#include "numerics/float_ops.hpp"
#include "reprofuse/reprofuse.hpp"
#include "study/probe/probe.hpp"
#include "study/seeded/inputs.hpp"
#include "support/altered_linear.hpp"
#include "support/device_buffer.hpp"

namespace reprofuse {
namespace {

using cuda::DeviceBuffer;
using cuda::fma1::CudaLinear;
using cuda::fma1::Kernel;
using cuda::fma1::Schedule;
using test::Case;
using test::kDTypes;
using test::kPoison;

class LinearCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      context_ = Context::cuda();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  void expect_equal(const Case& c, const std::vector<float>& expected, const std::string& what) {
    const auto difference = test::difference_to(c, expected);
    EXPECT_FALSE(difference) << c.describe() << " " << what << ": " << difference->description();
  }

  void expect_every_schedule_matches(Case& c) {
    c.make(pool_);
    const std::vector<float> expected = c.expected();
    const WeightView weight = c.weight(c.device_w.as<void>());
    const CudaLinear layer({{.name = "test"}}, {&weight, 1});
    const Workspace workspace(*context_, layer.workspace_bytes(c.m));
    const LinearOutput output = c.gpu_output();
    const kernels::LinearCall call{c.gpu_x(), {&output, 1}, workspace.data(), nullptr};
    for (const Schedule schedule : layer.schedules(call)) {
      c.poison();
      layer.run_with(call, schedule);
      EXPECT_FALSE(cuda::take_record(0, workspace.data(), nullptr)) << c.describe();
      const char* name = layer.kernel_table()[static_cast<std::size_t>(schedule.kernel)].name;
      expect_equal(c, expected, fmt::format("{}{}", name, schedule.split_k ? " split" : ""));
      ++schedules_run_;
    }
  }

  std::optional<Context> context_;
  ThreadPool pool_{4};
  int schedules_run_ = 0;
};

TEST_F(LinearCuda, EveryScheduleHasTheReferenceBitsAtTileEdges) {
  for (const DType dtype : kDTypes)
    for (const std::int64_t m : {1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200}) {
      Case c{.m = m, .n = 130, .k = 1088, .dtype = dtype, .bias = m % 2 == 0};
      expect_every_schedule_matches(c);
    }
  RecordProperty("schedules_run", schedules_run_);
  EXPECT_GT(schedules_run_, 200);
}

TEST_F(LinearCuda, EveryScheduleHasTheReferenceBitsAtRaggedShapes) {
  for (const DType dtype : kDTypes)
    for (const std::int64_t n : {1, 2, 127, 128, 129, 255, 257, 515})
      for (const std::int64_t k : {1, 2, 3, 7, 8, 24, 40, 504, 511, 512, 513, 520, 1024, 1032, 1537}) {
        Case c{.m = n % 3 + 1, .n = n, .k = k, .dtype = dtype, .bias = true};
        expect_every_schedule_matches(c);
      }
}

// Seven segments: sets of warps that take them in turn hand the total on more than once round.
TEST_F(LinearCuda, EveryScheduleHasTheReferenceBitsOverManySegments) {
  for (const DType dtype : kDTypes) {
    Case c{.m = 5, .n = 130, .k = 3080, .dtype = dtype};
    expect_every_schedule_matches(c);
  }
}

// More tiles than SMs: CTAs that share one have fewer stages.
TEST_F(LinearCuda, EveryScheduleHasTheReferenceBitsOverManyCtas) {
  for (const DType dtype : kDTypes) {
    Case c{.m = 5, .n = 20'000, .k = 1088, .dtype = dtype};
    expect_every_schedule_matches(c);
  }
}

TEST_F(LinearCuda, StridedAndUnalignedRowsHaveTheReferenceBits) {
  for (const DType dtype : kDTypes)
    for (const std::int64_t m : {1, 7, 33, 130}) {
      Case padded{.m = m, .n = 70, .k = 640, .dtype = dtype, .x_padding = 4, .w_padding = 8, .y_padding = 3};
      expect_every_schedule_matches(padded);
      Case odd_x{.m = m, .n = 70, .k = 640, .dtype = dtype, .x_padding = 1};  // of a single row, any stride will do
      expect_every_schedule_matches(odd_x);
      Case odd{.m = m, .n = 70, .k = 640, .dtype = dtype, .x_padding = 1, .w_padding = 3, .y_padding = 5};
      expect_every_schedule_matches(odd);
      Case shifted{.m = m, .n = 70, .k = 640, .dtype = dtype, .x_offset = 1, .w_offset = 1};
      expect_every_schedule_matches(shifted);
    }
}

// Products that underflow leave -0 in the chain; padding k with +0 would turn it into +0.
TEST_F(LinearCuda, NegativeZeroSurvivesTheEdgeOfK) {
  for (const DType dtype : {DType::kBF16, DType::kF32})
    for (const std::int64_t k : {8, 24, 520, 13}) {
      Case c{.m = 33, .n = 130, .k = k, .dtype = dtype};
      c.make(pool_);
      for (float& value : c.x) value = -0x1p-140F;
      const std::uint32_t tiny = dtype == DType::kBF16 ? 0x0080 : 0x00800000;  // 2^-126
      for (std::int64_t i = 0; i < c.n * c.k; ++i) store_weight(c.w.storage.data(), dtype, i, tiny);
      c.send();
      const std::vector<float> expected = c.expected();
      EXPECT_TRUE(std::signbit(expected[0]) && expected[0] == 0.0F);
      const std::vector<float> positive(expected.size(), 0.0F);  // what padding with +0 would give must not pass
      EXPECT_TRUE(study::first_difference({positive.data(), c.m, c.n, c.n}, {expected.data(), c.m, c.n, c.n}));
      const WeightView weight = c.weight(c.device_w.as<void>());
      const CudaLinear layer({{.name = "test"}}, {&weight, 1});
      const Workspace workspace(*context_, layer.workspace_bytes(c.m));
      const LinearOutput output = c.gpu_output();
      const kernels::LinearCall call{c.gpu_x(), {&output, 1}, workspace.data(), nullptr};
      for (const Schedule schedule : layer.schedules(call)) {
        c.poison();
        layer.run_with(call, schedule);
        expect_equal(c, expected, layer.kernel_table()[static_cast<std::size_t>(schedule.kernel)].name);
      }
    }
}

TEST_F(LinearCuda, RowBitsDoNotDependOnBatchSize) {
  for (const DType dtype : kDTypes) {
    Case c{.m = 600, .n = 136, .k = 1600, .dtype = dtype};
    c.make(pool_);
    const std::vector<float> expected = c.expected();
    const WeightView weight = c.weight(c.device_w.as<void>());
    const LinearLayer layer(*context_, {&weight, 1});
    const Workspace workspace(*context_, layer.workspace_bytes(c.m));
    for (const std::int64_t m : {1, 2, 3, 4, 8, 9, 16, 17, 32, 33, 64, 65, 128, 129, 256, 257, 512, 513, 600}) {
      c.poison();
      ConstMatrix x = c.gpu_x();
      LinearOutput output = c.gpu_output();
      x.rows = output.y.rows = m;
      layer.run(x, {&output, 1}, workspace);
      check_workspace(*context_, workspace.data(), nullptr);
      const std::vector<float> got = c.result();
      const auto difference = study::first_difference({got.data(), m, c.n, c.n}, {expected.data(), m, c.n, c.n});
      EXPECT_FALSE(difference) << "m " << m << ": " << difference->description();
      EXPECT_EQ(std::count(got.begin() + m * c.n, got.end(), kPoison), (c.m - m) * c.n) << "rows beyond m were written";
    }
  }
}

// Ten outputs are two launches; each output has its own size, bias and place.
TEST_F(LinearCuda, FusedOutputsHaveTheBitsOfSeparateOnes) {
  for (const std::int64_t m : {1, 6, 40, 150}) {
    std::vector<Case> cases;
    std::vector<WeightView> weights;
    std::vector<LinearOutput> outputs;
    const std::int64_t sizes[] = {256, 128, 3, 300, 129, 64, 1, 16, 77, 130};
    for (std::size_t i = 0; i < std::size(sizes); ++i) {
      cases.push_back({.m = m, .n = sizes[i], .k = 1040, .bias = i % 2 == 0, .y_padding = static_cast<int>(i)});
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
    for (const Case& c : cases) expect_equal(c, c.expected(), "fused");
  }
}

TEST_F(LinearCuda, NonFiniteResultIsAnErrorThatNamesThePlace) {
  for (const std::int64_t m : {8, 60, 300}) {
    Case c{.m = m, .n = 200, .k = 1024};
    c.make(pool_);
    c.x[static_cast<std::size_t>(5 * c.k + 700)] = std::numeric_limits<float>::quiet_NaN();
    c.x[static_cast<std::size_t>(7 * c.k + 3)] = std::numeric_limits<float>::infinity();
    c.send();
    const std::vector<WeightView> weights(2, c.weight(c.device_w.as<void>()));
    const LinearLayer layer(*context_, weights, "qkv");
    const Workspace workspace(*context_, layer.workspace_bytes(m));
    const DeviceBuffer other(0, static_cast<std::size_t>(m * c.n) * 4);
    const LinearOutput outputs[] = {c.gpu_output(), {{other.as<float>(), m, c.n, c.n}, nullptr}};
    layer.run(c.gpu_x(), outputs, workspace);
    try {
      check_workspace(*context_, workspace.data(), nullptr);
      FAIL() << "a NaN passed silently";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kNonFinite);
      EXPECT_STREQ(error.what(), "linear 'qkv' output 0 row 5 column 0: the result is not finite");
    }
    check_workspace(*context_, workspace.data(), nullptr);  // the record was cleared
  }
}

// Capture alone computes nothing, so what is found after one replay is the graph's work, done on the stream it was
// given.
TEST_F(LinearCuda, CapturedGraphReplaysTheSameBits) {
  for (const std::int64_t m : {1, 32, 200}) {
    Case c{.m = m, .n = 384, .k = 2048};
    c.make(pool_);
    c.poison();
    const WeightView weight = c.weight(c.device_w.as<void>());
    const LinearLayer layer(*context_, {&weight, 1});
    const Workspace workspace(*context_, layer.workspace_bytes(m));
    const LinearOutput output = c.gpu_output();
    cudaStream_t stream;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    layer.run(c.gpu_x(), {&output, 1}, workspace, stream);
    cudaGraph_t graph;
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    const std::vector<float> untouched = c.result();
    EXPECT_EQ(std::count(untouched.begin(), untouched.end(), kPoison), m * c.n) << "capture ran kernels";
    cudaGraphExec_t replay;
    ASSERT_EQ(cudaGraphInstantiate(&replay, graph, 0), cudaSuccess);
    ASSERT_EQ(cudaGraphLaunch(replay, stream), cudaSuccess);
    check_workspace(*context_, workspace.data(), stream);
    expect_equal(c, c.expected(), "replayed");
    cudaGraphExecDestroy(replay);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
  }
}

TEST_F(LinearCuda, HostPointersAreRefused) {
  const std::vector<float> host(8);
  const WeightView weight{host.data(), DType::kF32, 2, 4, 4};
  try {
    const LinearLayer layer(*context_, {&weight, 1}, "head");
    FAIL() << "host memory was taken for device memory";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "linear 'head' weight 0: the data pointer is not CUDA device memory");
  }
}

// More segments than a grid has CTAs in its third dimension: the split must not be chosen.
TEST_F(LinearCuda, VeryLongRowsHaveTheReferenceBits) {
  Case c{.m = 1, .n = 1, .k = (std::int64_t{1} << 25) + 8};
  c.make(pool_);
  const WeightView weight = c.weight(c.device_w.as<void>());
  const LinearLayer layer(*context_, {&weight, 1});
  const Workspace workspace(*context_, layer.workspace_bytes(c.m));
  const LinearOutput output = c.gpu_output();
  layer.run(c.gpu_x(), {&output, 1}, workspace);
  check_workspace(*context_, workspace.data(), nullptr);
  expect_equal(c, c.expected(), "long row");
}

// The controls: another order, an unfused product or a shorter segment must show in the comparison used above.
TEST_F(LinearCuda, AlteredOrdersWouldBeCaught) {
  Case c{.m = 4, .n = 64, .k = 1300};
  c.make(pool_);
  const WeightView weight = c.weight(c.device_w.as<void>());
  const LinearLayer layer(*context_, {&weight, 1});
  const Workspace workspace(*context_, layer.workspace_bytes(c.m));
  const LinearOutput output = c.gpu_output();
  layer.run(c.gpu_x(), {&output, 1}, workspace);
  check_workspace(*context_, workspace.data(), nullptr);
  const std::vector<float> got = c.result();
  using study::Alteration;
  for (const Alteration alteration :
       {Alteration::kNone, Alteration::kFoldDescending, Alteration::kUnfused, Alteration::kHalfSegments}) {
    std::vector<float> altered(got.size());
    study::AlteredLinear(alteration, c.weight(c.w.storage.data()))
        .run(c.host_x(), nullptr, {altered.data(), c.m, c.n, c.n});
    const auto difference = study::first_difference({got.data(), c.m, c.n, c.n}, {altered.data(), c.m, c.n, c.n});
    EXPECT_EQ(difference.has_value(), alteration != Alteration::kNone) << static_cast<int>(alteration);
  }
}

// Needs no device: what a launch asks for follows from numbers.
TEST(LinearFma1Schedule, CtasGetTheStagesThatFitAndAnSmNoMoreCtasThanItNeeds) {
  constexpr int kReserved = 1024;
  int placed = 0;
  for (const int kib : {227, 99}) {  // of a CTA, on compute capability 9.0 and 12.0
    const cuda::Device device{.ordinal = 0,
                              .sm_count = 132,
                              .shared_bytes_per_cta = kib * 1024,
                              .shared_bytes_per_sm = kib * 1024 + kReserved,
                              .reserved_shared_bytes_per_cta = kReserved,
                              .memory_bytes_per_clock = 0,
                              .major = 9,
                              .minor = 0,
                              .architecture = "sm_90"};
    for (std::vector<Kernel> table : {cuda::fma1::kernels_bf16(), cuda::fma1::kernels_f16(), cuda::fma1::kernels_f32()})
      for (Kernel& kernel : table)
        for (const bool folds : {false, true}) {
          if (kernel.stage_bytes == 0) continue;
          const int fixed = kernel.shared_bytes + (folds ? kernel.fold_bytes : 0);
          const int least = fixed + cuda::fma1::kMinStages * kernel.stage_bytes;
          kernel.ctas_per_sm = kernel.ctas_per_sm_fold = device.shared_bytes_per_sm / (least + kReserved);
          if (kernel.ctas_per_sm == 0) continue;
          for (const std::int64_t ctas : {1, 131, 132, 133, 264, 265, 1000}) {
            const auto place = cuda::fma1::place(device, kernel, ctas, folds);
            const std::string what = fmt::format("{}, {} KiB, {} CTAs", kernel.name, kib, ctas);
            EXPECT_GE(place.stages, cuda::fma1::kMinStages) << what;
            EXPECT_LE(place.stages, cuda::fma1::kMaxStages) << what;
            EXPECT_GE(place.shared_bytes, fixed + place.stages * kernel.stage_bytes) << what;
            EXPECT_LE(place.shared_bytes, device.shared_bytes_per_cta) << what;
            EXPECT_LE(place.ctas_per_sm, (ctas + 131) / 132) << what;
            const int per_cta = place.shared_bytes + kReserved;
            EXPECT_LE(place.ctas_per_sm * per_cta, device.shared_bytes_per_sm) << what;
            EXPECT_GT((place.ctas_per_sm + 1) * per_cta, device.shared_bytes_per_sm) << what << ": more would fit";
            ++placed;
          }
        }
  }
  EXPECT_GT(placed, 300);
}

}  // namespace
}  // namespace reprofuse
