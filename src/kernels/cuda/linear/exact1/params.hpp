// What exact-1 adds to the kernels of integers.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/linear/integer/schedule.hpp"
#include "numerics/exact1.hpp"

namespace reprofuse::cuda::exact1 {

using namespace reprofuse::exact1;         // NOLINT(google-build-using-namespace): the contract these kernels compute
using namespace reprofuse::cuda::integer;  // NOLINT(google-build-using-namespace): what they share with others

inline constexpr int kDigits = 3;   // of an activation or a weight, highest first
inline constexpr int kClasses = 4;  // of digit products: those of class c weigh 2^(8 (4 - c))

// A class gets at most 128 * 128 + 2 * 255 * 128 per term, and 32 bits hold so many k-tiles of that.
inline constexpr int kMaxKTiles = 192;
static_assert(std::int64_t{kMaxKTiles} * kTileK * (128 * 128 + 2 * 255 * 128) < std::int64_t{1} << 31);
static_assert(kMaxTerms <= std::int64_t{kMaxSplits} * kMaxKTiles * kTileK, "enough for the largest k");

// What a row of activations became, besides its digits: Params::rows.
struct Row {
  long long offset;  // 2^22 * (the sum of its integers): what the bias of the weights adds to a sum
  int exponent;
  bool finite;
};

// A k-tile of a tile of rows of x: [digit][rows / 8][kTileK / 16][8 rows][16 terms].
REPROFUSE_HOST_DEVICE constexpr int tile_bytes(int rows) {
  return kDigits * rows * kTileK;
}

const ContractKernels& contract_kernels();
std::vector<Kernel> mma_kernels(DType dtype, bool digits_in_place);
std::vector<Kernel> wgmma_kernels(DType dtype, bool digits_in_place);

}  // namespace reprofuse::cuda::exact1
