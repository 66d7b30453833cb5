// exact-1 for AVX-512 with VNNI, whose sums of byte products take the contract's digits as they are.

// One target: AVX-512 as Highway knows it. Its own target with VNNI asks for AVX-VNNI as well, which a machine with
// VNNI in AVX-512 may lack, so the kernels ask for that one instruction themselves.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX2 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#define HWY_COMPILE_ALL_ATTAINABLE  // even where -march makes it the baseline
#define HWY_DISABLE_PCLMUL_AES      // neither is used, so neither is required of the machine
#define HWY_DISABLE_F16C

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear/exact1/vnni.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <cstring>

#include "kernels/cpu/linear/exact1/kernels.hpp"
#include "kernels/cpu/linear/panels.hpp"
#include "numerics/exact.hpp"

#if HWY_TARGET == HWY_AVX3
#include "kernels/cpu/linear/exact1/vnni-inl.hpp"
#endif

#if HWY_ONCE
namespace reprofuse::cpu {

const LinearExact1Kernels* linear_exact1_vnni() {
#if HWY_TARGETS & HWY_AVX3
  return &N_AVX3::vnni::kLinearExact1;
#else
  return nullptr;
#endif
}

}  // namespace reprofuse::cpu
#endif
