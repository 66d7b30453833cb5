// Ops that leave their results as digits on the GPU: the bytes that a kernel makes of the results, and the layer's
// bits.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/linear/exact1/params.hpp"
#include "kernels/cuda/linear/int16/params.hpp"
#include "kernels/cuda/linear/integer/linear.hpp"
#include "support/model_ops_cuda_case.hpp"

namespace reprofuse {
namespace {

using Layer = cuda::integer::CudaLinear;

constexpr std::int64_t kColumns = 136;  // of the layer: a whole tile and a part of one

struct IntegerNumerics {
  std::string name;
  std::unique_ptr<Layer> (*make)(const WeightView& weight);
};

template <const cuda::integer::ContractKernels& (*kContract)()>
std::unique_ptr<Layer> make_layer(const WeightView& weight) {
  return std::make_unique<Layer>(kContract(), cuda::CudaLayerOptions{{.name = "test", .op = 7}}, std::span(&weight, 1));
}

class RowOpsCuda : public testing::TestWithParam<IntegerNumerics> {
 protected:
  void SetUp() override {
    try {
      cuda::require_device(0);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  // A layer of k terms, for up to m rows.
  struct Linear {
    Linear(const IntegerNumerics& numerics, std::int64_t m, std::int64_t k, ThreadPool& pool)
        : weights(study::make_weights(5, DType::kBF16, kColumns, k, pool)),
          device_weights(upload(weights.storage.data(), weights.storage.size())),
          result(m, kColumns, 9),
          y(result),
          layer(numerics.make({device_weights.as<void>(), DType::kBF16, kColumns, k, k})),
          bytes(layer->workspace_bytes(m)),
          workspace(cuda::allocate_workspace(0, bytes), cuda::release) {}

    // What a run leaves: digits and all else in the workspace, and the results.
    template <typename Run>
    std::vector<unsigned char> left_by(ConstMatrix x, const Run& run) {
      cudaMemset(static_cast<unsigned char*>(workspace.get()) + cuda::kWorkspaceHead, 0x5a,
                 bytes - cuda::kWorkspaceHead);
      const LinearOutput output{.y = y.view(), .bias = nullptr};
      run(kernels::LinearCall{.x = x, .outputs = {&output, 1}, .workspace = workspace.get(), .stream = nullptr});
      cudaDeviceSynchronize();
      std::vector<unsigned char> left(bytes);
      cuda::copy_to_host(left.data(), workspace.get(), bytes);
      y.fetch(result);
      const auto* first = reinterpret_cast<const unsigned char*>(result.view().data);
      left.insert(left.end(), first, first + result.view().rows * kColumns * 4);
      return left;
    }

    study::Weights weights;
    cuda::DeviceBuffer device_weights;
    Rows result;
    DeviceRows y;
    std::unique_ptr<Layer> layer;
    std::size_t bytes;
    std::unique_ptr<void, void (*)(void*) noexcept> workspace;
  };

  cuda::DeviceSite site_in(const Linear& linear) const {
    return {{.op = kOp, .workspace = linear.workspace.get(), .workspace_bytes = linear.bytes, .stream = nullptr}};
  }
  static bool has_clusters() { return cuda::read_device(0).major >= 9; }
  static constexpr unsigned kOp = 3;
  ThreadPool pool_{2};
};

struct NormCase {
  NormCase(std::int64_t m, std::int64_t k, std::int64_t padding, float scale = 1.0F)
      : host_x(m, k, 11, padding, scale),
        host_delta(m, k, 12, padding),
        host_weight(1, k, 13),
        host_y(m, k, 14, padding),
        x(host_x),
        delta(host_delta),
        weight(host_weight),
        y(host_y) {}
  kernels::RmsNormCall call(bool residual) const {
    return {.x = x.view(),
            .delta = residual ? delta.const_view() : ConstMatrix{},
            .weight = weight.data(),
            .eps = 1e-5F,
            .y = y.view()};
  }
  Rows host_x, host_delta, host_weight, host_y;
  DeviceRows x, delta, weight, y;
};

struct SiluCase {
  SiluCase(std::int64_t m, std::int64_t k, std::int64_t padding, float scale = 1.0F)
      : host_gate(m, k, 3, padding, scale),
        host_up(m, k, 4, padding),
        host_y(m, k, 5, padding),
        gate(host_gate),
        up(host_up),
        y(host_y) {}
  kernels::SiluGateCall call() const { return {.gate = gate.const_view(), .up = up.const_view(), .y = y.view()}; }
  Rows host_gate, host_up, host_y;
  DeviceRows gate, up, y;
};

TEST_P(RowOpsCuda, ANormLeavesTheDigitsOfItsResult) {
  for (const bool residual : {false, true})
    for (const std::int64_t k : {1, 33, 127, 128, 513, 1000, 1024, 1030, 2560, 3072, 3073, 4096, 5121, 8192})
      for (const std::int64_t m : {1, 9, 70}) {
        SCOPED_TRACE(fmt::format("m {} k {} residual {}", m, k, residual));
        const std::int64_t padding = k % 3;
        NormCase apart(m, k, padding), together(m, k, padding);
        Linear linear(GetParam(), m, k, pool_);
        const auto expected = linear.left_by(apart.y.const_view(), [&](const kernels::LinearCall& call) {
          cuda::rms_norm(site_in(linear), apart.call(residual));
          linear.layer->run(call);
        });
        const bool keeps = m == 9;
        const auto left = linear.left_by(together.y.const_view(), [&](const kernels::LinearCall& call) {
          ASSERT_TRUE(linear.layer->run_fused({together.call(residual), kOp, keeps}, call));
        });
        ASSERT_TRUE(left == expected);
        Rows x(m, k, 1, padding), y(m, k, 1, padding), apart_x(m, k, 1, padding), apart_y(m, k, 1, padding);
        together.x.fetch(x);
        together.y.fetch(y);
        apart.x.fetch(apart_x);
        apart.y.fetch(apart_y);
        ASSERT_TRUE(same_bits(x, apart_x)) << "the residual";
        ASSERT_TRUE(same_bits(y, keeps ? apart_y : together.host_y)) << "the result as floats";
      }
}

TEST_P(RowOpsCuda, ASiluGateLeavesTheDigitsOfItsResult) {
  if (!has_clusters()) GTEST_SKIP() << "gates leave digits where there are clusters";
  for (const float scale : {1.0F, 1e-30F, 1e30F})
    for (const std::int64_t k : {1, 5, 127, 512, 1028, 3001, 4096, 8192, 8200, 14336, 16384})
      for (const std::int64_t m : {1, 9, 70}) {
        SCOPED_TRACE(fmt::format("m {} k {} scale {}", m, k, scale));
        const std::int64_t padding = k % 3;
        SiluCase apart(m, k, padding, scale), together(m, k, padding, scale);
        Linear linear(GetParam(), m, k, pool_);
        const auto expected = linear.left_by(apart.y.const_view(), [&](const kernels::LinearCall& call) {
          cuda::silu_gate(site_in(linear), apart.call());
          linear.layer->run(call);
        });
        const bool keeps = m == 9;
        const auto left = linear.left_by(together.y.const_view(), [&](const kernels::LinearCall& call) {
          ASSERT_TRUE(linear.layer->run_fused({together.call(), 0, keeps}, call));
        });
        ASSERT_TRUE(left == expected);
        Rows y(m, k, 1, padding), apart_y(m, k, 1, padding);
        together.y.fetch(y);
        apart.y.fetch(apart_y);
        ASSERT_TRUE(same_bits(y, keeps ? apart_y : together.host_y)) << "the result as floats";
      }
}

TEST_P(RowOpsCuda, LongerRowsAreLeftToOthers) {
  for (const std::int64_t k : {8193, 20000}) {
    NormCase norm(2, k, 0);
    Linear linear(GetParam(), 2, k, pool_);
    linear.left_by(norm.y.const_view(), [&](const kernels::LinearCall& call) {
      EXPECT_FALSE(linear.layer->run_fused({norm.call(true), kOp, false}, call));
    });
    Rows x(2, k, 1);
    norm.x.fetch(x);
    EXPECT_TRUE(same_bits(x, norm.host_x)) << "nothing has run";
  }
}

TEST_P(RowOpsCuda, WhatIsNotFiniteIsRecordedByTheNorm) {
  NormCase c(9, 3072, 0);
  c.host_x.at(7, 3) = std::numeric_limits<float>::quiet_NaN();
  c.host_x.at(4, 3071) = 0x1p100F;  // finite, but its square is not
  const DeviceRows x(c.host_x);
  kernels::RmsNormCall call = c.call(false);
  call.x = x.view();
  Linear linear(GetParam(), 9, 3072, pool_);
  linear.left_by(c.y.const_view(), [&](const kernels::LinearCall& products) {
    ASSERT_TRUE(linear.layer->run_fused({call, kOp, false}, products));
  });
  const auto record = cuda::take_record(0, linear.workspace.get(), nullptr);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->op, kOp);
  EXPECT_EQ(record->place.row, 4);
}

// Control: one weight of the norm, or one element of up, a hundredth larger must show in the comparisons above.
TEST_P(RowOpsCuda, AnotherWeightWouldBeCaught) {
  constexpr std::int64_t kM = 3, kK = 3072;
  NormCase c(kM, kK, 0);
  Linear linear(GetParam(), kM, kK, pool_);
  const auto left = [&](const kernels::Producer& producer) {
    return linear.left_by(as_const(producer.x()), [&](const kernels::LinearCall& call) {
      ASSERT_TRUE(linear.layer->run_fused(producer, call));
    });
  };
  const auto nudge = [](Rows& rows) {  // the largest element: its integer has the most bits
    float* largest = &rows.at(0, 0);
    for (std::int64_t i = 0; i < kK; ++i)
      if (std::abs(rows.at(0, i)) > std::abs(*largest)) largest = &rows.at(0, i);
    *largest = *largest * 1.01F;
  };
  const auto norm = left({c.call(false), kOp, false});
  EXPECT_TRUE(norm == left({c.call(false), kOp, false}));
  nudge(c.host_weight);
  const DeviceRows weight(c.host_weight);
  kernels::RmsNormCall altered = c.call(false);
  altered.weight = weight.data();
  EXPECT_FALSE(norm == left({altered, kOp, false}));

  if (!has_clusters()) return;
  SiluCase s(kM, kK, 0);
  const auto silu = left({s.call(), 0, false});
  EXPECT_TRUE(silu == left({s.call(), 0, false}));
  nudge(s.host_up);
  const DeviceRows up(s.host_up);
  kernels::SiluGateCall other = s.call();
  other.up = up.const_view();
  EXPECT_FALSE(silu == left({other, 0, false}));
}

INSTANTIATE_TEST_SUITE_P(Contracts, RowOpsCuda,
                         testing::Values(IntegerNumerics{"int16", make_layer<cuda::int16::contract_kernels>},
                                         IntegerNumerics{"exact1", make_layer<cuda::exact1::contract_kernels>}),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace reprofuse
