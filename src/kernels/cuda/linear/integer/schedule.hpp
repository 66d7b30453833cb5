// What a contract that multiplies integers brings to its linear layers, its numbers and its kernels; which of these
// runs a layer, and how many CTAs share K. Sums of integers have no order, so no choice made here can move a bit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/cuda/linear/integer/params.hpp"
#include "kernels/cuda/linear/problem.hpp"
#include "kernels/cuda/runtime/device.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::cuda::integer {

using reprofuse::cuda::Problem;

// How CTAs that share K (split-K) bring their sums together.
enum class SplitK {
  kNone,       // they cannot: a persistent CTA has all of K, and takes one tile after another
  kCluster,    // through distributed shared memory
  kWorkspace,  // through the workspace and another kernel
};

// How long a CTA takes, in one unit for all kernels, with all the CTAs beside it that fit.
struct Cost {
  double k_tile;       // for one k-tile
  double start;        // before the first and after the last, in k-tiles
  double prepare = 0;  // to prepare one k-tile of weights
};

// The same in microseconds, of kernels by mma.sync, and of those whose weights are digits already: it is memory that
// binds most of them.
struct DigitCost {
  double k_tile;        // for one k-tile, of a CTA that has an SM for itself
  double start;         // before the first and after the last
  double exchange = 0;  // of sums, where CTAs share K; by mma.sync, of a tile of rows for each but one
  double prepare = 0;   // of a tile's weights for one k-tile, by all of the device
};

struct Kernel {
  const char* name;
  const void* function;
  int tile_m;
  int tile_n;
  int threads;
  int shared_bytes;
  bool vector_loads;  // needs 16-byte aligned weight rows, and k a multiple of 8
  SplitK split_k;
  Cost cost;
  int max_k_tiles;                        // that the sums of a CTA hold
  bool mma_sync = false;                  // multiplies by mma.sync, as every device can; the others by wgmma
  bool takes_digits = false;              // of weights, which RowKernels::prepare_weights has made
  bool digits_in_place = false;           // and which the layer keeps in place of the weights
  DigitCost digit_cost{};                 // in place of cost
  int ctas_per_sm = 0;                    // on the device
  std::array<int, kMaxSplits> at_once{};  // clusters of 1, 2, ... CTAs that the device holds

  int clusters_of(int ctas) const { return at_once[static_cast<std::size_t>(ctas - 1)]; }
};

// A kernel that has a row in each CTA or, where it is made for clusters, in each cluster of so many.
struct RowKernel {
  const void* function = nullptr;  // null: none holds the row
  int threads = 0;
  int ctas = 1;
};

// The kernels that are no products. Of k terms: digits and what is kept of every row of x, zero digits up to whole
// tiles and k-tiles, of x itself (Params) and as ops before it leave it (NormRowsParams, SiluRowsParams).
struct RowKernels {
  RowKernel (*snap)(int k);
  RowKernel (*norm)(int k);
  RowKernel (*silu)(int k);
  const void* weight_exponents;                 // WeightRows
  const void* (*prepare_weights)(DType dtype);  // Params: digits of the launch's column tiles of weights
  const void* add_partials;                     // Params: sums of the splits, rounded and stored
};

struct ContractKernels {
  std::string_view name;
  std::int64_t max_terms;       // in a sum
  std::size_t row_bytes;        // of what it keeps of a row besides digits
  int digits;                   // of a weight
  int (*tile_bytes)(int rows);  // of so many rows of x and kTileK terms
  bool keeps_digits;            // of weights in their place, where it may
  // Its products for weights of a format, or of digits in their place: for every device, and those with wgmma, of
  // compute capability 9.0.
  std::vector<Kernel> (*mma_kernels)(DType dtype, bool digits_in_place);
  std::vector<Kernel> (*wgmma_kernels)(DType dtype, bool digits_in_place);
  RowKernels rows;
};

// Looks the kernels up on the device, and how many of their CTAs it holds.
void find_occupancy(const Device& device, std::vector<Kernel>& kernels);

struct Schedule {
  int kernel;  // index into the table
  int splits;  // CTAs that share K (split-K)
};

std::int64_t column_tiles_of(const Kernel& kernel, std::span<const std::int64_t> n);

// The largest number of rows, up to problem.m, that some schedule can run at once.
std::int64_t rows_at_once(const std::vector<Kernel>& kernels, const Problem& problem);

// Every schedule that can run the problem on the device.
std::vector<Schedule> possible_schedules(const std::vector<Kernel>& kernels, const Problem& problem);

// The one expected to be fastest; one by mma.sync only where there is no other.
Schedule choose_schedule(const Device& device, const std::vector<Kernel>& kernels, const Problem& problem);

// The least rows for which weights are prepared, and the column tiles that a launch prepares at a time, which share the
// partials' memory.
inline constexpr std::int64_t kMinPreparedRows = 65;
std::int64_t prepared_at_a_time(std::int64_t column_tiles, std::int64_t k, std::int64_t tile_bytes = kPreparedBytes);

std::size_t partial_bytes(const Problem& problem, int splits);  // SIZE_MAX where the number does not fit

}  // namespace reprofuse::cuda::integer
