// exact-1 on the CPU: every table of kernels gives the reference's bits at every shape, alignment and thread count.
#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "kernels/linear_exact1_cpu_case.hpp"

namespace reprofuse::exact1_cpu {
namespace {

constexpr std::int64_t kRaggedN[] = {1, 16, 17, 50};
// Around quads of terms, registers, and the strips of 128, 256, 512 and 1024 terms after which sums are widened.
constexpr std::int64_t kRaggedK[] = {1,   2,   3,   4,   5,   6,   7,   8,   9,    15,   17,  31,
                                     127, 128, 129, 255, 256, 257, 259, 513, 1023, 1024, 1027};

TEST(LinearExact1Cpu, EveryTableGivesTheReferenceBitsAtRaggedShapes) {
  for (const DType dtype : kDTypes)
    for (const std::int64_t n : kRaggedN)
      for (const std::int64_t k : kRaggedK) {
        const Operands operands(9, n, k, dtype);
        const std::vector<float> expected = operands.expected();
        for (const LinearExact1Kernels* table : tables()) {
          const Prepared prepared(*table, operands);
          for (std::int64_t rows = 1; rows <= 9; ++rows) ASSERT_TRUE(matches(prepared, operands, rows, expected));
        }
      }
}

// Tiles are at most 8 rows and groups of tiles at most 128 rows, so both kinds of edge are passed.
TEST(LinearExact1Cpu, RowBitsDoNotDependOnBatchSize) {
  std::vector<std::int64_t> sizes(34);
  std::iota(sizes.begin(), sizes.end(), 1);
  for (const std::int64_t m : {120, 125, 126, 127, 128, 129, 133, 255, 256, 257}) sizes.push_back(m);
  for (const DType dtype : kDTypes) {
    const Operands operands(257, 200, 43, dtype, true);
    const std::vector<float> expected = operands.expected();
    for (const LinearExact1Kernels* table : tables()) {
      const Prepared prepared(*table, operands);
      for (const std::int64_t m : sizes) ASSERT_TRUE(matches(prepared, operands, m, expected));
    }
  }
}

TEST(LinearExact1Cpu, BitsDoNotDependOnThreads) {
  const Operands operands(70, 333, 300, DType::kBF16, true);
  const std::vector<float> expected = operands.expected();
  for (const LinearExact1Kernels* table : tables())
    for (const int threads : {1, 2, 3, 4}) {
      const Prepared prepared(*table, operands, threads);
      for (const std::int64_t m : {1, 5, 70}) ASSERT_TRUE(matches(prepared, operands, m, expected)) << threads;
    }
}

TEST(LinearExact1Cpu, StridedAndUnalignedOperandsGiveTheSameBitsAndNothingElseIsWritten) {
  for (const DType dtype : kDTypes)
    for (const std::int64_t offset : {1, 3, 7})
      for (const std::int64_t k : {33, 1029})
        expect_reference_bits(Operands(10, 37, k, dtype, true, {.padding = offset + 2, .offset = offset}));
}

TEST(LinearExact1Cpu, FusedOutputsHaveTheBitsOfSeparateLayers) {
  constexpr std::int64_t kM = 7;
  for (const DType dtype : kDTypes) {
    const Operands parts[] = {
        {kM, 5, 1031, dtype, true, {}, 7}, {kM, 48, 1031, dtype, false, {}, 7}, {kM, 33, 1031, dtype, true, {}, 7}};
    for (const LinearExact1Kernels* table : tables()) {
      std::vector<WeightView> weights;
      std::vector<std::vector<float>> results;
      std::vector<LinearOutput> outputs;
      for (const Operands& part : parts) {
        weights.push_back(part.weight());
        results.emplace_back(static_cast<std::size_t>(kM * part.n()), kPoison);
        outputs.push_back({{results.back().data(), kM, part.n(), part.n()}, part.bias()});
      }
      ASSERT_FALSE(Prepared(*table, weights, 2).run(parts[0].x(kM), outputs));
      for (std::size_t i = 0; i < std::size(parts); ++i) {
        const std::int64_t n = parts[i].n();
        const std::vector<float> expected = parts[i].expected();
        const auto difference = study::first_difference({results[i].data(), kM, n, n}, {expected.data(), kM, n, n});
        ASSERT_FALSE(difference) << table->target << " output " << i << ": " << difference->description();
      }
    }
  }
}

// Beside a weight that sets the row's exponent, every finite bit pattern of a 16-bit type is snapped by every table.
TEST(LinearExact1Cpu, EverySixteenBitWeightIsSnappedAsTheReferenceDoes) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const std::uint32_t infinity = dtype == DType::kBF16 ? 0x7f80 : 0x7c00;
    const std::uint32_t one = dtype == DType::kBF16 ? 0x3f80 : 0x3c00;
    Operands operands(2, 2 * infinity, 3, dtype);
    operands.fill_weights([&](std::int64_t row, std::int64_t k) -> std::uint32_t {
      const auto pattern = static_cast<std::uint32_t>(row) % infinity | (row < infinity ? 0U : 0x8000U);
      return k == 0 ? pattern : k == 1 ? one : 0;
    });
    operands.fill_x([](std::int64_t row, std::int64_t k) { return k == 1 ? 0.0F : row == 0 ? 1.0F : 0x1.fdfdfp-1F; });
    expect_reference_bits(operands);
  }
}

// The integers have no order: terms may come in any. A contract of rounded sums is the control.
TEST(LinearExact1Cpu, PermutingTheTermsOfBothOperandsMovesNoBit) {
  constexpr std::int64_t kM = 7, kN = 20, kK = 1500;
  const Operands operands(kM, kN, kK, DType::kF32);
  std::vector<std::int64_t> order(kK);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(3));
  Operands permuted = operands;
  const WeightView weight = operands.weight();
  permuted.fill_x([&](std::int64_t row, std::int64_t k) { return operands.x(kM).data[row * kK + order[k]]; });
  permuted.fill_weights(
      [&](std::int64_t row, std::int64_t k) { return load_weight(weight.data, weight.dtype, row * kK + order[k]); });
  const std::vector<float> expected = operands.expected();
  for (const LinearExact1Kernels* table : tables())
    ASSERT_TRUE(matches(Prepared(*table, permuted), permuted, kM, expected));

  std::vector<float> in_order(kM * kN);
  std::vector<float> shuffled(kM * kN);
  reference::linear_fma1(operands.x(kM), operands.weight(), nullptr, {in_order.data(), kM, kN, kN});
  reference::linear_fma1(permuted.x(kM), permuted.weight(), nullptr, {shuffled.data(), kM, kN, kN});
  EXPECT_TRUE(study::first_difference({in_order.data(), kM, kN, kN}, {shuffled.data(), kM, kN, kN}))
      << "fma-1 did not notice the order either";
}

TEST(LinearExact1Cpu, EveryInstructionSetHasATableOfItsOwnAndSaysWhichRan) {
  std::set<std::string> names;
  std::set<decltype(LinearExact1Kernels::multiply)> kernels;
  const Operands operands(1, 3, 5, DType::kBF16);
  for (const LinearExact1Kernels* table : tables()) {
    EXPECT_EQ(Prepared(*table, operands).layer().implementation(), table->target);
    names.insert(std::string(table->target));
    kernels.insert(table->multiply);
  }
  EXPECT_EQ(names.size(), tables().size());
  EXPECT_EQ(kernels.size(), tables().size()) << "two tables share a kernel";
  for (const Isa isa : supported_isas())
    EXPECT_EQ(cpu::linear_exact1_tables(isa).back()->target.substr(0, isa_name(isa).size()), isa_name(isa));
}

}  // namespace
}  // namespace reprofuse::exact1_cpu
