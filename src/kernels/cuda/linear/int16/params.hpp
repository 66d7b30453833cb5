// What int16-1 adds to the kernels of integers.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/linear/integer/schedule.hpp"
#include "numerics/int16.hpp"

namespace reprofuse::cuda::int16 {

using namespace reprofuse::int16;          // NOLINT(google-build-using-namespace): the contract these kernels compute
using namespace reprofuse::cuda::integer;  // NOLINT(google-build-using-namespace): what they share with others

inline constexpr int kDigits = 2;                        // of an activation or a weight, highest first
inline constexpr int kBlockTiles = kTermBlock / kTileK;  // k-tiles whose activations share a unit
inline constexpr int kMaxKTiles = static_cast<int>(kMaxTerms / kTileK);
static_assert(kTermBlock % kTileK == 0);

// What a row of activations became, besides its digits and factors: Params::rows.
struct Row {
  int unit;  // its byte, the largest of the row's blocks
};

// A k-tile of a tile of rows of x: [digit][rows / 8][kTileK / 16][8 rows][16 terms], then [rows] factors: what a row's
// sums in this block are multiplied by, an int each.
REPROFUSE_HOST_DEVICE constexpr int digit_bytes(int rows) {
  return kDigits * rows * kTileK;
}
REPROFUSE_HOST_DEVICE constexpr int tile_bytes(int rows) {
  return digit_bytes(rows) + rows * static_cast<int>(sizeof(int));
}

const ContractKernels& contract_kernels();
std::vector<Kernel> mma_kernels(DType dtype, bool digits_in_place);
std::vector<Kernel> wgmma_kernels(DType dtype, bool digits_in_place);
// Those of both that take digits of weights.
std::vector<Kernel> prepared_kernels(bool digits_in_place);
std::vector<Kernel> rounds_kernels();

}  // namespace reprofuse::cuda::int16
