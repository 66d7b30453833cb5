// fma-1 for every instruction set with a fused multiply-add, from one source: Highway compiles this file once per
// target. Lanes are independent outputs, so the register width cannot move a bit.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear/fma1/simd.cpp"
#include "kernels/cpu/highway_targets.hpp"  // before all others
#include "kernels/cpu/linear/fma1/kernels.hpp"
#include "numerics/order.hpp"

#if REPROFUSE_SIMD_TARGET
#include "kernels/cpu/linear/fma1/simd-inl.hpp"
#endif

#if HWY_ONCE
namespace reprofuse::cpu {

const LinearFma1Kernels* linear_fma1_simd(Isa isa) {
  REPROFUSE_RETURN_TABLE(isa, kLinearFma1);
}

}  // namespace reprofuse::cpu
#endif
