// Violations of contract exact-1, for sm_90a; and a kernel with all that the contract is made of.
#include <cstdint>

namespace reprofuse::cuda::exact1 {

__device__ inline void multiply_add(int* sums, const unsigned* a, std::uint64_t b) {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.s8 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, 1;"
               : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// The block of assembly closes its brace where a function would.
__device__ inline void wait_phase(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra ready;\n"
      "bra again;\n"
      "ready:\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

__global__ void planted_float_tensor_core(float* y, const unsigned* x) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(y[0]), "+f"(y[1]), "+f"(y[2]), "+f"(y[3])
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(x[4]), "r"(x[5]));
}

__global__ void planted_after_a_block(float* y, const float* x, std::uint32_t barrier) {
  wait_phase(barrier, 0);
  asm("add.ftz.f32 %0, %1, %2;" : "=f"(y[0]) : "f"(x[0]), "f"(x[1]));
}

__global__ void allowed(float* y, const float* x, int* sums, const unsigned* a, std::uint64_t b, long long sum) {
  multiply_add(sums, a, b);
  wait_phase(a[4], 0);
  sums[4] = __float2int_rn(__fmul_rn(x[0], x[1]));
  sums[5] = __float_as_int(fmaf(x[2], x[3], 0x1.8p23F));
  y[0] = __fadd_rn(__fmul_rn(__ll2float_rn(sum), x[4]), x[5]);
}

}  // namespace reprofuse::cuda::exact1
