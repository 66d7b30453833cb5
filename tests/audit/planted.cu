// One violation of contract fma-1 per kernel, compiled with the flags of the build; and one kernel of no contract.
#include <cuda_fp16.h>
#include <mma.h>

namespace reprofuse::cuda::fma1 {

__global__ void planted_product(float* y, const float* x) {
  y[0] = x[0] * x[1] + x[2];
}

__global__ void planted_flush(float* y, const float* x) {
  asm("add.ftz.f32 %0, %1, %2;" : "=f"(y[0]) : "f"(x[0]), "f"(x[1]));
}

__global__ void planted_atomic(float* y, const float* x) {
  atomicAdd(y, x[threadIdx.x]);
}

__global__ void planted_approximation(float* y, const float* x) {
  y[0] = __expf(x[0]);
}

__global__ void planted_tensor_core(float* y, const half* x) {
  using namespace nvcuda::wmma;
  fragment<matrix_a, 16, 16, 16, half, row_major> a;
  fragment<matrix_b, 16, 16, 16, half, col_major> b;
  fragment<accumulator, 16, 16, 16, float> c;
  load_matrix_sync(a, x, 16);
  load_matrix_sync(b, x, 16);
  fill_fragment(c, 0.0F);
  mma_sync(c, a, b, c);
  store_matrix_sync(y, c, 16, mem_row_major);
}

__global__ void planted_integer_tensor_core(int* y, const unsigned* x) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(y[0]), "+r"(y[1]), "+r"(y[2]), "+r"(y[3])
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(x[4]), "r"(x[5]));
}

__global__ void allowed(float* y, const float* x) {
  y[0] = fmaf(x[0], x[1], x[2]) + x[3];
}

}  // namespace reprofuse::cuda::fma1

__global__ void planted_outsider(float* y) {
  y[0] = 1;
}
