// RMSNorm on the GPU: the reference's bits for every length of a row, with and without a residual.
#include "support/model_ops_cuda_case.hpp"

namespace reprofuse {
namespace {

class RmsNormCuda : public ModelOpsCuda {
 protected:
  struct Case {
    Case(std::int64_t m, std::int64_t k, std::int64_t padding)
        : x(m, k, 11, padding), delta(m, k, 12, padding), weight(1, k, 13), y(m, k, 14, padding) {}
    Rows x, delta, weight, y;
  };

  void expect_reference_bits(std::int64_t m, std::int64_t k, bool residual, std::int64_t padding) {
    SCOPED_TRACE("m " + std::to_string(m) + " k " + std::to_string(k) + (residual ? " with a residual" : ""));
    Case c(m, k, padding);
    const DeviceRows x(c.x), delta(c.delta), weight(c.weight), y(c.y);
    cuda::rms_norm(site(), {.x = x.view(),
                            .delta = residual ? delta.const_view() : ConstMatrix{},
                            .weight = weight.data(),
                            .eps = 1e-5F,
                            .y = y.view()});
    EXPECT_FALSE(failure());
    Case expected(m, k, padding);
    EXPECT_FALSE(reference::rms_norm({.x = expected.x.view(),
                                      .delta = residual ? as_const(expected.delta.view()) : ConstMatrix{},
                                      .weight = &expected.weight.at(0, 0),
                                      .eps = 1e-5F,
                                      .y = expected.y.view()}));
    x.fetch(c.x);
    y.fetch(c.y);
    ASSERT_TRUE(same_bits(c.x, expected.x));
    ASSERT_TRUE(same_bits(c.y, expected.y));
  }
};

TEST_F(RmsNormCuda, EveryLengthOfARowHasTheReferenceBits) {
  for (const bool residual : {false, true})
    for (const std::int64_t k :
         {1, 2, 31, 255, 256, 257, 1000, 1024, 1025, 2048, 2560, 3072, 3073, 4095, 4096, 4097, 5120, 8192, 8193, 16384})
      expect_reference_bits(3, k, residual, 0);
}

TEST_F(RmsNormCuda, StridedRowsAndManyRowsHaveTheReferenceBits) {
  for (const std::int64_t padding : {1, 4, 7})
    for (const std::int64_t m : {1, 33, 300}) expect_reference_bits(m, 1030, true, padding);
}

TEST_F(RmsNormCuda, TheRowItselfCanBeTheResult) {
  Rows x(5, 3072, 21), weight(1, 3072, 22), expected(5, 3072, 21);
  const DeviceRows device_x(x), device_weight(weight);
  cuda::rms_norm(
      site(), {.x = device_x.view(), .delta = {}, .weight = device_weight.data(), .eps = 1e-6F, .y = device_x.view()});
  synchronize();
  reference::rms_norm(
      {.x = expected.view(), .delta = {}, .weight = &weight.at(0, 0), .eps = 1e-6F, .y = expected.view()});
  device_x.fetch(x);
  EXPECT_TRUE(same_bits(x, expected));
}

TEST_F(RmsNormCuda, AnInfiniteSumIsRecordedWithItsRow) {
  for (const std::int64_t k : {512, 3072, 20000}) {
    Case c(9, k, 0);
    c.x.at(7, 3) = std::numeric_limits<float>::quiet_NaN();
    c.x.at(4, k - 1) = 0x1p100F;  // finite, but its square is not
    const DeviceRows x(c.x), weight(c.weight), y(c.y);
    cuda::rms_norm(site(), {.x = x.view(), .delta = {}, .weight = weight.data(), .eps = 1e-5F, .y = y.view()});
    EXPECT_EQ(describe(failure()), "4:0");
    EXPECT_EQ(describe(failure()), "none") << "the record was not cleared";
  }
}

// Control: a sum of another order, over half the chains, must show in the comparison used above.
TEST_F(RmsNormCuda, AnotherOrderWouldBeCaught) {
  constexpr std::int64_t kRows = 64;  // the square root hides a last bit in some
  Case c(kRows, 3072, 0);
  const DeviceRows x(c.x), weight(c.weight), y(c.y);
  cuda::rms_norm(site(), {.x = x.view(), .delta = {}, .weight = weight.data(), .eps = 1e-5F, .y = y.view()});
  synchronize();
  y.fetch(c.y);
  const auto altered = [&](std::size_t chains) {
    Rows result(kRows, 3072, 14);
    for (std::int64_t m = 0; m < kRows; ++m) {
      std::vector<float> lanes(chains, 0.0F);
      for (std::int64_t i = 0; i < 3072; ++i) {
        float& lane = lanes[static_cast<std::size_t>(i) % chains];
        lane = std::fma(c.x.at(m, i), c.x.at(m, i), lane);
      }
      for (std::size_t half = chains / 2; half >= 1; half /= 2)
        for (std::size_t j = 0; j < half; ++j) lanes[j] = lanes[j] + lanes[j + half];
      const float inverse = 1.0F / std::sqrt(lanes[0] / 3072.0F + 1e-5F);
      for (std::int64_t i = 0; i < 3072; ++i) result.at(m, i) = c.weight.at(0, i) * (c.x.at(m, i) * inverse);
    }
    return static_cast<bool>(same_bits(c.y, result));
  };
  EXPECT_TRUE(altered(256));
  EXPECT_FALSE(altered(128));
}

}  // namespace
}  // namespace reprofuse
