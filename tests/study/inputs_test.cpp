#include "study/seeded/inputs.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/reference/reference.hpp"

namespace reprofuse::study {
namespace {

TEST(Inputs, TheFirstWordsArePinned) {
  const auto x = make_activations(16, 1, 3);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(x[0]), 0x405cba77U);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(x[1]), 0x404ac985U);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(x[2]), 0xbf12a4e8U);
}

TEST(Inputs, MagnitudesStayInTheirRangeAndSignsAreEven) {
  ThreadPool pool(2);
  int negative = 0;
  const auto x = make_activations(5, 100, 100);
  for (const float value : x) {
    ASSERT_GE(std::fabs(value), 0x1p-7F);
    ASSERT_LT(std::fabs(value), 4.0F);
    negative += std::signbit(value) ? 1 : 0;
  }
  EXPECT_NEAR(negative, 5000, 250);
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    const Weights weights = make_weights(6, dtype, 50, 40, pool);
    for (std::int64_t n = 0; n < 50; ++n)
      for (std::int64_t k = 0; k < 40; ++k) {
        const float value = std::fabs(reference::widened(weights.view(), n, k));
        ASSERT_GE(value, 0x1p-13F) << dtype_name(dtype);
        ASSERT_LT(value, 0x1p-4F) << dtype_name(dtype);
      }
  }
}

TEST(Inputs, WeightsDoNotDependOnTheThreads) {
  ThreadPool one(1);
  ThreadPool four(4);
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32})
    EXPECT_EQ(make_weights(7, dtype, 33, 77, one).storage, make_weights(7, dtype, 33, 77, four).storage);
}

TEST(Inputs, AnotherSeedGivesOtherValues) {
  EXPECT_NE(make_activations(1, 4, 4), make_activations(2, 4, 4));
}

}  // namespace
}  // namespace reprofuse::study
