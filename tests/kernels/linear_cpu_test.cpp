// fma-1 on the CPU: every instruction set gives the reference's bits at every shape, alignment and thread count.
#include "support/linear_cpu_case.hpp"

namespace reprofuse {
namespace {

constexpr std::int64_t kRaggedN[] = {1, 2, 15, 16, 17, 63, 64, 65, 80};
constexpr std::int64_t kRaggedK[] = {1, 2, 3, 15, 16, 17, 63, 64, 65, 511, 512, 513, 1023, 1024, 1025};
constexpr std::int64_t kFewRows[] = {1, 2, 3, 7, 9, 13};

TEST(LinearCpu, EveryIsaGivesTheReferenceBitsAtRaggedShapes) {
  for (const DType dtype : kDTypes)
    for (const std::int64_t n : kRaggedN)
      for (const std::int64_t k : kRaggedK) {
        const CaseData data({.m = 13, .n = n, .k = k, .dtype = dtype});
        for (const Isa isa : supported_isas()) {
          const Context context = cpu_context(isa);
          const LinearLayer layer = make_layer(context, data);
          for (const std::int64_t rows : kFewRows) ASSERT_TRUE(matches_reference(context, layer, data, rows));
        }
      }
}

// Tiles are at most 12 rows and groups of tiles at most 128 rows, so both kinds of edge are passed.
TEST(LinearCpu, RowBitsDoNotDependOnBatchSize) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t m = 1; m <= 40; ++m) sizes.push_back(m);
  for (const std::int64_t m : {119, 120, 121, 127, 128, 129, 255, 257, 511, 512, 513}) sizes.push_back(m);
  for (const DType dtype : kDTypes) {
    const CaseData data({.m = 513, .n = 67, .k = 700, .dtype = dtype, .bias = true});
    for (const Isa isa : supported_isas()) {
      const Context context = cpu_context(isa, 2);
      const LinearLayer layer = make_layer(context, data);
      for (const std::int64_t m : sizes) ASSERT_TRUE(matches_reference(context, layer, data, m));
    }
  }
}

TEST(LinearCpu, BitsDoNotDependOnThreads) {
  const CaseData data({.m = 200, .n = 333, .k = 1100, .dtype = DType::kBF16});
  for (const Isa isa : supported_isas())
    for (const int threads : {1, 2, 3, 7}) {
      const Context context = cpu_context(isa, threads);
      const LinearLayer layer = make_layer(context, data);
      for (const std::int64_t m : {1, 5, 200}) ASSERT_TRUE(matches_reference(context, layer, data, m)) << threads;
    }
}

TEST(LinearCpu, StridedAndUnalignedOperandsGiveTheSameBitsAndNothingElseIsWritten) {
  for (const DType dtype : kDTypes)
    for (const std::int64_t offset : {1, 3, 7})
      for (const std::int64_t k : {33, 513}) {
        const CaseData data({.m = 14,
                             .n = 37,
                             .k = k,
                             .dtype = dtype,
                             .operands = Operands::kOrdinary,
                             .bias = true,
                             .padding = offset + 2,
                             .offset = offset});
        for (const Isa isa : supported_isas()) {
          const Context context = cpu_context(isa);
          const LinearLayer layer = make_layer(context, data);
          for (const std::int64_t rows : {1, 6, 14}) ASSERT_TRUE(matches_reference(context, layer, data, rows));
        }
      }
}

TEST(LinearCpu, SubnormalHugeAndNegativeZeroOperandsGiveTheReferenceBits) {
  for (const Operands operands : kOperands)
    for (const DType dtype : kDTypes)
      for (const std::int64_t k : {1, 37, 512, 1537}) {
        const CaseData data({.m = 13, .n = 35, .k = k, .dtype = dtype, .operands = operands});
        for (const Isa isa : supported_isas()) {
          const Context context = cpu_context(isa);
          const LinearLayer layer = make_layer(context, data);
          for (const std::int64_t rows : {1, 13}) ASSERT_TRUE(matches_reference(context, layer, data, rows));
        }
      }
}

// Every finite bit pattern of a 16-bit type is one row of a one-column layer, so y is the widened weight itself.
TEST(LinearCpu, EverySixteenBitWeightIsWidenedExactly) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    std::vector<std::uint16_t> patterns;
    const std::uint16_t exponent = dtype == DType::kBF16 ? 0x7f80 : 0x7c00;
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits)
      if ((bits & exponent) != exponent) patterns.push_back(static_cast<std::uint16_t>(bits));
    const auto n = static_cast<std::int64_t>(patterns.size());
    const WeightView weight{patterns.data(), dtype, n, 1, 1};
    const float one = 1.0F;
    std::vector<float> expected(patterns.size());
    reference::linear_fma1({&one, 1, 1, 1}, weight, nullptr, {expected.data(), 1, n, n});
    for (const Isa isa : supported_isas()) {
      const Context context = cpu_context(isa);
      const LinearLayer layer(context, std::span(&weight, 1));
      std::vector<float> y(patterns.size(), kPoison);
      const LinearOutput output{.y = {y.data(), 1, n, n}};
      layer.run({&one, 1, 1, 1}, std::span(&output, 1), {nullptr, 0});
      const auto difference = study::first_difference({y.data(), 1, n, n}, {expected.data(), 1, n, n});
      ASSERT_FALSE(difference) << isa_name(isa) << " " << dtype_name(dtype) << ": " << difference->description();
    }
  }
}

TEST(LinearCpu, FusedOutputsHaveTheBitsOfSeparateLayers) {
  constexpr std::int64_t kSizes[] = {5, 48, 33};
  for (const DType dtype : kDTypes)
    for (const Isa isa : supported_isas()) {
      const Context context = cpu_context(isa, 2);
      std::vector<CaseData> parts;
      for (const std::int64_t n : kSizes)
        parts.emplace_back(LinearCase{.m = 14, .n = n, .k = 519, .dtype = dtype, .bias = n != 48}, 7);
      std::vector<WeightView> weights;
      std::vector<std::vector<float>> results;
      std::vector<LinearOutput> outputs;
      for (const CaseData& part : parts) {
        weights.push_back(part.weight());
        results.emplace_back(static_cast<std::size_t>(14 * part.spec().n), kPoison);
        outputs.push_back({{results.back().data(), 14, part.spec().n, part.spec().n}, part.bias()});
      }
      const LinearLayer fused(context, weights, "fused");
      fused.run(parts[0].x(), outputs, Workspace(context, fused.workspace_bytes(14)));
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::int64_t n = parts[i].spec().n;
        const auto difference = study::first_difference({results[i].data(), 14, n, n}, parts[i].expected(14));
        ASSERT_FALSE(difference) << isa_name(isa) << " output " << i << ": " << difference->description();
      }
    }
}

TEST(LinearCpu, ASingleRowNeedsNoWorkspaceAndMoreRowsAreRefusedWithoutIt) {
  const CaseData data({.m = 2, .n = 20, .k = 40, .dtype = DType::kBF16});
  const Context context = cpu_context(supported_isas().back());
  const LinearLayer layer = make_layer(context, data);
  EXPECT_EQ(layer.workspace_bytes(1), 0U);
  std::vector<float> y(40);
  const LinearOutput one{.y = {y.data(), 1, 20, 20}};
  ConstMatrix x = data.x();
  x.rows = 1;
  layer.run(x, std::span(&one, 1), {nullptr, 0});
  const LinearOutput two{.y = {y.data(), 2, 20, 20}};
  EXPECT_THROW(layer.run(data.x(), std::span(&two, 1), {nullptr, 0}), Error);
}

}  // namespace
}  // namespace reprofuse
