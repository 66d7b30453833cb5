// How one target's registers snap weights and round sums. Each file that Highway compiles once per target includes this
// once per target: hence no guard.
#include "kernels/cpu/linear/integers-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace reprofuse::cpu::HWY_NAMESPACE {

// The low 24 bits are W + 2^22: exact1::snap_weight.
HWY_INLINE WordVector snap_weight_lanes(Vector weights, Vector scales) {
  return hn::BitCast(Words(), hn::MulAdd(weights, scales, hn::Set(Floats(), exact1::kWeightOffset)));
}

// exact1::result of every column.
inline void round_panel(const ExactSums& sums) {
  round_totals(sums.totals, sums.activation_exponent - exact1::kActivationBits - exact1::kWeightBits,
               sums.weight_exponents, sums.results);
}

}  // namespace reprofuse::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
