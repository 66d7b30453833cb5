// The transformer operations for every instruction set with a fused multiply-add, from one source: Highway compiles
// this file once per target. Lanes are independent chains, so the register width cannot move a bit.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/ops/model_ops_simd.cpp"
#include <algorithm>
#include <cfloat>
#include <limits>
#include <type_traits>

#include "base/math.hpp"
#include "kernels/cpu/highway_targets.hpp"  // before all others
#include "kernels/cpu/ops/model_ops_kernels.hpp"
#include "numerics/exp.hpp"
#include "numerics/order.hpp"
#include "numerics/widen.hpp"

#if REPROFUSE_SIMD_TARGET
// Each uses what the ones before it define.
// clang-format off
#include "numerics/exp_simd-inl.hpp"
#include "kernels/cpu/ops/elementwise_simd-inl.hpp"
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
  REPROFUSE_RETURN_TABLE(isa, kModelOps);
}

}  // namespace reprofuse::cpu
#endif
