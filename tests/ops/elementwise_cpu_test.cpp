// Embedding, SiLU gate, gathering and rounding on the CPU: every instruction set gives the reference's bits.
#include "numerics/exp_log.hpp"
#include "numerics/float_ops.hpp"
#include "support/model_ops_case.hpp"

namespace reprofuse {
namespace {

TEST(EmbeddingCpu, RowsOfTheTableAreWidenedAsInTheReference) {
  ThreadPool one(1);
  const std::vector<std::int32_t> tokens = {6, 0, 3, 3, 5};
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32})
    for (const std::int64_t hidden : {1, 16, 37, 5000}) {
      const study::Weights weights = study::make_weights(3, dtype, 7, hidden + 3, one);
      const WeightView table{weights.storage.data(), dtype, 7, hidden, hidden + 3};
      Rows expected(5, hidden, 1, 2);
      reference::embedding({.table = table, .tokens = tokens.data(), .x = expected.view()});
      on_every_isa(2, [&](const cpu::CpuDevice& device) {
        Rows mine(5, hidden, 2, 2);
        cpu::embedding(device, {.table = table, .tokens = tokens.data(), .x = mine.view()});
        ASSERT_TRUE(same_bits(mine, expected)) << dtype_name(dtype) << " hidden " << hidden;
      });
    }
}

struct GateCase {
  GateCase(std::int64_t rows, std::int64_t k, float scale)
      : gate(rows, k, 21, 3, scale), up(rows, k, 22, 1), y(rows, k, 23, 2) {}
  kernels::SiluGateCall call() { return {as_const(gate.view()), as_const(up.view()), y.view()}; }
  Rows gate;
  Rows up;
  Rows y;
};

TEST(SiluGateCpu, EveryIsaGivesTheReferenceBits) {
  for (const float scale : {0x1p-130F, 1.0F, 25.0F, 0x1p+60F})
    for (const std::int64_t k : {1, 15, 16, 17, 100, 1024, 8195}) {
      GateCase expected(5, k, scale);
      reference::silu_gate(expected.call());
      for (const int threads : {1, 3})
        on_every_isa(threads, [&](const cpu::CpuDevice& device) {
          GateCase mine(5, k, scale);
          cpu::silu_gate(device, mine.call());
          ASSERT_TRUE(same_bits(mine.y, expected.y)) << "k " << k << " scale " << scale;
          GateCase in_place(5, k, scale);
          kernels::SiluGateCall call = in_place.call();
          call.y = in_place.gate.view();
          cpu::silu_gate(device, call);
          ASSERT_TRUE(same_bits(as_const(in_place.gate.view()), as_const(expected.y.view())));
        });
    }
}

// Every 4099th bit pattern of a finite float, of both signs.
TEST(SiluGateCpu, EveryKindOfNumberGivesTheReferenceBits) {
  std::vector<float> gate;
  for (std::uint64_t bits = 0; bits <= 0xffffffffU; bits += 4099)
    if (const float value = std::bit_cast<float>(static_cast<std::uint32_t>(bits)); is_finite_bits(value))
      gate.push_back(value);
  const auto k = static_cast<std::int64_t>(gate.size());
  const std::vector<float> ones(gate.size(), 1.0F);
  std::vector<float> expected(gate.size());
  reference::silu_gate({{gate.data(), 1, k, k}, {ones.data(), 1, k, k}, {expected.data(), 1, k, k}});
  EXPECT_TRUE(std::all_of(expected.begin(), expected.end(), is_finite_bits));
  on_every_isa(1, [&](const cpu::CpuDevice& device) {
    std::vector<float> y(gate.size(), kPoison);
    cpu::silu_gate(device, {{gate.data(), 1, k, k}, {ones.data(), 1, k, k}, {y.data(), 1, k, k}});
    ASSERT_TRUE(same_bits({y.data(), 1, k, k}, {expected.data(), 1, k, k}));
  });
}

// Control: the form with a product, x * (1 / (1 + exp(-x))), and one with exp(x) are other functions.
TEST(SiluGateCpu, OtherFormsOfTheFunctionGiveOtherBits) {
  int product_differs = 0;
  int mirrored_differs = 0;
  for (int i = -1000; i <= 1000; ++i) {
    const float x = static_cast<float>(i) * 0x1.01p-7F;
    product_differs += x * (1.0F / (1.0F + exp_f32(-x))) != silu(x);
    mirrored_differs += x * exp_f32(x) / (1.0F + exp_f32(x)) != silu(x);
  }
  EXPECT_GT(product_differs, 100);
  EXPECT_GT(mirrored_differs, 100);
}

// Where the result is a normal number.
TEST(SiluGateCpu, SiluIsWithinTwoUlpsAndAHalf) {
  double worst = 0.0;
  for (std::int64_t i = -8000000; i <= 8000000; i += 7) {
    const float x = static_cast<float>(i) * 0x1p-17F;
    const double exact = x / (1.0 + std::exp(-static_cast<double>(x)));
    if (std::abs(exact) < 0x1p-126) continue;
    int exponent = 0;
    std::frexp(exact, &exponent);
    worst = std::max(worst, std::abs(silu(x) - exact) / std::ldexp(1.0, exponent - 24));
  }
  RecordProperty("worst_ulp", std::to_string(worst));
  EXPECT_LT(worst, 2.5);
  EXPECT_GT(worst, 0.5);
}

TEST(GatherRowsCpu, RowsAreCopied) {
  const std::vector<std::int32_t> rows = {3, 0, 0, 6, 1};
  for (const std::int64_t k : {1, 33, 9000}) {
    Rows x(7, k, 5, 4);
    Rows expected(5, k, 6, 1);
    reference::gather_rows({as_const(x.view()), rows.data(), expected.view()});
    on_every_isa(3, [&](const cpu::CpuDevice& device) {
      Rows mine(5, k, 7, 1);
      cpu::gather_rows(device, {as_const(x.view()), rows.data(), mine.view()});
      ASSERT_TRUE(same_bits(mine, expected));
    });
  }
}

TEST(RoundBf16Cpu, EveryIsaRoundsToNearestEven) {
  std::vector<float> values;
  for (const std::uint32_t high : {0x0000U, 0x0001U, 0x007fU, 0x0080U, 0x3f80U, 0x3f81U, 0x7f7fU, 0xbf81U, 0xff7fU})
    for (const std::uint32_t low : {0x0000U, 0x0001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU})
      values.push_back(std::bit_cast<float>(high << 16 | low));
  const auto k = static_cast<std::int64_t>(values.size());
  std::vector<float> expected = values;
  reference::round_bf16({.x = {expected.data(), 1, k, k}});
  EXPECT_EQ(std::bit_cast<std::uint32_t>(expected[27]), 0x3f800000U);  // 0x3f808000 lies between two: to even
  EXPECT_EQ(std::bit_cast<std::uint32_t>(expected[33]), 0x3f820000U);  // and so does 0x3f818000
  on_every_isa(1, [&](const cpu::CpuDevice& device) {
    std::vector<float> mine = values;
    cpu::round_bf16(device, {.x = {mine.data(), 1, k, k}});
    ASSERT_TRUE(same_bits({mine.data(), 1, k, k}, {expected.data(), 1, k, k}));
  });
}

}  // namespace
}  // namespace reprofuse
