// The linear layer of int16-1 on the CPU: every table of kernels gives the reference's bits at every shape, alignment
// and thread count, and a reference with another block, another digit or another range does not.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "kernels/cpu/linear/int16/kernels.hpp"
#include "kernels/cpu/machine.hpp"
#include "kernels/linear_exact1_cpu_case.hpp"
#include "numerics/int16.hpp"

namespace reprofuse::int16_cpu {
namespace {

using cpu::LinearInt16Kernels;
using exact1_cpu::kDTypes;
using exact1_cpu::Operands;

std::vector<const LinearInt16Kernels*> tables() {
  std::vector<const LinearInt16Kernels*> all;
  for (const Isa isa : supported_isas())
    for (const LinearInt16Kernels* table : cpu::linear_int16_tables(isa)) all.push_back(table);
  return all;
}

std::vector<float> expected_of(const Operands& operands) {
  std::vector<float> y(static_cast<std::size_t>(operands.m() * operands.n()));
  reference::linear_int16(operands.x(operands.m()), operands.weight(), operands.bias(),
                          {y.data(), operands.m(), operands.n(), operands.n()});
  return y;
}

class Prepared {
 public:
  Prepared(const LinearInt16Kernels& kernels, const Operands& operands, int threads = 1)
      : pool_(threads),
        weight_(operands.weight()),
        prepared_(cpu::prepare_linear_int16(kernels, device(), "tested", {&weight_, 1})) {}

  const kernels::PreparedLinear& layer() const { return *prepared_; }

  // The first rows, by a workspace of the least size and of odd alignment.
  std::vector<float> run(const Operands& operands, std::int64_t rows) const {
    std::vector<std::byte> workspace(prepared_->workspace_bytes(rows) + 1);
    std::vector<float> y(static_cast<std::size_t>(rows * operands.n()), exact1_cpu::kPoison);
    const LinearOutput output{{y.data(), rows, operands.n(), operands.n()}, operands.bias()};
    const auto place =
        prepared_->run({.x = operands.x(rows), .outputs = {&output, 1}, .workspace = workspace.data() + 1});
    EXPECT_FALSE(place) << "row " << place->row << " column " << place->column;
    return y;
  }

 private:
  cpu::CpuDevice device() { return {.isa = Isa::kScalar, .pool = &pool_}; }

  ThreadPool pool_;
  WeightView weight_;
  std::unique_ptr<kernels::PreparedLinear> prepared_;
};

::testing::AssertionResult same_bits(const std::vector<float>& y, const std::vector<float>& expected) {
  for (std::size_t i = 0; i < y.size(); ++i)
    if (float_bits(y[i]) != float_bits(expected[i]))
      return ::testing::AssertionFailure() << fmt::format("element {}: {:a}, expected {:a}", i, y[i], expected[i]);
  return ::testing::AssertionSuccess();
}

void expect_int16_bits(const Operands& operands, std::span<const std::int64_t> rows, int threads = 1) {
  const std::vector<float> expected = expected_of(operands);
  for (const LinearInt16Kernels* table : tables()) {
    const Prepared prepared(*table, operands, threads);
    for (const std::int64_t m : rows)
      ASSERT_TRUE(same_bits(prepared.run(operands, m), expected))
          << table->target << " " << dtype_name(operands.weight().dtype) << " m " << m << " n " << operands.n() << " k "
          << operands.k();
  }
}

void expect_int16_bits(const Operands& operands) {
  const std::int64_t rows[] = {1, operands.m()};
  expect_int16_bits(operands, rows);
}

TEST(LinearInt16Cpu, EveryTableGivesTheReferenceBitsAtRaggedShapes) {
  const std::int64_t rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13};
  for (const DType dtype : kDTypes)
    for (const std::int64_t n : {1, 17, 50})
      for (const std::int64_t k : {1, 2, 3, 4, 5, 7, 15, 17, 33, 511, 512, 513, 515, 1023, 1024, 1026, 1537})
        expect_int16_bits(Operands(13, n, k, dtype, n == 17), rows);
}

// Tiles are at most 12 rows, of Winograd's kernels and AMX 16, of AMX two at a time, and groups of tiles at most 128
// rows.
TEST(LinearInt16Cpu, RowBitsDoNotDependOnBatchSizeOrThreads) {
  const std::int64_t rows[] = {1,  12, 15, 16,  17,  24,  25,  31,  32,  33,  47,
                               48, 49, 63, 119, 120, 121, 127, 128, 129, 133, 257};
  for (const int threads : {1, 2, 3}) expect_int16_bits(Operands(257, 70, 531, DType::kBF16, true), rows, threads);
}

TEST(LinearInt16Cpu, StridedAndUnalignedOperandsGiveTheSameBits) {
  for (const DType dtype : kDTypes)
    for (const std::int64_t offset : {1, 3, 7})
      expect_int16_bits(Operands(13, 37, 1029, dtype, true, {.padding = offset + 2, .offset = offset}));
}

// Blocks of very different sizes: within the range of a row's units, at its end, and below it.
TEST(LinearInt16Cpu, BlocksOfEverySizeGiveTheReferenceBits) {
  for (const int apart : {1, 8, 23, 24, 25, 26, 40, 100, 140}) {
    constexpr std::int64_t kM = 16, kK = 2100;  // rows for every table
    Operands operands(kM, 20, kK, DType::kBF16);
    const ConstMatrix x = operands.x(kM);
    std::vector<float> seeded(x.data, x.data + kM * kK);
    operands.fill_x([&](std::int64_t row, std::int64_t k) {
      const float value = seeded[static_cast<std::size_t>(row * kK + k)];
      return std::ldexp(value, k / 512 % 2 == row % 2 ? 0 : -apart);
    });
    expect_int16_bits(operands);
  }
}

TEST(LinearInt16Cpu, LargestSmallestAndZeroOperandsGiveTheReferenceBits) {
  for (const float magnitude : {0x1.fffffep+110F, 0x1.fdfep+0F, 0x1.fe02p+0F, 1.0F, 0x1p-126F, 0x1p-149F, 0.0F})
    for (const std::uint32_t weight : {0x3f80U, 0x0001U, 0x0080U, 0x3fffU, 0x0000U, 0x8000U}) {
      Operands operands(16, 3, 600, DType::kBF16);
      operands.fill_x(
          [&](std::int64_t row, std::int64_t k) { return (k + row) % 2 == 0 ? magnitude : -magnitude / 3; });
      operands.fill_weights([&](std::int64_t row, std::int64_t k) {
        return (k + row) % 3 == 0 ? weight : weight == 0 ? 0U : weight / 2 | 0x8000U;
      });
      expect_int16_bits(operands);
    }
}

TEST(LinearInt16Cpu, EverySixteenBitWeightIsSnappedAsTheReferenceDoes) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const std::uint32_t infinity = dtype == DType::kBF16 ? 0x7f80 : 0x7c00;
    const std::uint32_t one = dtype == DType::kBF16 ? 0x3f80 : 0x3c00;
    Operands operands(2, 2 * infinity, 3, dtype);
    operands.fill_weights([&](std::int64_t row, std::int64_t k) -> std::uint32_t {
      const auto pattern = static_cast<std::uint32_t>(row) % infinity | (row < infinity ? 0U : 0x8000U);
      return k == 0 ? pattern : k == 1 ? one : 0;
    });
    operands.fill_x([](std::int64_t row, std::int64_t k) { return k == 1 ? 0.0F : row == 0 ? 1.0F : 0x1.fdfdfp-1F; });
    expect_int16_bits(operands);
  }
}

// Every digit at its end: a block's sum is the largest that 32 bits have to hold, and the total the largest of 64.
TEST(LinearInt16Cpu, TheLongestSumOfTheLargestDigitsIsRightAndOneMoreIsRefused) {
  for (const float sign : {1.0F, -1.0F}) {
    Operands operands(16, 1, int16::kMaxTerms, DType::kF32);
    operands.fill_x([&](std::int64_t, std::int64_t) { return sign * 32639.0F; });
    operands.fill_weights([](std::int64_t, std::int64_t) { return float_bits(32639.0F); });
    const double term = (32639.0 * 32639.0 - 127.0 * 127.0) * sign;
    const std::vector<float> expected(16, static_cast<float>(term * static_cast<double>(int16::kMaxTerms)));
    EXPECT_TRUE(same_bits(expected_of(operands), expected));
    expect_int16_bits(operands);
  }
  const Operands longer(1, 1, int16::kMaxTerms + 1, DType::kBF16);
  for (const LinearInt16Kernels* table : tables()) EXPECT_THROW(Prepared(*table, longer), Error);
}

// Enough rows for every table, each operand at either end: sums of a weight and a digit are the largest that 16 bits
// have to hold, and their products wrap around 32 bits.
TEST(LinearInt16Cpu, ManyRowsOfTheLargestDigitsGiveTheReferenceBits) {
  for (const std::int64_t k : {4, 510, 1027}) {
    Operands operands(33, 18, k, DType::kF32);
    const auto end_of = [](std::int64_t bits) { return bits % 2 == 0 ? 32639.0F : -32639.0F; };
    operands.fill_x([&](std::int64_t row, std::int64_t term) { return end_of(row < 4 ? row : (term * row) >> 2); });
    operands.fill_weights([&](std::int64_t column, std::int64_t term) {
      return float_bits(end_of(column < 4 ? column : (term * column) >> 1));
    });
    const std::int64_t rows[] = {8, 13, 16, 33};
    expect_int16_bits(operands, rows);
  }
}

TEST(LinearInt16Cpu, AnOperandThatIsNotFiniteIsFoundAtItsRow) {
  for (const float bad : {INFINITY, -INFINITY, NAN})
    for (const LinearInt16Kernels* table : tables()) {
      Operands operands(14, 20, 1100, DType::kBF16);
      operands.x_at(9, 1030) = bad;
      ThreadPool pool(2);
      const WeightView weight = operands.weight();
      const auto layer =
          cpu::prepare_linear_int16(*table, {.isa = Isa::kScalar, .pool = &pool}, "tested", {&weight, 1});
      std::vector<std::byte> workspace(layer->workspace_bytes(14));
      std::vector<float> y(14 * 20);
      const LinearOutput output{{y.data(), 14, 20, 20}, nullptr};
      const auto place = layer->run({.x = operands.x(14), .outputs = {&output, 1}, .workspace = workspace.data()});
      ASSERT_TRUE(place);
      EXPECT_EQ(place->row, 9);
      EXPECT_EQ(place->column, 0);
    }
}

// Terms may change places inside their block, whole blocks with each other. Across blocks they may not: that is a
// control, as units are shared inside blocks.
TEST(LinearInt16Cpu, OrderInsideBlocksAndOfBlocksMovesNoBit) {
  constexpr std::int64_t kM = 16, kN = 20, kK = 2048;
  const Operands operands(kM, kN, kK, DType::kF32);
  const auto permuted_by = [&](const std::vector<std::int64_t>& order) {
    Operands permuted = operands;
    const WeightView weight = operands.weight();
    permuted.fill_x([&](std::int64_t row, std::int64_t k) {
      return operands.x(kM).data[row * kK + order[static_cast<std::size_t>(k)]];
    });
    permuted.fill_weights([&](std::int64_t row, std::int64_t k) {
      return load_weight(weight.data, weight.dtype, row * kK + order[static_cast<std::size_t>(k)]);
    });
    return permuted;
  };
  std::vector<std::int64_t> order(kK);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(3);
  for (auto block = order.begin(); block != order.end(); block += 512) std::shuffle(block, block + 512, random);
  std::rotate(order.begin(), order.begin() + 1024, order.end());
  const std::vector<float> expected = expected_of(operands);
  for (const LinearInt16Kernels* table : tables()) {
    const Operands permuted = permuted_by(order);
    EXPECT_TRUE(same_bits(Prepared(*table, permuted).run(permuted, kM), expected)) << table->target;
  }
  std::shuffle(order.begin(), order.end(), random);
  EXPECT_FALSE(same_bits(expected_of(permuted_by(order)), expected));
}

// The contract's numbers as parameters: the right ones give the reference's bits, and each wrong one others.
struct Rules {
  std::int64_t block = int16::kTermBlock;
  int range = int16::kUnitRange;
  bool low_by_low = false;
  bool away_from_zero = false;  // ties, when a number is snapped
};

float altered(const Operands& operands, std::int64_t m, std::int64_t n, const Rules& rules) {
  const auto unit_of = [](const std::vector<float>& values) {
    float largest = 0;
    for (const float value : values) largest = std::max(largest, std::fabs(value));
    return int16::unit_byte(float_bits(largest)) - 127;
  };
  const auto snapped = [&](float value, int unit) {
    const double scaled = std::ldexp(static_cast<double>(value), -unit);
    return static_cast<std::int64_t>(rules.away_from_zero ? std::round(scaled) : std::nearbyint(scaled));
  };
  const float* row = operands.x(operands.m()).data + m * operands.k();
  std::vector<float> weights;
  for (std::int64_t k = 0; k < operands.k(); ++k) weights.push_back(reference::widened(operands.weight(), n, k));
  const int row_unit = unit_of({row, row + operands.k()}), weight_unit = unit_of(weights);
  std::int64_t sum = 0;
  for (std::int64_t begin = 0; begin < operands.k(); begin += rules.block) {
    const std::int64_t end = std::min(operands.k(), begin + rules.block);
    const int unit = std::max(unit_of({row + begin, row + end}), row_unit - rules.range);
    std::int64_t block = 0;
    for (std::int64_t k = begin; k < end; ++k) {
      const auto x = snapped(row[k], unit), w = snapped(weights[static_cast<std::size_t>(k)], weight_unit);
      const auto low = [](std::int64_t v) { return v - ((v + 128) >> 8) * 256; };
      block += x * w - (rules.low_by_low ? 0 : low(x) * low(w));
    }
    sum += block * (std::int64_t{1} << (unit - row_unit + int16::kUnitRange));
  }
  return std::ldexp(static_cast<float>(sum), row_unit - int16::kUnitRange + weight_unit);
}

TEST(LinearInt16Cpu, EachNumberOfTheContractShowsInTheBits) {
  Operands operands(4, 8, 1600, DType::kBF16);
  operands.fill_x([n = std::int64_t{0}](std::int64_t, std::int64_t k) mutable {
    const auto random = static_cast<float>(study::random_word(5, static_cast<std::uint64_t>(n++)) >> 44) - 524288.0F;
    return std::ldexp(std::nearbyint(random / 32) * 0.5F, -static_cast<int>(k / 256) * 4);
  });
  const std::vector<float> expected = expected_of(operands);
  const auto differences = [&](const Rules& rules) {
    int count = 0;
    for (std::int64_t m = 0; m < 4; ++m)
      for (std::int64_t n = 0; n < 8; ++n)
        count += altered(operands, m, n, rules) != expected[static_cast<std::size_t>(m * 8 + n)];
    return count;
  };
  EXPECT_EQ(differences({}), 0);
  EXPECT_GT(differences({.block = 256}), 0);
  EXPECT_GT(differences({.range = 12}), 0);
  EXPECT_GT(differences({.low_by_low = true}), 0);
  EXPECT_GT(differences({.away_from_zero = true}), 0);
}

TEST(LinearInt16Cpu, EveryInstructionSetHasATableOfItsOwnAndSaysWhichRan) {
  std::set<std::string> names;
  const Operands operands(1, 3, 5, DType::kBF16);
  for (const LinearInt16Kernels* table : tables()) {
    EXPECT_EQ(Prepared(*table, operands).layer().implementation(), table->target);
    names.insert(std::string(table->target));
  }
  EXPECT_EQ(names.size(), tables().size());
}

TEST(LinearInt16Cpu, AmxGivesTheReferenceBitsAtRaggedShapes) {
  if (!cpu::machine_has_amx_int8()) GTEST_SKIP() << "this machine has no AMX for bytes, or the system refuses it";
  const std::vector<Isa> isas = supported_isas();
  if (std::count(isas.begin(), isas.end(), Isa::kAvx512) == 0) GTEST_SKIP() << "this build has no kernels for AVX-512";
  const std::vector<const LinearInt16Kernels*> avx512 = cpu::linear_int16_tables(Isa::kAvx512);
  ASSERT_EQ(avx512.back()->target, "avx512 amx");
  const std::int64_t rows[] = {16, 17, 20, 31, 32, 33, 40};
  for (const DType dtype : kDTypes)
    for (const std::int64_t n : {1, 17, 50})
      for (const std::int64_t k : {1, 5, 63, 64, 65, 127, 129, 511, 512, 513, 515, 576, 577, 1023, 1026})
        expect_int16_bits(Operands(40, n, k, dtype, n == 17), rows);
}

}  // namespace
}  // namespace reprofuse::int16_cpu
