// exp_f32 on vectors, for sources that Highway compiles once per target; per lane the operations of
// numerics/exp_log.hpp. Include it after highway.h, under the targets that have kernels. Once per target: Highway's own
// guard would need an inclusion at every target, also at those without kernels.
#undef REPROFUSE_EXP_FIRST
#if HWY_TARGET == HWY_AVX2 && !defined(REPROFUSE_EXP_AVX2)
#define REPROFUSE_EXP_AVX2
#define REPROFUSE_EXP_FIRST
#elif HWY_TARGET == HWY_AVX3 && !defined(REPROFUSE_EXP_AVX3)
#define REPROFUSE_EXP_AVX3
#define REPROFUSE_EXP_FIRST
#elif HWY_TARGET == HWY_NEON && !defined(REPROFUSE_EXP_NEON)
#define REPROFUSE_EXP_NEON
#define REPROFUSE_EXP_FIRST
#endif

#ifdef REPROFUSE_EXP_FIRST
#include <hwy/highway.h>

#include "numerics/exp_log.hpp"

static_assert(HWY_NATIVE_FMA, "a multiply and an add would round twice");

HWY_BEFORE_NAMESPACE();
namespace reprofuse::cpu::HWY_NAMESPACE {

// x or a bound, and a NaN as it is: on x86 Max and Min give their second operand for it; on NEON they would not.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V exp_at_least(D d, float min, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V bound = hn::Set(d, min);
#if HWY_TARGET == HWY_NEON
  return hn::IfThenElse(hn::Lt(x, bound), bound, x);
#else
  return hn::Max(bound, x);
#endif
}

template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V exp_at_most(D d, float max, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V bound = hn::Set(d, max);
#if HWY_TARGET == HWY_NEON
  return hn::IfThenElse(hn::Gt(x, bound), bound, x);
#else
  return hn::Min(bound, x);
#endif
}

// `shift` and `unraise` belong to the sign of x.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V exp_f32_scaled(D d, V x, V shift, V unraise) {
  namespace hn = hwy::HWY_NAMESPACE;
  namespace c = exp_constants;
  const V shifted = hn::MulAdd(x, hn::Set(d, c::kLog2E), shift);
  const V n = hn::Sub(shifted, shift);
  const V r = hn::NegMulAdd(n, hn::Set(d, c::kLn2Low), hn::NegMulAdd(n, hn::Set(d, c::kLn2High), x));
  V p = hn::MulAdd(hn::Set(d, c::kC6), r, hn::Set(d, c::kC5));
  p = hn::MulAdd(p, r, hn::Set(d, c::kC4));
  p = hn::MulAdd(p, r, hn::Set(d, c::kC3));
  p = hn::MulAdd(p, r, hn::Set(d, c::kC2));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F));
  const hn::RebindToUnsigned<D> words;
  const V raised = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(words, shifted)));
  return hn::Mul(hn::Mul(p, raised), unraise);
}

// Bits: equal reprofuse::exp_f32 in every lane. A NaN gives a NaN.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V exp_f32(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  namespace c = exp_constants;
  x = exp_at_most(d, c::kMax, exp_at_least(d, c::kMin, x));
  const auto negative = hn::Lt(x, hn::Zero(d));
  const V shift = hn::IfThenElse(negative, hn::Set(d, c::kShiftNegative), hn::Set(d, c::kShiftPositive));
  const V unraise = hn::IfThenElse(negative, hn::Set(d, c::kUnraiseNegative), hn::Set(d, c::kUnraisePositive));
  return exp_f32_scaled(d, x, shift, unraise);
}

// Bits: equal reprofuse::exp_nonpositive_f32 in every lane.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V exp_nonpositive_f32(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  namespace c = exp_constants;
  return exp_f32_scaled(d, exp_at_least(d, c::kMin, x), hn::Set(d, c::kShiftNegative), hn::Set(d, c::kUnraiseNegative));
}

}  // namespace reprofuse::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
