// What the CPU linear layer refuses: results and weights that are not finite, and instruction sets that are not there.
#include <cmath>
#include <limits>
#include <set>

#include "kernels/cpu/linear/fma1/kernels.hpp"
#include "support/linear_cpu_case.hpp"

namespace reprofuse {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Two fused layers of 20 and 30 columns over 15 rows; row 4 and weight row 7 of the second can be spoilt.
struct SpoiltCase {
  static constexpr std::int64_t kM = 15, kK = 600, kN[2] = {20, 30};
  std::vector<float> x = study::make_activations(1, kM, kK);
  std::vector<float> w[2];
  std::vector<float> bias = std::vector<float>(30, 0.5F);

  SpoiltCase() {
    for (int i = 0; i < 2; ++i) w[i] = study::make_activations(2, kN[i], kK);
  }

  std::string run(Isa isa, int threads) const {
    const Context context = cpu_context(isa, threads);
    const WeightView views[] = {{w[0].data(), DType::kF32, kN[0], kK, kK}, {w[1].data(), DType::kF32, kN[1], kK, kK}};
    const LinearLayer layer(context, views, "spoilt");
    std::vector<float> y[2];
    std::vector<LinearOutput> outputs;
    for (int i = 0; i < 2; ++i) {
      y[i].resize(static_cast<std::size_t>(kM * kN[i]));
      outputs.push_back({{y[i].data(), kM, kN[i], kN[i]}, i == 1 ? bias.data() : nullptr});
    }
    return message_of(ErrorCode::kNonFinite, [&] {
      layer.run({x.data(), kM, kK, kK}, outputs, Workspace(context, layer.workspace_bytes(kM)));
    });
  }

  void expect_everywhere(const std::string& message) const {
    for (const Isa isa : supported_isas())
      for (const int threads : {1, 3}) EXPECT_EQ(run(isa, threads), message) << isa_name(isa);
  }
};

TEST(LinearCpuNonFinite, FiniteOperandsRaiseNothing) {
  SpoiltCase().expect_everywhere("no error");
}

TEST(LinearCpuNonFinite, ANanInARowOfXIsReportedAtThatRowsFirstColumn) {
  SpoiltCase spoilt;
  spoilt.x[4 * 600 + 599] = kNan;
  spoilt.x[9 * 600] = kInfinity;
  spoilt.expect_everywhere("linear 'spoilt' output 0 row 4 column 0: the result is not finite");
}

TEST(LinearCpuNonFinite, AnOverflowIsReportedAtItsOwnRowAndColumn) {
  SpoiltCase spoilt;
  for (std::size_t k = 0; k < 2; ++k) {
    spoilt.x[4 * 600 + k] = 0x1p127F;
    for (std::vector<float>& w : spoilt.w)
      for (std::size_t row = 0; row < w.size() / 600; ++row) w[row * 600 + k] = 0x1p-100F;
    spoilt.w[1][7 * 600 + k] = 0x1p1F;
  }
  spoilt.expect_everywhere("linear 'spoilt' output 1 row 4 column 7: the result is not finite");
}

// Two segments that overflow to opposite infinities sum to a NaN, and the check sees it.
TEST(LinearCpuNonFinite, OppositeInfinitiesInTwoSegmentsAreNotLost) {
  SpoiltCase spoilt;
  for (const std::size_t k : {0, 1, 512, 513}) {
    spoilt.x[4 * 600 + k] = k < 512 ? 0x1p127F : -0x1p127F;
    for (std::vector<float>& w : spoilt.w)
      for (std::size_t row = 0; row < w.size() / 600; ++row) w[row * 600 + k] = 0x1p-100F;
    spoilt.w[1][7 * 600 + k] = 0x1p1F;
  }
  spoilt.expect_everywhere("linear 'spoilt' output 1 row 4 column 7: the result is not finite");
}

TEST(LinearCpuNonFinite, AnInfiniteBiasIsReported) {
  SpoiltCase spoilt;
  spoilt.bias[29] = -kInfinity;
  spoilt.expect_everywhere("linear 'spoilt' output 1 row 0 column 29: the result is not finite");
}

TEST(LinearCpuNonFinite, AWeightThatIsNotFiniteIsRefusedWithItsPlaceAndBits) {
  const Context context = cpu_context(Isa::kScalar, 2);
  std::vector<std::uint16_t> halves(20 * 33, 0x3c00);
  halves[17 * 33 + 32] = 0xfe01;  // a NaN in binary16, an ordinary number in bfloat16
  const auto prepare = [&](DType dtype, const void* data) {
    const WeightView views[] = {{halves.data(), dtype, 3, 33, 33}, {data, dtype, 20, 33, 33}};
    return message_of(ErrorCode::kNonFinite, [&] { LinearLayer(context, views, "loaded"); });
  };
  EXPECT_EQ(prepare(DType::kF16, halves.data()),
            "linear 'loaded' weight 1 row 17 column 32: f16 bits 0xfe01 are not finite");
  EXPECT_EQ(prepare(DType::kBF16, halves.data()), "no error");
  halves[17 * 33 + 32] = 0x7f80;
  EXPECT_EQ(prepare(DType::kBF16, halves.data()),
            "linear 'loaded' weight 1 row 17 column 32: bf16 bits 0x7f80 are not finite");

  // Two columns lie in one word of a panel.
  std::swap(halves[17 * 33 + 32], halves[17 * 33 + 31]);
  EXPECT_EQ(prepare(DType::kBF16, halves.data()),
            "linear 'loaded' weight 1 row 17 column 31: bf16 bits 0x7f80 are not finite");

  std::vector<float> floats(20 * 33, 1.0F);
  floats[2 * 33 + 5] = -kInfinity;
  const WeightView view{floats.data(), DType::kF32, 20, 33, 33};
  EXPECT_EQ(message_of(ErrorCode::kNonFinite, [&] { LinearLayer(context, std::span(&view, 1), "loaded"); }),
            "linear 'loaded' weight 0 row 2 column 5: f32 bits 0xff800000 are not finite");
}

// The first panel's is found last, at the end of its last row, and is named nevertheless.
TEST(LinearCpuNonFinite, OfSeveralWeightsThatAreNotFiniteTheFirstIsNamedWhicheverThreadIsFaster) {
  constexpr std::int64_t kN = 64, kK = 3000;
  std::vector<float> floats(kN * kK, 1.0F);
  for (const std::int64_t row : {16, 32, 48}) floats[static_cast<std::size_t>(row * kK)] = kInfinity;
  for (const std::int64_t k : {kK - 2, kK - 1}) floats[static_cast<std::size_t>(15 * kK + k)] = kNan;
  const WeightView view{floats.data(), DType::kF32, kN, kK, kK};
  const Context context = cpu_context(Isa::kScalar, 3);
  for (int round = 0; round < 50; ++round)
    ASSERT_EQ(message_of(ErrorCode::kNonFinite, [&] { LinearLayer(context, std::span(&view, 1), "loaded"); }),
              "linear 'loaded' weight 0 row 15 column 2998: f32 bits 0x7fc00000 are not finite");
}

TEST(LinearCpuIsa, TheForcedIsaIsTheOneThatRuns) {
  const CaseData data({.m = 1, .n = 20, .k = 40, .dtype = DType::kBF16});
  std::set<cpu::SegmentKernel> kernels;
  for (const Isa isa : supported_isas()) {
    const LinearLayer layer = make_layer(cpu_context(isa), data);
    EXPECT_EQ(layer.implementation(), isa_name(isa));
    const cpu::LinearFma1Kernels* table = cpu::compiled_linear_fma1(isa);
    ASSERT_NE(table, nullptr);
    EXPECT_EQ(table->target, isa_name(isa));
    const int lanes = isa == Isa::kAvx512 ? 16 : isa == Isa::kAvx2 ? 8 : isa == Isa::kNeon ? 4 : 1;
    EXPECT_EQ(table->lanes, lanes) << "compiled for another register width";
    for (const DType dtype : kDTypes) kernels.insert(table->kernel(dtype));
  }
  EXPECT_EQ(kernels.size(), 3 * supported_isas().size()) << "two instruction sets share a kernel";
}

TEST(LinearCpuIsa, AnIsaTheMachineLacksIsAnErrorThatListsTheOthers) {
  const std::vector<Isa> have = supported_isas();
  EXPECT_EQ(have.front(), Isa::kScalar);
  int missing = 0;
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kNeon}) {
    if (std::find(have.begin(), have.end(), isa) != have.end()) continue;
    ++missing;
    const std::string message = message_of(ErrorCode::kUnsupported, [&] { cpu_context(isa); });
    EXPECT_NE(message.find(isa_name(isa)), std::string::npos) << message;
    EXPECT_NE(message.find("scalar"), std::string::npos) << message;
  }
  EXPECT_GE(missing, 1) << "no machine has both NEON and AVX2";
}

}  // namespace
}  // namespace reprofuse
