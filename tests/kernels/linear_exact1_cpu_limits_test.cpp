// exact-1 on the CPU where numbers are largest, smallest or not numbers, and where an inexact kernel would be caught.
#include <cmath>
#include <limits>

#include "kernels/cpu/linear/panels.hpp"
#include "kernels/linear_exact1_cpu_case.hpp"

namespace reprofuse::exact1_cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kUnit = 0x1p-23F;  // an activation of integer 1, in a row of exponent 0

std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

// Rows and weight rows of each kind meet each other: zeros, subnormals, the largest numbers, hundredfold outliers.
TEST(LinearExact1Limits, RowsOfEveryKindGiveTheReferenceBits) {
  for (const std::int64_t k : {1, 37, 1025}) {
    Operands operands(12, 36, k, DType::kF32, true);
    const auto altered = [](float value, std::int64_t row, std::int64_t at) {
      switch (row % 6) {
        case 0: return value;
        case 1: return 0.0F * value;
        case 2: return value * 0x1p-120F * 0x1p-8F;            // most are subnormal
        case 3: return std::copysign(0x1p-149F, value);        // one unit of the last place
        case 4: return at % 97 == 5 ? value * 100.0F : value;  // outliers
        default: return value * 0x1p60F;                       // sums near the largest float, times as large weights
      }
    };
    const Operands plain = operands;
    const auto* weights = static_cast<const std::byte*>(plain.weight().data);
    operands.fill_x(
        [&](std::int64_t row, std::int64_t at) { return altered(plain.x(12).data[row * k + at], row, at); });
    operands.fill_weights([&](std::int64_t row, std::int64_t at) {
      const float weight = std::bit_cast<float>(load_weight(weights, DType::kF32, row * k + at));
      return bits_of(altered(weight, row / 6, at));
    });
    expect_reference_bits(operands);
  }
}

TEST(LinearExact1Limits, SixteenBitWeightsOfEveryMagnitudeGiveTheReferenceBits) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const std::uint32_t infinity = dtype == DType::kBF16 ? 0x7f80 : 0x7c00;
    Operands operands(7, 33, 513, dtype);
    operands.fill_weights([&](std::int64_t row, std::int64_t k) {  // each row within its own range of magnitudes
      const std::int64_t top = (row + 1) * (infinity - 1) / 33;
      return static_cast<std::uint32_t>(std::max<std::int64_t>(0, top - k * 131 % 2000) | (k % 3 == 0 ? 0x8000 : 0));
    });
    operands.fill_x([](std::int64_t row, std::int64_t k) {
      return static_cast<float>((row + 3) * 7919 * (k + 1) % 2001 - 1000) * 0x1p-45F;
    });
    expect_reference_bits(operands);
  }
}

// Row by row: all digits at an extreme of theirs. The last is the first whose exponent must be one larger.
constexpr std::int32_t kExtremeX[] = {0x7f7f7f, -0x7f7f7f, 0x7e7f80, -0x7e8080, 0x7f7f80};
// W + 2^22 = 0x7fffff, 0x800000 (rounded up to it), 0 and 1.
constexpr float kExtremeW[] = {0x1.fffff8p-1F, 0x1.fffffep-1F, -0x1.fffffep-1F, -0x1.fffff8p-1F};

void fill_with_extremes(Operands& operands) {
  operands.fill_x([](std::int64_t row, std::int64_t) { return static_cast<float>(kExtremeX[row]) * kUnit; });
  operands.fill_weights([](std::int64_t row, std::int64_t) { return bits_of(kExtremeW[row]); });
}

TEST(LinearExact1Limits, TheLargestDigitsOverTheLongestRowsDoNotOverflow) {
  for (const std::int64_t k : {std::int64_t{1024}, std::int64_t{1028}, exact1::kMaxTerms - 1, exact1::kMaxTerms}) {
    Operands operands(5, 4, k, DType::kF32);
    fill_with_extremes(operands);
    expect_reference_bits(operands);
  }
  // The reference itself, in closed form.
  Operands operands(1, 2, exact1::kMaxTerms, DType::kF32);
  fill_with_extremes(operands);
  const double largest = 131072.0 * 0x7f7f7f * 0x1p22;
  EXPECT_EQ(operands.expected()[1], static_cast<float>(largest) * 0x1p-45F);
}

// One row alone has kernels of its own. The weights are the largest of either sign and one unit of either sign, which
// is the largest lowest digit and the smallest, beside one that sets the exponent.
TEST(LinearExact1Limits, TheLargestDigitsOfASingleRowDoNotOverflow) {
  constexpr std::int64_t kK = 1027;
  for (const DType dtype : kDTypes) {
    const std::uint32_t largest = dtype == DType::kF32 ? 0x3f7fffffU : dtype == DType::kBF16 ? 0x3f7fU : 0x3bffU;
    const std::uint32_t unit = dtype == DType::kF32 ? 0x34800000U : dtype == DType::kBF16 ? 0x3480U : 0x0004U;
    const std::uint32_t minus = dtype == DType::kF32 ? 0x80000000U : 0x8000U;
    for (const std::int32_t x : kExtremeX) {
      Operands operands(1, 4, kK, dtype);
      operands.fill_x([&](std::int64_t, std::int64_t) { return static_cast<float>(x) * kUnit; });
      operands.fill_weights([&](std::int64_t row, std::int64_t k) {
        return (row < 2 || k == 0 ? largest : unit) | (row % 2 == 0 ? 0U : minus);
      });
      ASSERT_EQ(reference::snap_weights(operands.weight(), 3).values[1], -1) << "control: no unit";
      expect_reference_bits(operands);
    }
  }
}

TEST(LinearExact1Limits, OneTermMoreThanASumCanHoldIsRefused) {
  const Operands operands(1, 1, exact1::kMaxTerms + 1, DType::kBF16);
  for (const LinearExact1Kernels* table : tables())
    EXPECT_EQ(message_of(ErrorCode::kInvalidArgument, [&] { Prepared(*table, operands); }),
              "linear 'tested': k = 131073 is more than the 131072 terms whose sum contract exact-1 can hold");
}

// The sum is 2^61 + 2^37 + 2^8: above half way between two floats by less than binary64 can tell.
TEST(LinearExact1Limits, ASumIsRoundedOnceNotByWayOfBinary64) {
  constexpr std::int64_t kMany = 87381;
  constexpr float kX[] = {0.5F, 0x1p-7F, kUnit};
  constexpr float kW[] = {0.5F, 0.5F, 0x1p-14F};
  Operands operands(1, 1, kMany + 3, DType::kF32);
  operands.fill_x([&](std::int64_t, std::int64_t k) { return k < kMany ? 0.75F : kX[k - kMany]; });
  operands.fill_weights(
      [&](std::int64_t, std::int64_t k) { return bits_of(k < kMany ? 0x1.fffffep-1F : kW[k - kMany]); });
  const std::int64_t sum = reference::sum_terms(reference::snap_activations(operands.x(1).data, kMany + 3),
                                                reference::snap_weights(operands.weight(), 0), 0, kMany + 3);
  ASSERT_EQ(sum, (std::int64_t{1} << 61) + (std::int64_t{1} << 37) + 256);
  ASSERT_NE(static_cast<float>(sum), static_cast<float>(static_cast<double>(sum))) << "control: no case";
  for (const LinearExact1Kernels* table : tables())
    EXPECT_EQ(run_rows(Prepared(*table, operands), operands, 1)[0], (0x1p61F + 0x1p38F) * 0x1p-45F) << table->target;
}

// What a kernel would give that forgot one rule of the contract.
enum class Fault { kNone, kKeepsLowestProduct, kRoundsPartialSums, kTruncatesWeights };

float faulty_output(const Operands& operands, std::int64_t row, std::int64_t column, Fault fault) {
  const std::int64_t k = operands.k();
  const auto x = reference::snap_activations(operands.x(operands.m()).data + row * k, k);
  auto w = reference::snap_weights(operands.weight(), column);
  const auto result = [&](std::int64_t sum) { return exact1::result(sum, x.exponent, w.exponent); };
  std::int64_t sum = 0;
  if (fault == Fault::kRoundsPartialSums)
    return result(reference::sum_terms(x, w, 0, k / 2)) + result(reference::sum_terms(x, w, k / 2, k));
  if (fault == Fault::kKeepsLowestProduct)
    for (std::size_t i = 0; i < x.values.size(); ++i) sum += std::int64_t{x.values[i]} * w.values[i];
  if (fault == Fault::kTruncatesWeights)
    for (std::size_t i = 0; i < x.values.size(); ++i) w.values[i] = w.values[i] / 2 * 2;
  return result(fault == Fault::kKeepsLowestProduct ? sum : reference::sum_terms(x, w, 0, k));
}

TEST(LinearExact1Limits, AKernelThatForgotARuleOfTheContractWouldBeSeen) {
  constexpr std::int64_t kM = 7, kN = 18, kK = 777;
  const Operands operands(kM, kN, kK, DType::kF32);
  for (const Fault fault :
       {Fault::kNone, Fault::kKeepsLowestProduct, Fault::kRoundsPartialSums, Fault::kTruncatesWeights}) {
    std::vector<float> faulty;
    for (std::int64_t row = 0; row < kM; ++row)
      for (std::int64_t column = 0; column < kN; ++column)
        faulty.push_back(faulty_output(operands, row, column, fault));
    for (const LinearExact1Kernels* table : tables())
      EXPECT_EQ(static_cast<bool>(matches(Prepared(*table, operands), operands, kM, faulty)), fault == Fault::kNone)
          << table->target << " fault " << static_cast<int>(fault);
  }
}

// Two fused layers of 20 and 30 columns over 15 rows.
struct SpoiltCase {
  static constexpr std::int64_t kM = 15, kK = 600;
  Operands first{kM, 20, kK, DType::kF32};
  Operands second{kM, 30, kK, DType::kF32};
  std::vector<float> bias = std::vector<float>(30, 0.5F);

  void expect_everywhere(std::optional<std::pair<std::int64_t, std::int64_t>> row_and_column) const {
    const std::vector<WeightView> weights = {first.weight(), second.weight()};
    for (const LinearExact1Kernels* table : tables())
      for (const int threads : {1, 3}) {
        std::vector<float> y(kM * 50);
        const LinearOutput outputs[] = {{{y.data(), kM, 20, 50}}, {{y.data() + 20, kM, 30, 50}, bias.data()}};
        const auto place = Prepared(*table, weights, threads).run(first.x(kM), outputs);
        ASSERT_EQ(place.has_value(), row_and_column.has_value()) << table->target;
        if (!place) continue;
        EXPECT_EQ(std::pair(place->row, place->column), *row_and_column) << table->target;
        const auto at = static_cast<std::size_t>(place->row * 50 + place->column);
        EXPECT_FALSE(std::isfinite(y[at]));
        EXPECT_TRUE(std::isfinite(y[at - 1])) << "an earlier result is not finite either";
      }
  }
};

TEST(LinearExact1Limits, FiniteOperandsRaiseNothing) {
  SpoiltCase().expect_everywhere(std::nullopt);
}

TEST(LinearExact1Limits, ANumberOfXThatIsNotFiniteIsReportedAtItsRowsFirstColumn) {
  for (const float value : {kNan, kInfinity, -kInfinity}) {
    SpoiltCase spoilt;
    spoilt.first.x_at(4, 599) = value;
    spoilt.first.x_at(9, 0) = kInfinity;
    spoilt.expect_everywhere(std::pair(4, 0));
  }
}

TEST(LinearExact1Limits, AnOverflowIsReportedAtItsOwnRowAndColumn) {
  SpoiltCase spoilt;
  for (const std::int64_t k : {0, 1}) {
    spoilt.first.x_at(4, k) = 0x1p127F;
    spoilt.second.set_weight(7, k, bits_of(0x1p1F));
  }
  for (std::int64_t row = 0; row < 30; ++row)  // no other row may overflow
    for (std::int64_t k = 0; k < SpoiltCase::kK; ++k) {
      if (row < 20) spoilt.first.set_weight(row, k, bits_of(0x1p-20F));
      if (row != 7) spoilt.second.set_weight(row, k, bits_of(0x1p-20F));
    }
  spoilt.expect_everywhere(std::pair(4, 27));
}

TEST(LinearExact1Limits, AnInfiniteBiasIsReported) {
  SpoiltCase spoilt;
  spoilt.bias[29] = -kInfinity;
  spoilt.expect_everywhere(std::pair(0, 49));
}

TEST(LinearExact1Limits, AWeightThatIsNotFiniteIsRefusedWithItsPlaceAndBits) {
  Operands operands(1, 20, 33, DType::kBF16);
  operands.set_weight(17, 32, 0xff80);
  for (const LinearExact1Kernels* table : tables())
    EXPECT_EQ(message_of(ErrorCode::kNonFinite, [&] { Prepared(*table, operands); }),
              "linear 'tested' weight 0 row 17 column 32: bf16 bits 0xff80 are not finite");
}

// Sums of every size, beside the places where binary32 and binary64 round, by every power of two that rows can have.
TEST(LinearExact1Limits, SumsAreRoundedOnceAndThenScaled) {
  std::vector<std::int64_t> sums = {0, INT64_MAX, INT64_MIN, INT64_MAX - 1, INT64_MIN + 1};
  for (int bit = 0; bit < 63; ++bit)
    for (const std::int64_t half :
         {std::int64_t{0}, bit > 24 ? std::int64_t{1} << (bit - 24) : 0, bit > 23 ? std::int64_t{3} << (bit - 24) : 0,
          bit > 0 ? std::int64_t{1} << (bit - 1) : 0})
      for (const std::int64_t more :
           {-0x801, -0x800, -0x7ff, -2, -1, 0, 1, 2, 0x3ff, 0x400, 0x401, 0x7ff, 0x800, 0x801}) {
        sums.push_back((std::int64_t{1} << bit) + half + more);
        sums.push_back(-sums.back());
      }
  while (sums.size() % cpu::kPanel != 0) sums.push_back(1);
  alignas(64) std::int64_t totals[cpu::kPanel];
  alignas(64) std::int32_t exponents[cpu::kPanel];
  alignas(64) float results[cpu::kPanel];
  std::int64_t wrong = 0, subnormal = 0, moved_twice = 0;
  for (const LinearExact1Kernels* table : tables())
    for (const int activation : {-103, -80, -50, -1, 0, 1, 64, 128, 129})
      for (std::size_t begin = 0; begin < sums.size(); begin += cpu::kPanel) {
        for (int c = 0; c < cpu::kPanel; ++c) {
          totals[c] = sums[begin + static_cast<std::size_t>(c)];
          exponents[c] = -103 + (c * 37 + static_cast<int>(begin)) % 232;
        }
        table->round(
            {.totals = totals, .weight_exponents = exponents, .activation_exponent = activation, .results = results});
        for (int c = 0; c < cpu::kPanel; ++c) {
          const float expected = exact1::result(totals[c], activation, exponents[c]);
          wrong += bits_of(results[c]) != bits_of(expected) ? 1 : 0;
          subnormal += expected != 0 && std::fabs(expected) < 0x1p-126F ? 1 : 0;
          moved_twice += static_cast<float>(totals[c]) != static_cast<float>(static_cast<double>(totals[c])) ? 1 : 0;
        }
      }
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(subnormal, 100);
  EXPECT_GT(moved_twice, 100) << "rounding to binary64 first would be seen";
}

}  // namespace
}  // namespace reprofuse::exact1_cpu
