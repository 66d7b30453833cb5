// Where the rows of x of one launch go as digits: what a kernel has to know that makes them.
#pragma once

#include <cstdint>

#include "kernels/cuda/linear/integer/params.hpp"
#include "kernels/cuda/ops/params.hpp"

namespace reprofuse::cuda::integer {

inline constexpr int kRowThreads = 512;  // of a CTA that has a row

struct DigitRows {
  std::uint8_t* digits;  // these and all others as in Params
  void* rows;
  int m, k, k_tiles;
  int tile_m, row_tiles;

  REPROFUSE_HOST_DEVICE explicit DigitRows(const Params& p)
      : digits(p.digits), rows(p.rows), m(p.m), k(p.k), k_tiles(p.k_tiles), tile_m(p.tile_m), row_tiles(p.row_tiles) {}

  REPROFUSE_HOST_DEVICE int padded_rows() const { return row_tiles * tile_m; }  // a CTA for each makes its digits
};

// A kernel that has a row in each CTA or, where it is made for clusters, in each cluster of so many.
struct RowKernel {
  const void* function = nullptr;  // null: none holds the row
  int threads = 0;
  int ctas = 1;
};

// An op that makes rows of x and leaves them as digits; its y may be null, and is then not written.
struct NormRowsParams {
  fma1::ops::RmsNormParams norm;
  DigitRows to;
};

struct SiluRowsParams {
  fma1::ops::SiluGateParams silu;
  DigitRows to;
};

}  // namespace reprofuse::cuda::integer
