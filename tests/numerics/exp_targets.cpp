// Compiled once per target, as the kernels that include kernels/cpu/exp-inl.hpp are.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numerics/exp_targets.cpp"
#include "numerics/exp_targets.hpp"

#include "kernels/cpu/highway_targets.hpp"  // before highway.h

#if REPROFUSE_SIMD_TARGET
#include "kernels/cpu/exp-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace reprofuse::testing::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void exp_all(const float* x, std::size_t count, float* out) {
  const hn::ScalableTag<float> d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d))
    hn::StoreU(cpu::HWY_NAMESPACE::exp_f32(d, hn::LoadU(d, x + i)), d, out + i);
}

void exp_nonpositive_all(const float* x, std::size_t count, float* out) {
  const hn::ScalableTag<float> d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d))
    hn::StoreU(cpu::HWY_NAMESPACE::exp_nonpositive_f32(d, hn::LoadU(d, x + i)), d, out + i);
}

constexpr ExpTarget kExp = {.exp = exp_all, .exp_nonpositive = exp_nonpositive_all};

}  // namespace reprofuse::testing::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace reprofuse::testing {

const ExpTarget* exp_target(Isa isa) {
  REPROFUSE_RETURN_TABLE(isa, kExp);
}

}  // namespace reprofuse::testing
#endif
