#include "numerics/double_math.hpp"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cstdint>

#include "base/check.hpp"

// All constants come from tools/sollya/double_math.sollya.
namespace reprofuse {
namespace {

constexpr double kLn2High = 0x1.62e42feep-1;  // 32 bits: products with an exponent are exact
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kRoundToInteger = 0x1.8p+52;  // adding and subtracting it rounds to the nearest integer
constexpr int kExponentBias = 1023;
constexpr int kFractionBits = 52;

// Coefficients in ascending order, evaluated from the highest down.
template <std::size_t kCount>
double polynomial(const double (&coefficients)[kCount], double x) {
  double sum = coefficients[kCount - 1];
  for (std::size_t i = kCount - 1; i-- > 0;) sum = sum * x + coefficients[i];
  return sum;
}

double power_of_two(std::int64_t exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + kExponentBias) << kFractionBits);
}

// The sum of two numbers without error, as high + low.
struct DoubleDouble {
  double high;
  double low;
};

DoubleDouble two_difference(double a, double b) {
  const double high = a - b;
  const double taken = a - high;
  return {high, (a - (high + taken)) + (taken - b)};
}

// x - n pi/2 for the nearest n, to about 2^-130: three parts of pi/2 whose products with n are exact, and the rest.
DoubleDouble reduce_half_pi(double x, double n) {
  constexpr double kPart1 = 0x1.921fb544p+0, kPart2 = 0x1.0b4611a6p-34, kPart3 = 0x1.3198a2ep-69;
  constexpr double kRest = 0x1.b839a252049c1p-104;
  const DoubleDouble first = two_difference(x - n * kPart1, n * kPart2);
  const DoubleDouble second = two_difference(first.high, n * kPart3);
  const double tail = (first.low + second.low) - n * kRest;
  const double high = second.high + tail;
  return {high, (second.high - high) + tail};
}

// For |r| <= pi/4.
double sin_reduced(DoubleDouble r) {
  static constexpr double kCoefficients[] = {-0x1.5555555555555p-3, 0x1.1111111110c84p-7,  -0x1.a01a019ea1799p-13,
                                             0x1.71de37b22fc17p-19, -0x1.ae6021702fe8p-26, 0x1.5e11b7160884bp-33};
  const double square = r.high * r.high;
  const double correction = r.low - 0.5 * square * r.low;
  return r.high + (square * r.high * polynomial(kCoefficients, square) + correction);
}

double cos_reduced(DoubleDouble r) {
  static constexpr double kCoefficients[] = {0x1.5555555555555p-5,   -0x1.6c16c16c168ccp-10, 0x1.a01a019f38b91p-16,
                                             -0x1.27e4fa03819cep-22, 0x1.1eeb586ba7411p-29,  -0x1.9073eabcb6492p-37};
  const double square = r.high * r.high;
  const double half = 0.5 * square;
  const double lead = 1.0 - half;
  const double rest = square * square * polynomial(kCoefficients, square) - r.high * r.low;
  return lead + (((1.0 - lead) - half) + rest);
}

}  // namespace

double exp_f64(double x) {
  static constexpr double kCoefficients[] = {0x1p-1,
                                             0x1.5555555555557p-3,
                                             0x1.5555555555557p-5,
                                             0x1.111111111004dp-7,
                                             0x1.6c16c16c156a2p-10,
                                             0x1.a01a01ac20fc4p-13,
                                             0x1.a01a01ab9a61p-16,
                                             0x1.71de01a1ad724p-19,
                                             0x1.27e4cfa93cc5cp-22,
                                             0x1.af4ee43065757p-26,
                                             0x1.1f86fc339ddbep-29};
  constexpr double kLog2E = 0x1.71547652b82fep+0;
  x = std::clamp(x, -746.0, 710.0);
  const double n = (x * kLog2E + kRoundToInteger) - kRoundToInteger;
  const double high = x - n * kLn2High;
  const double low = n * kLn2Low;
  const double r = high - low;
  const double tail = (high - r) - low;
  const double p = 1.0 + (r + (tail + r * r * polynomial(kCoefficients, r)));
  const auto exponent = static_cast<std::int64_t>(n);
  return p * power_of_two(exponent / 2) * power_of_two(exponent - exponent / 2);
}

double log_f64(double x) {
  static constexpr double kCoefficients[] = {0x1.5555555555558p-1, 0x1.99999999952d3p-2, 0x1.2492492df8288p-2,
                                             0x1.c71c62dafe5d8p-3, 0x1.7462b7c30167bp-3, 0x1.39fdfad00f531p-3,
                                             0x1.2b5d0d1375eacp-3};
  constexpr std::uint64_t kRootOfHalf = 0x3fe6a09e667f3bcdULL;  // the word of sqrt(1/2)
  require(x > 0.0 && x <= DBL_MAX, "the logarithm of {} is not a finite number", x);
  std::int64_t n = 0;
  if (x < DBL_MIN) {
    x *= 0x1p+54;
    n = -54;
  }
  // x = 2^n m with sqrt(1/2) <= m < sqrt(2).
  const auto word = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t exponent = (word - kRootOfHalf) & 0xfff0000000000000ULL;
  n += static_cast<std::int64_t>(exponent) / (std::int64_t{1} << kFractionBits);
  const double f = std::bit_cast<double>(word - exponent) - 1.0;
  const double s = f / (2.0 + f);
  const double square = s * s;
  const double half = 0.5 * f * f;
  const double rest = s * (half + square * polynomial(kCoefficients, square));
  const auto count = static_cast<double>(n);
  return count * kLn2High - ((half - (rest + count * kLn2Low)) - f);
}

SinCos sincos_f64(double x) {
  constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
  require(x >= -kSinCosLimit && x <= kSinCosLimit, "the sine of {} is outside +-{}", x, kSinCosLimit);
  const double n = (x * kTwoOverPi + kRoundToInteger) - kRoundToInteger;
  const DoubleDouble r = reduce_half_pi(x, n);
  const double sin = sin_reduced(r);
  const double cos = cos_reduced(r);
  switch (static_cast<std::int64_t>(n) & 3) {
    case 0: return {sin, cos};
    case 1: return {cos, -sin};
    case 2: return {-sin, -cos};
    default: return {-cos, sin};
  }
}

double pow_f64(double x, double y) {
  return exp_f64(y * log_f64(x));
}

}  // namespace reprofuse
