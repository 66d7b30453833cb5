// Elementary functions in binary64 from IEEE additions, multiplications and divisions alone, so that no libm enters a
// result. Host only: tables and constants are made with them. Each is less than 1 ulp off (tests/numerics/). No
// argument may be a NaN.
#pragma once

#include "numerics/float_ops.hpp"

namespace reprofuse {

inline constexpr double kSinCosLimit = 0x1p+20;

struct SinCos {
  double sin;
  double cos;
};

double exp_f64(double x);     // infinity above 709.78, 0 below -745.13
double log_f64(double x);     // finite x > 0
SinCos sincos_f64(double x);  // |x| <= kSinCosLimit

// exp_f64(y * log_f64(x)), x > 0: about 1 + |y log x| ulp off.
double pow_f64(double x, double y);

}  // namespace reprofuse
