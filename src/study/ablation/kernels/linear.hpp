// The linear layer with each rule of contract fma-1 as a switch, for studies of what the rules are worth: on the CPU
// and on CUDA. With every switch as the contract has it, its bits are those of the shipped kernels. No contract and no
// op reaches this folder; the shared library does not contain it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/math.hpp"
#include "base/thread_pool.hpp"
#include "kernels/schemes.hpp"
#include "numerics/fma1.hpp"
#include "reprofuse/context.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::ablation {

// Rule R1: what multiplies and what adds.
enum class Arithmetic {
  kIeeeFma,          // the contract's
  kMultiplyThenAdd,  // two roundings, as on a machine without a fused multiply-add
  kTf32,             // operands of 11 significant bits. CUDA: tensor cores; CPU: rounded operands, IEEE sums
  kTf32x3,           // operands as sums of two such, three products
  kBf16,             // operands of 8 significant bits
};

// Rule R3: how the sums of the splits of K come together.
enum class Merge {
  kAscending,  // the contract's
  kAtomic,     // by atomic additions, in the order in which the splits happen to finish
};

// What an autotuner tunes.
struct Tile {
  int m;
  int n;
  int k;

  bool operator==(const Tile&) const = default;
};

inline constexpr Tile kPinnedTile = {32, 128, 32};
inline constexpr int kOnePerSegment = 0;  // as the contract has them: a function of K alone

struct Variant {
  Arithmetic arithmetic = Arithmetic::kIeeeFma;
  Tile tile = kPinnedTile;
  int splits = kOnePerSegment;  // of K: rules R2, R3 and R4 are about who chooses it
  Merge merge = Merge::kAscending;

  bool operator==(const Variant&) const = default;
};

struct Splits {
  std::int64_t length;  // terms of each but the last
  std::int64_t count;
};

// A usual GEMM gives every split the same number of K tiles, so both knobs have a say.
inline Splits splits_of(const Variant& variant, std::int64_t k) {
  if (variant.splits == kOnePerSegment) return {fma1::kSegment, fma1::segment_count(k)};
  const std::int64_t tiles = ceil_div<std::int64_t>(k, variant.tile.k);
  const std::int64_t length = ceil_div<std::int64_t>(tiles, variant.splits) * variant.tile.k;
  return {length, ceil_div(k, length)};
}

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
  struct Region {  // one tile of the result and one split of K
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
