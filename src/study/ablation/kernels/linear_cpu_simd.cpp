// The ablated layer's inner loops for every instruction set with a fused multiply-add, from one source through Highway.
// Lanes are independent outputs, so the register width cannot move a bit.

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#define HWY_COMPILE_ALL_ATTAINABLE
#define HWY_DISABLE_PCLMUL_AES
#define HWY_DISABLE_F16C

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "study/ablation/kernels/linear_cpu_simd.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "numerics/order.hpp"
#include "study/ablation/kernels/linear_cpu.hpp"

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
#include "study/ablation/kernels/linear_cpu_simd-inl.hpp"
#endif

#if HWY_ONCE
namespace reprofuse::ablation {

const CpuKernels* cpu_kernels_simd(Isa isa) {
#if HWY_TARGETS & HWY_AVX2
  if (isa == Isa::kAvx2) return &N_AVX2::kKernels;
#endif
#if HWY_TARGETS & HWY_AVX3
  if (isa == Isa::kAvx512) return &N_AVX3::kKernels;
#endif
#if HWY_TARGETS & HWY_NEON
  if (isa == Isa::kNeon) return &N_NEON::kKernels;
#endif
  (void)isa;
  return nullptr;
}

}  // namespace reprofuse::ablation
#endif
