// What the kernels of every contract that multiplies integers are given: exact-1 and int16-1.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/elementwise/params.hpp"
#include "kernels/cuda/linear/problem.hpp"
#include "kernels/cuda/runtime/device.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::cuda::integer {

inline constexpr int kTileK = 128;    // terms that travel through shared memory together
inline constexpr int kMaxSplits = 8;  // CTAs that share K (split-K): every device that has clusters has them of eight

// Digits of weights that a kernel has prepared for another, of a tile of weight rows and kTileK terms: as those of rows
// of x. Where a layer keeps them, two in place of each weight, tiles have 128 rows.
constexpr int prepared_bytes(int digits, int rows) {
  return digits * rows * kTileK;
}
inline constexpr int kPreparedRows = 128, kPreparedBytes = prepared_bytes(2, kPreparedRows);

inline constexpr int kRowThreads = 512;  // of a CTA that has a row of x, or of weights

// A CTA that prepares digits of weights: its warps have so many rows each, of one k-tile.
inline constexpr int kPrepareWarps = 8, kPrepareThreads = kPrepareWarps * 32;
inline constexpr int kPrepareRows = 8;

struct Output {
  CUtensorMap map;                // of w, for kernels fed by the TMA
  const void* w;                  // [n, k]; where weights are kept as digits, [n / 128][k_tiles] of kPreparedBytes
  const std::uint8_t* exponents;  // [n], as the contract writes them in a byte
  const float* bias;              // [n] or null
  float* y;                       // [m, n]
  std::int64_t w_stride;
  std::int64_t y_stride;
  int n;
  int first_tile;    // of the launch's column tiles
  int first_column;  // of the concatenated outputs of this launch
};

struct Params {
  const float* x;  // [m, k]
  std::int64_t x_stride;
  bool x_aligned;  // rows start on 16 bytes
  int m;
  int k;
  int k_tiles;            // of k
  int tile_m;             // rows of x that a CTA multiplies, a multiple of 8
  int tile_n;             // weight rows that it multiplies
  std::uint8_t* digits;   // [row_tiles][k_tiles] of what the contract makes of tile_m rows and kTileK terms
  void* rows;             // [m], what the contract keeps of a row besides
  int row_tiles;          // tiles of rows
  int first_column_tile;  // of those that the launch takes
  int column_tiles;       // tiles of columns, of all outputs or as many as the launch takes
  std::uint8_t* weights;  // as digits, where they were prepared: [column_tiles][k_tiles] of prepared_bytes()
  bool digits_in_place;   // as digits, each output's in place of w
  int splits;             // CTAs that share K (split-K)
  long long* partials;    // [splits, m, columns], of kernels without clusters
  int count;              // outputs
  int columns;            // of all outputs of this launch
  int record_row;         // of x's first row, over the whole call
  int record_column;      // of the first output, over the whole op
  unsigned op;
  Record* record;
  Output outputs[kMaxOutputs];
};

// Where the rows of x of one launch go as digits: what a kernel has to know that makes them.
struct DigitRows {
  std::uint8_t* digits;  // these and all others as in Params
  void* rows;
  int m, k, k_tiles;
  int tile_m, row_tiles;

  REPROFUSE_HOST_DEVICE explicit DigitRows(const Params& p)
      : digits(p.digits), rows(p.rows), m(p.m), k(p.k), k_tiles(p.k_tiles), tile_m(p.tile_m), row_tiles(p.row_tiles) {}

  REPROFUSE_HOST_DEVICE int padded_rows() const { return row_tiles * tile_m; }  // a CTA for each makes its digits
};

// An op that makes rows of x and leaves them as digits; its y may be null, and is then not written.
struct NormRowsParams {
  ops::RmsNormParams norm;
  DigitRows to;
};

struct SiluRowsParams {
  ops::SiluGateParams silu;
  DigitRows to;
};

// A weight matrix whose exponents are sought, a CTA for each row.
struct WeightRows {
  const void* w;
  std::int64_t stride;
  int n, k;
  DType dtype;
  std::uint8_t* exponents;  // [n]
  int* first_bad;           // the first row that is not finite, kept as a minimum
};

}  // namespace reprofuse::cuda::integer
