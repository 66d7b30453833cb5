// Compiled once per target, as the kernels that include numerics/exp_simd-inl.hpp are.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#define HWY_COMPILE_ALL_ATTAINABLE
#define HWY_DISABLE_PCLMUL_AES
#define HWY_DISABLE_F16C

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numerics/exp_targets.cpp"
#include "numerics/exp_targets.hpp"

#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
#include "numerics/exp_simd-inl.hpp"

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
#if HWY_TARGETS & HWY_AVX2
  if (isa == Isa::kAvx2) return &N_AVX2::kExp;
#endif
#if HWY_TARGETS & HWY_AVX3
  if (isa == Isa::kAvx512) return &N_AVX3::kExp;
#endif
#if HWY_TARGETS & HWY_NEON
  if (isa == Isa::kNeon) return &N_NEON::kExp;
#endif
  (void)isa;
  return nullptr;
}

}  // namespace reprofuse::testing
#endif
