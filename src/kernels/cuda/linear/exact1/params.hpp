// What every exact-1 linear kernel is given.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/linear/problem.hpp"
#include "kernels/cuda/runtime/memory.hpp"
#include "numerics/exact.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::cuda::exact1 {

using namespace reprofuse::exact1;  // NOLINT(google-build-using-namespace): the contract these kernels compute

inline constexpr int kDigits = 3;     // of an activation or a weight, highest first
inline constexpr int kClasses = 4;    // of digit products: those of class c weigh 2^(8 (4 - c))
inline constexpr int kTileK = 128;    // terms that travel through shared memory together
inline constexpr int kMaxSplits = 8;  // CTAs that share K (split-K): every device that has clusters has them of eight

// A class gets at most 128 * 128 + 2 * 255 * 128 per term, and 32 bits hold so many k-tiles of that.
inline constexpr int kMaxKTiles = 192;
static_assert(std::int64_t{kMaxKTiles} * kTileK * (128 * 128 + 2 * 255 * 128) < std::int64_t{1} << 31);

struct Output {
  CUtensorMap map;                // of w, for kernels fed by the TMA
  const void* w;                  // [n, k]
  const std::uint8_t* exponents;  // [n], each plus 127
  const float* bias;              // [n] or null
  float* y;                       // [m, n]
  std::int64_t w_stride;
  std::int64_t y_stride;
  int n;
  int first_tile;    // of the launch's column tiles
  int first_column;  // of the concatenated outputs of this launch
};

// What a row of activations became, besides its digits.
struct Row {
  long long offset;  // 2^22 * (the sum of its integers): what the bias of the weights adds to a sum
  int exponent;
  bool finite;
};

struct Params {
  const float* x;  // [m, k]
  std::int64_t x_stride;
  bool x_aligned;  // rows start on 16 bytes
  int m;
  int k;
  int k_tiles;           // of k
  int tile_m;            // rows of x that a CTA multiplies, a multiple of 8
  std::uint8_t* digits;  // [tiles of rows][k_tiles][digit][tile_m / 8][kTileK / 16][8 rows][16 terms]
  Row* rows;             // [m]
  int row_tiles;         // tiles of rows
  int column_tiles;      // tiles of columns, of all outputs
  int splits;            // CTAs that share K (split-K)
  long long* partials;   // [splits, m, columns], of kernels whose CTAs cannot reach each other
  int count;             // outputs
  int columns;           // of all outputs of this launch
  int record_row;        // of x's first row, over the whole call
  int record_column;     // of the first output, over the whole op
  unsigned op;
  Record* record;
  Output outputs[kMaxOutputs];
};

// Digits and Row of every row of x, zero digits up to whole tiles and k-tiles.
cudaError_t launch_snap_activations(const Params& params, cudaStream_t stream);

// Adds the partials of the splits and stores the results.
cudaError_t launch_add_partials(const Params& params, cudaStream_t stream);

// Makes both ready, so that no run has to.
cudaError_t load_snap_kernels();

// exponents[n], each plus 127, of a weight matrix. The first row that is not finite goes to *first_bad, kept as a
// minimum.
cudaError_t launch_weight_exponents(const WeightView& weight, std::uint8_t* exponents, int* first_bad,
                                    cudaStream_t stream);

}  // namespace reprofuse::cuda::exact1
