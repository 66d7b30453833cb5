// exact-1 for every instruction set with a fused multiply-add, from one source: Highway compiles this file once per
// target. What the registers hold are integers, so neither their width nor the order of sums can move a bit.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear/exact1/simd.cpp"
#include <cstring>

#include "kernels/cpu/highway_targets.hpp"  // before all others
#include "kernels/cpu/linear/exact1/kernels.hpp"
#include "kernels/cpu/linear/panels.hpp"
#include "numerics/exact.hpp"

#if REPROFUSE_SIMD_TARGET
#include "kernels/cpu/linear/exact1/simd-inl.hpp"
#endif

#if HWY_ONCE
namespace reprofuse::cpu {

const LinearExact1Kernels* linear_exact1_simd(Isa isa) {
  REPROFUSE_RETURN_TABLE(isa, kLinearExact1);
}

}  // namespace reprofuse::cpu
#endif
