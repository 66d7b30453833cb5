// MPFR numbers of 200 bits with the little that tests need.
#pragma once

#include <mpfr.h>

#include <algorithm>
#include <cmath>

namespace reprofuse::testing {

class Exact {
 public:
  Exact() { mpfr_init2(value_, 200); }
  explicit Exact(double value) : Exact() { mpfr_set_d(value_, value, MPFR_RNDN); }
  ~Exact() { mpfr_clear(value_); }
  Exact(const Exact&) = delete;
  Exact& operator=(const Exact&) = delete;

  mpfr_ptr get() { return value_; }
  double to_double() const { return mpfr_get_d(value_, MPFR_RNDN); }
  float to_float() const { return mpfr_get_flt(value_, MPFR_RNDN); }

  // The distance of `got`, in units of the last of `digits` binary places of this value; `least` is the exponent below
  // which a format's spacing stays the same.
  double ulps(double got, int digits, int least) const {
    if (mpfr_zero_p(value_) != 0) return got == 0 ? 0 : INFINITY;
    const long exponent = std::max<long>(mpfr_get_exp(value_) - 1, least);
    Exact difference;
    mpfr_sub_d(difference.value_, value_, got, MPFR_RNDN);
    mpfr_mul_2si(difference.value_, difference.value_, digits - 1 - exponent, MPFR_RNDN);
    return std::abs(difference.to_double());
  }
  double ulps_f64(double got) const { return ulps(got, 53, -1022); }
  double ulps_f32(float got) const { return ulps(static_cast<double>(got), 24, -126); }

 private:
  mpfr_t value_;
};

using Function = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);

// function(x), with an error far below any ulp asked about.
inline void evaluate(Function function, double x, Exact& out) {
  Exact argument(x);
  function(out.get(), argument.get(), MPFR_RNDN);
}

}  // namespace reprofuse::testing
