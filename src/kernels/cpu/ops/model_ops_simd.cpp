// The transformer operations for every instruction set with a fused multiply-add, from one source: Highway compiles
// this file once per target. Lanes are independent chains, so the register width cannot move a bit.

// As in linear_fma1_simd.cpp; model_ops_scalar.cpp serves the other targets.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#define HWY_COMPILE_ALL_ATTAINABLE
#define HWY_DISABLE_PCLMUL_AES
#define HWY_DISABLE_F16C

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/ops/model_ops_simd.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <cfloat>
#include <limits>
#include <type_traits>

#include "base/math.hpp"
#include "kernels/cpu/ops/model_ops_kernels.hpp"
#include "numerics/exp.hpp"
#include "numerics/order.hpp"
#include "numerics/widen.hpp"

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
// Each uses what the ones before it define.
// clang-format off
#include "numerics/exp_simd-inl.hpp"
#include "kernels/cpu/ops/elementwise_simd-inl.hpp"
#include "kernels/cpu/ops/rms_norm_simd-inl.hpp"
#include "kernels/cpu/ops/rotary_simd-inl.hpp"
#include "kernels/cpu/ops/attention_simd-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace reprofuse::cpu::HWY_NAMESPACE {

constexpr ModelOpsKernels kModelOps = {.norm_row = norm_row,
                                       .rotary_head = rotary_head,
                                       .silu_gate_row = silu_gate_row,
                                       .tile_lines = kTileLines,
                                       .attention_bf16 = attention_tile<Bf16Element>,
                                       .attention_f32 = attention_tile<F32Element>,
                                       .merge = merge,
                                       .divide = divide};

}  // namespace reprofuse::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace reprofuse::cpu {

const ModelOpsKernels* model_ops_simd(Isa isa) {
#if HWY_TARGETS & HWY_AVX2
  if (isa == Isa::kAvx2) return &N_AVX2::kModelOps;
#endif
#if HWY_TARGETS & HWY_AVX3
  if (isa == Isa::kAvx512) return &N_AVX3::kModelOps;
#endif
#if HWY_TARGETS & HWY_NEON
  if (isa == Isa::kNeon) return &N_NEON::kModelOps;
#endif
  (void)isa;
  return nullptr;
}

}  // namespace reprofuse::cpu
#endif
