// fma-1 for every instruction set with a fused multiply-add, from one source: Highway compiles this file once per
// target. Lanes are independent outputs, so the register width cannot move a bit.

// Targets without a fused multiply-add and scalable ones get no kernels here; linear_fma1_scalar.cpp serves them.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#define HWY_COMPILE_ALL_ATTAINABLE  // a baseline raised by -march must not drop the narrower kernels
#define HWY_DISABLE_PCLMUL_AES      // neither is used, so neither is required of the machine
#define HWY_DISABLE_F16C

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear/fma1/simd.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "kernels/cpu/linear/fma1/kernels.hpp"
#include "numerics/order.hpp"

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
#include "kernels/cpu/linear/fma1/simd-inl.hpp"
#endif

#if HWY_ONCE
namespace reprofuse::cpu {

const LinearFma1Kernels* linear_fma1_simd(Isa isa) {
#if HWY_TARGETS & HWY_AVX2
  if (isa == Isa::kAvx2) return &N_AVX2::kLinearFma1;
#endif
#if HWY_TARGETS & HWY_AVX3
  if (isa == Isa::kAvx512) return &N_AVX3::kLinearFma1;
#endif
#if HWY_TARGETS & HWY_NEON
  if (isa == Isa::kNeon) return &N_NEON::kLinearFma1;
#endif
  (void)isa;
  return nullptr;
}

}  // namespace reprofuse::cpu
#endif
