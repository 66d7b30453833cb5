// The ablated layer on the CPU and on CUDA. With every switch as the contract has it, its bits are those of the shipped
// kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.hpp"
#include "kernels/schemes.hpp"
#include "reprofuse/context.hpp"
#include "reprofuse/types.hpp"
#include "study/ablation/kernels/variant.hpp"

namespace reprofuse::ablation {

inline constexpr int kColumnStep = 16;  // columns come in multiples of it, whatever the register width

// Adds `terms` products to every sum of a block, in ascending k.
struct BlockCall {
  const float* x;  // [rows, terms]
  std::int64_t x_stride;
  const float* w;  // [terms, columns]
  std::int64_t w_stride;
  float* sums;  // [rows, columns]
  std::int64_t sums_stride;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t terms;
};
using BlockKernel = void (*)(const BlockCall&);

struct CpuKernels {
  BlockKernel fma;
  BlockKernel multiply_then_add;
};

const CpuKernels& cpu_kernels_scalar();
const CpuKernels* cpu_kernels_simd(Isa isa);  // null: not in this build

class CpuLinear {
 public:
  // Weights of 16 bits, widened and transposed here. A tile's n must be a multiple of kColumnStep.
  CpuLinear(const WeightView& weight, Isa isa, ThreadPool& pool);

  // y = x · wᵀ. Bits of a merge by atomic additions depend on the threads; all others on the operands and the variant.
  void run(const Variant& variant, ConstMatrix x, Matrix y) const;

  // The same product by a usual SIMD dot product: `lanes` chains that take every lanes-th term, then folded in halves.
  // The width of a register decides the bits.
  void run_in_lanes(int lanes, ConstMatrix x, Matrix y) const;

 private:
  struct Pass;
  struct Region {  // one tile of the result and one part of K
    std::int64_t row, rows;
    std::int64_t column, columns;
    std::int64_t k_begin, k_end;
  };
  std::vector<Pass> passes_of(Arithmetic arithmetic, ConstMatrix x) const;
  std::vector<float> sum_region(const std::vector<Pass>& passes, const Region& region, int tile_k) const;
  void add_atomically(const std::vector<float>& sums, const Region& region, Matrix y) const;
  void merge_ascending(const std::vector<float>& partials, std::int64_t count, Matrix y) const;

  CpuKernels kernels_;
  ThreadPool& pool_;
  std::int64_t n_, k_;
  std::int64_t stride_;   // n_, rounded up to kColumnStep
  std::vector<float> w_;  // [k_, stride_], padded with zeros
};

}  // namespace reprofuse::ablation

namespace reprofuse::cuda::ablation {

// Implemented in this folder, or in no_cuda.cpp when the build has no CUDA, where each function throws an Error.

using reprofuse::ablation::Tile;
using reprofuse::ablation::Variant;

// Device memory throughout. x and weight have rows without padding, and k is a multiple of 4.
struct LinearCall {
  ConstMatrix x;
  WeightView weight;  // BF16
  Matrix y;
  float* partials;  // partial_bytes() of them; may be null where that is 0
};

std::size_t partial_bytes(const Variant& variant, std::int64_t m, std::int64_t n, std::int64_t k);

// Enqueues kernels on `stream` (a cudaStream_t); allocates nothing and waits for nothing.
// Throws kUnsupported where there is no kernel: IEEE arithmetic comes in every tile of tiles(), any other in the pinned
// one.
void enqueue_linear(int ordinal, const Variant& variant, const LinearCall& call, void* stream);

std::vector<Tile> tiles();
int multiprocessors(int ordinal);

// Seconds of `work` on the default stream, once, after once to warm up: no graph, so that a search can afford
// thousands.
double time_once(int ordinal, const std::function<void(void* stream)>& work);

// The shipped layer of contract fma-1 with the schedule chosen by the caller.
class ShippedSchedules {
 public:
  ShippedSchedules(int ordinal, const WeightView& weight);
  ~ShippedSchedules();

  std::size_t workspace_bytes(std::int64_t m) const;
  std::vector<std::string> names(const kernels::LinearCall& call) const;  // of every schedule that can run the call
  void run(const kernels::LinearCall& call, std::size_t index) const;

 private:
  struct Layer;
  std::unique_ptr<Layer> layer_;
};

}  // namespace reprofuse::cuda::ablation
