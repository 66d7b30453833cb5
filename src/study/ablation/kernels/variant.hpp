// The linear layer with each rule of contract fma-1 as a switch, for studies of what the rules are worth. No contract
// and no op reaches this folder; the shared library does not contain it.
#pragma once

#include <cstdint>

#include "base/math.hpp"
#include "numerics/order.hpp"

namespace reprofuse::ablation {

// Rule R1: what multiplies and what adds.
enum class Arithmetic {
  kIeeeFma,          // the contract's
  kMultiplyThenAdd,  // two roundings, as on a machine without a fused multiply-add
  kTf32,             // operands of 11 significant bits. CUDA: tensor cores; CPU: rounded operands, IEEE sums
  kTf32x3,           // operands as sums of two such, three products
  kBf16,             // operands of 8 significant bits
};

// Rule R3: how the sums of the parts of K come together.
enum class Merge {
  kAscending,  // the contract's
  kAtomic,     // by atomic additions, in the order in which the parts happen to finish
};

// What an autotuner tunes.
struct Tile {
  int m;
  int n;
  int k;

  bool operator==(const Tile&) const = default;
};

inline constexpr Tile kPinnedTile = {32, 128, 32};
inline constexpr int kOnePerSegment = 0;  // parts as the contract has them: a function of K alone

struct Variant {
  Arithmetic arithmetic = Arithmetic::kIeeeFma;
  Tile tile = kPinnedTile;
  int splits = kOnePerSegment;  // parts of K: rules R2, R3 and R4 are about who chooses it
  Merge merge = Merge::kAscending;

  bool operator==(const Variant&) const = default;
};

struct Parts {
  std::int64_t length;  // terms of each but the last
  std::int64_t count;
};

// A split of a usual GEMM gives every part the same number of K tiles, so both knobs have a say.
inline Parts parts_of(const Variant& variant, std::int64_t k) {
  if (variant.splits == kOnePerSegment) return {fma1::kSegment, fma1::segment_count(k)};
  const std::int64_t tiles = ceil_div<std::int64_t>(k, variant.tile.k);
  const std::int64_t length = ceil_div<std::int64_t>(tiles, variant.splits) * variant.tile.k;
  return {length, ceil_div(k, length)};
}

}  // namespace reprofuse::ablation
