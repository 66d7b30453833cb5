// Controls: the operands of the CPU tests tell fma-1 from its nearest neighbours, so a kernel that strayed would show.
#include <cmath>

#include "support/altered_linear.hpp"
#include "support/linear_cpu_case.hpp"

namespace reprofuse {
namespace {

using study::Alteration;
using study::AlteredLinear;

bool differs(const std::vector<float>& got, const CaseData& data) {
  const std::int64_t m = data.spec().m;
  const std::int64_t n = data.spec().n;
  return study::first_difference({got.data(), m, n, n}, data.expected(m)).has_value();
}

std::vector<float> run_altered(Alteration alteration, const CaseData& data) {
  std::vector<float> y(static_cast<std::size_t>(data.spec().m * data.spec().n));
  AlteredLinear(alteration, data.weight())
      .run(data.x(), data.bias(), {y.data(), data.spec().m, data.spec().n, data.spec().n});
  return y;
}

// The chain of a kernel that rounds K up to a tile of 16 terms with x = `pad` and w = +0.
std::vector<float> run_padded(float pad, const CaseData& data) {
  const auto [m, n, k] = std::tuple(data.spec().m, data.spec().n, data.spec().k);
  std::vector<float> y;
  for (std::int64_t row = 0; row < m; ++row)
    for (std::int64_t column = 0; column < n; ++column) {
      float chain = 0.0F;
      for (std::int64_t i = 0; i < k; ++i)
        chain = std::fma(data.x().data[row * data.x().stride + i], reference::widened(data.weight(), column, i), chain);
      for (std::int64_t i = k; i % 16 != 0; ++i) chain = std::fma(pad, 0.0F, chain);
      y.push_back(chain);
    }
  return y;
}

TEST(LinearCpuControls, AnotherOrderOrAnUnfusedProductIsCaughtInEveryWeightType) {
  for (const DType dtype : kDTypes) {
    const CaseData data({.m = 3, .n = 35, .k = 1537, .dtype = dtype});
    EXPECT_FALSE(differs(run_altered(Alteration::kNone, data), data)) << "the control's own loop is not fma-1";
    EXPECT_TRUE(differs(run_altered(Alteration::kHalfSegments, data), data)) << dtype_name(dtype);
    EXPECT_TRUE(differs(run_altered(Alteration::kFoldDescending, data), data)) << dtype_name(dtype);
    EXPECT_TRUE(differs(run_altered(Alteration::kUnfused, data), data)) << dtype_name(dtype);
  }
}

TEST(LinearCpuControls, HugeOperandsCatchAnUnfusedProduct) {
  for (const DType dtype : kDTypes) {
    const CaseData data({.m = 3, .n = 35, .k = 1537, .dtype = dtype, .operands = Operands::kHuge});
    EXPECT_TRUE(differs(run_altered(Alteration::kUnfused, data), data)) << dtype_name(dtype);
  }
}

// Among subnormals a product and a sum share one grid, so fused and unfused differ at ties alone: short weights have
// them.
TEST(LinearCpuControls, SubnormalOperandsCatchAnUnfusedProduct) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const CaseData data({.m = 3, .n = 35, .k = 1537, .dtype = dtype, .operands = Operands::kSubnormal});
    EXPECT_TRUE(differs(run_altered(Alteration::kUnfused, data), data)) << dtype_name(dtype);
  }
}

TEST(LinearCpuControls, PaddingWithPlusZeroIsCaughtAndPaddingWithMinusZeroIsNeutral) {
  for (const DType dtype : kDTypes) {
    const CaseData data({.m = 2, .n = 17, .k = 37, .dtype = dtype, .operands = Operands::kNegativeZero});
    EXPECT_EQ(std::bit_cast<std::uint32_t>(data.expected(1).data[0]), 0x80000000U) << "the operands give no -0";
    EXPECT_TRUE(differs(run_padded(0.0F, data), data)) << dtype_name(dtype);
    EXPECT_FALSE(differs(run_padded(-0.0F, data), data)) << dtype_name(dtype);
  }
}

TEST(LinearCpuControls, OneWrongBitIsReportedWithItsPlace) {
  const CaseData data({.m = 2, .n = 17, .k = 37, .dtype = DType::kBF16});
  std::vector<float> y = run_altered(Alteration::kNone, data);
  y[20] = std::nextafter(y[20], 1000.0F);
  const auto difference = study::first_difference({y.data(), 2, 17, 17}, data.expected(2));
  ASSERT_TRUE(difference.has_value());
  EXPECT_EQ(difference->row, 1);
  EXPECT_EQ(difference->column, 3);
}

}  // namespace
}  // namespace reprofuse
