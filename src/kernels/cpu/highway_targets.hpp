// The instruction sets that vector kernels are compiled for. A source names itself in HWY_TARGET_INCLUDE and includes
// this first; Highway then compiles it once per target, and this with it: hence no guard.

// Targets without a fused multiply-add and scalable ones get no kernels; scalar code serves them. A source that is for
// AVX-512 alone defines REPROFUSE_NO_AVX2 before it includes this. ThreadSanitizer sees AVX2 alone: threads meet in the
// same places whatever the width of a register.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS                                                                        \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | \
   REPROFUSE_NO_AVX2_BIT | REPROFUSE_NO_AVX512_BIT)
#undef REPROFUSE_NO_AVX2_BIT
#ifdef REPROFUSE_NO_AVX2
#define REPROFUSE_NO_AVX2_BIT HWY_AVX2
#else
#define REPROFUSE_NO_AVX2_BIT 0
#endif
#undef REPROFUSE_NO_AVX512_BIT
#ifdef __SANITIZE_THREAD__
#define REPROFUSE_NO_AVX512_BIT HWY_AVX3
#else
#define REPROFUSE_NO_AVX512_BIT 0
#endif
#define HWY_COMPILE_ALL_ATTAINABLE  // a baseline raised by -march must not drop the narrower kernels
#define HWY_DISABLE_PCLMUL_AES      // neither is used, so neither is required of the machine
#define HWY_DISABLE_F16C

#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

// Whether the target being compiled is to have kernels; the baseline may be another.
#undef REPROFUSE_SIMD_TARGET
#define REPROFUSE_SIMD_TARGET (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON)

#if HWY_ONCE
#if HWY_TARGETS & HWY_AVX2
#define REPROFUSE_IF_AVX2(statement) statement
#else
#define REPROFUSE_IF_AVX2(statement)
#endif
#if HWY_TARGETS & HWY_AVX3
#define REPROFUSE_IF_AVX512(statement) statement
#else
#define REPROFUSE_IF_AVX512(statement)
#endif
#if HWY_TARGETS & HWY_NEON
#define REPROFUSE_IF_NEON(statement) statement
#else
#define REPROFUSE_IF_NEON(statement)
#endif

// Returns the address of the table that the target of an instruction set defined; null: it is not in this build.
#define REPROFUSE_RETURN_TABLE(isa, table)                               \
  REPROFUSE_IF_AVX2(if ((isa) == Isa::kAvx2) return &N_AVX2::table;)     \
  REPROFUSE_IF_AVX512(if ((isa) == Isa::kAvx512) return &N_AVX3::table;) \
  REPROFUSE_IF_NEON(if ((isa) == Isa::kNeon) return &N_NEON::table;)     \
  (void)(isa);                                                           \
  return nullptr
#endif
