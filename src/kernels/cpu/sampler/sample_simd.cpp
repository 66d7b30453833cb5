// The sampler's passes for every instruction set with a fused multiply-add: Highway compiles this file once per target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sampler/sample_simd.cpp"
#include "kernels/cpu/highway_targets.hpp"  // before all others
#include "kernels/cpu/sampler/sample.hpp"

#if REPROFUSE_SIMD_TARGET
#include "kernels/cpu/sampler/sample_simd-inl.hpp"
#endif

#if HWY_ONCE
namespace reprofuse::cpu {

const SampleKernels* sample_simd(Isa isa) {
  REPROFUSE_RETURN_TABLE(isa, kSample);
}

}  // namespace reprofuse::cpu
#endif
