// The ablated layer in IEEE arithmetic, for every tile that the tuner tries. The sums of a part ascend in k in all of
// them, so the tile is free; where K is cut is not. And the fold of the parts, of every arithmetic.
#include "study/ablation/kernels/linear_tile.cuh"

namespace reprofuse::cuda::ablation {
namespace {

constexpr Tile kPinned = reprofuse::ablation::kPinnedTile;

struct Fused {
  static constexpr Arithmetic kArithmetic = Arithmetic::kIeeeFma;
  __device__ static float apply(float x, float w, float sum) { return __fmaf_rn(x, w, sum); }
};
struct TwoRoundings {
  static constexpr Arithmetic kArithmetic = Arithmetic::kMultiplyThenAdd;
  __device__ static float apply(float x, float w, float sum) { return __fadd_rn(__fmul_rn(x, w), sum); }
};

// 8 x 16 threads, each with the rows and columns of the tile that are 8 and 16 apart.
template <class Operation, int kM, int kN, int kK>
__global__ void __launch_bounds__(kThreads) linear_ieee(const __grid_constant__ Params p) {
  constexpr int kThreadRows = 8, kThreadColumns = kThreads / kThreadRows;
  constexpr int kRows = kM / kThreadRows, kColumns = kN / kThreadColumns;
  __shared__ float x[kK][kM + 1];  // one more, so that neighbours in k fall into other banks
  __shared__ float w[kK][kN + 1];
  const int row0 = blockIdx.x * kM, column0 = blockIdx.y * kN;
  const int thread_row = threadIdx.x / kThreadColumns, thread_column = threadIdx.x % kThreadColumns;
  float sums[kRows][kColumns] = {};
  for (int k0 = part_begin(p), k_end = part_end(p); k0 < k_end; k0 += kK) {
    load_x<kM, kK>(p, row0, k0, k_end, [&](int row, int term, float value) { x[term][row] = value; });
    load_w<kN, kK>(p, column0, k0, k_end, [&](int column, int term, float value) { w[term][column] = value; });
    __syncthreads();
#pragma unroll 4
    for (int term = 0; term < kK; ++term) {
      float weights[kColumns];
#pragma unroll
      for (int j = 0; j < kColumns; ++j) weights[j] = w[term][thread_column + j * kThreadColumns];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const float activation = x[term][thread_row + i * kThreadRows];
#pragma unroll
        for (int j = 0; j < kColumns; ++j) sums[i][j] = Operation::apply(activation, weights[j], sums[i][j]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i)
#pragma unroll
    for (int j = 0; j < kColumns; ++j)
      leave_sum(p, row0 + thread_row + i * kThreadRows, column0 + thread_column + j * kThreadColumns, sums[i][j]);
}

template <class Operation, int kM, int kN, int kK>
Kernel kernel() {
  return {Operation::kArithmetic, {kM, kN, kK}, reinterpret_cast<const void*>(&linear_ieee<Operation, kM, kN, kK>)};
}

template <int kM, int kN>
void add_tiles(std::vector<Kernel>& kernels) {
  kernels.push_back(kernel<Fused, kM, kN, 16>());
  kernels.push_back(kernel<Fused, kM, kN, 32>());
}

constexpr int kFoldThreads = 256;

__global__ void fold_parts(const __grid_constant__ Params p) {
  const std::int64_t values = std::int64_t{p.m} * p.n;
  const std::int64_t at = std::int64_t{blockIdx.x} * kFoldThreads + threadIdx.x;
  if (at >= values) return;
  float total = p.partials[at];
  for (int part = 1; part < p.parts; ++part) total = __fadd_rn(total, p.partials[part * values + at]);
  p.y[at] = total;
}

}  // namespace

std::vector<Kernel> ieee_kernels() {
  std::vector<Kernel> kernels;
  add_tiles<16, 64>(kernels);
  add_tiles<16, 128>(kernels);
  add_tiles<16, 256>(kernels);
  add_tiles<32, 64>(kernels);
  add_tiles<32, 128>(kernels);
  add_tiles<32, 256>(kernels);
  add_tiles<64, 64>(kernels);
  add_tiles<64, 128>(kernels);
  add_tiles<64, 256>(kernels);
  kernels.push_back(kernel<TwoRoundings, kPinned.m, kPinned.n, kPinned.k>());
  return kernels;
}

cudaError_t launch_fold_parts(const Params& params, cudaStream_t stream) {
  const std::int64_t values = std::int64_t{params.m} * params.n;
  const auto blocks = static_cast<unsigned>(ceil_div<std::int64_t>(values, kFoldThreads));
  fold_parts<<<blocks, kFoldThreads, 0, stream>>>(params);
  return cudaGetLastError();
}

}  // namespace reprofuse::cuda::ablation
