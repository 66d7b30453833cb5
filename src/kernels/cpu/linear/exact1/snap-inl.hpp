// How one target's registers snap operands. Each file that Highway compiles once per target includes this once per
// target: hence no guard.
#include "kernels/cpu/linear/weight_words-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace reprofuse::cpu::HWY_NAMESPACE {

using Integers = hn::ScalableTag<std::int32_t>;
using IntegerVector = hn::Vec<Integers>;

inline std::uint32_t largest_bits(const float* x, std::int64_t k) {
  const WordVector magnitude = hn::Set(Words(), 0x7fffffffU);
  WordVector largest = hn::Zero(Words());
  std::int64_t i = 0;
  for (; i + kLanes <= k; i += kLanes)
    largest = hn::Max(largest, hn::And(hn::BitCast(Words(), hn::LoadU(Floats(), x + i)), magnitude));
  std::uint32_t result = hn::GetLane(hn::MaxOfLanes(Words(), largest));
  for (; i < k; ++i) result = HWY_MAX(result, float_bits(x[i]) & 0x7fffffffU);
  return result;
}

// The activations from x on, zeros past the last of `terms`.
HWY_INLINE IntegerVector snap_activation_lanes(const float* x, int terms, Vector scale) {
  if (terms >= kLanes) return hn::NearestInt(hn::Mul(hn::LoadU(Floats(), x), scale));
  HWY_ALIGN float padded[kLanes] = {};
  for (int i = 0; i < terms; ++i) padded[i] = x[i];
  return hn::NearestInt(hn::Mul(hn::Load(Floats(), padded), scale));
}

// The low 24 bits are W + 2^22: exact1::snap_weight.
HWY_INLINE WordVector snap_weight_lanes(Vector weights, Vector scales) {
  return hn::BitCast(Words(), hn::MulAdd(weights, scales, hn::Set(Floats(), exact1::kWeightOffset)));
}

// One line of weights, a while before few rows meet it: widening and snapping fill the scheduler before enough loads
// are under way.
HWY_INLINE void prefetch_ahead(const std::uint32_t* words) {
  constexpr int kAheadBytes = 8192;
  __builtin_prefetch(reinterpret_cast<const char*>(words) + kAheadBytes, 0, 2);
}

}  // namespace reprofuse::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
