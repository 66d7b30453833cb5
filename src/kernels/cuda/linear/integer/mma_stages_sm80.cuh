// How weights and digits reach the kernels with mma.sync: a pipeline of stages in shared memory that all threads keep
// filling by cp.async, and what a warp takes from a stage as operands.
#pragma once

#include "kernels/cuda/linear/integer/terms.cuh"
#include "kernels/cuda/ptx/sm80.cuh"
#include "kernels/cuda/sm_limits.hpp"

namespace reprofuse::cuda::integer {

inline constexpr int kStepTerms = 32;                   // of one product
inline constexpr int kTileSteps = kTileK / kStepTerms;  // of a k-tile
inline constexpr int kGroupStepBytes = 8 * kStepTerms;  // of eight rows of digits
inline constexpr int kGroupTileBytes = 8 * kTileK;      // the same over a k-tile

struct MmaShape {
  int tile_m;                     // rows of x
  int tile_n;                     // weight rows
  int warps_m, warps_n, warps_k;  // that share the rows, the columns and the steps of a stage
  int stage_steps;                // of kStepTerms
  int stages;                     // at most; as many as every device has room for
  int ctas_per_sm;                // that the registers must be few enough for
};

// Weights in their own format. Vectors need 16-byte aligned rows and a k that is a multiple of 8.
template <typename W_, bool kVectorLoads_>
struct FormatWeights {
  using W = W_;
  static constexpr bool kDigits = false, kVectorLoads = kVectorLoads_;
  static constexpr int kElementBytes = sizeof(typename W::Bits);
};

// Weights that are digits already, in tiles of so many rows: kept by the layer, or prepared by another kernel.
template <int kRows_>
struct DigitWeights {
  static constexpr int kRows = kRows_;
  static constexpr bool kDigits = true, kVectorLoads = true;
  static constexpr int kElementBytes = 0;  // in no format
};

// What follows from a shape. `Contract_` has the digits of an operand, the bytes of a k-tile of x, Row and Sums.
template <typename Contract_, typename Weights_, MmaShape kShape>
struct MmaSizes {
  using Contract = Contract_;
  using Weights = Weights_;
  static constexpr int kDigits = Contract::kDigits;
  static constexpr int kTileM = kShape.tile_m, kTileN = kShape.tile_n, kCtasPerSm = kShape.ctas_per_sm;
  static constexpr int kWarpsM = kShape.warps_m, kWarpsN = kShape.warps_n, kWarpsK = kShape.warps_k;
  static constexpr int kThreads = kWarpsM * kWarpsN * kWarpsK * kWarp;
  static constexpr int kGroups = kTileM / kWarpsM / 8;   // of eight rows of x that a warp has
  static constexpr int kBlocks = kTileN / kWarpsN / 16;  // of 16 weight rows that a warp has
  static constexpr int kPair = kGroups == 1 ? 1 : 2;     // groups whose operands are loaded together
  static_assert(kGroups * kWarpsM * 8 == kTileM && kBlocks * kWarpsN * 16 == kTileN);
  static_assert(kGroups % kPair == 0, "operands of x come in pairs of groups");

  // A stage is a part of a k-tile, or some k-tiles: pieces of up to kTileSteps.
  static constexpr int kSteps = kShape.stage_steps, kWarpSteps = kSteps / kWarpsK;
  static constexpr int kPieceSteps = kSteps < kTileSteps ? kSteps : kTileSteps, kPieces = kSteps / kPieceSteps;
  static_assert(kWarpSteps * kWarpsK == kSteps && kWarpSteps <= kTileSteps, "a warp's steps lie in one k-tile");

  static constexpr int kXTileBytes = Contract::tile_bytes(kTileM);  // of a k-tile in memory
  static constexpr int kXPlanesBytes = kDigits * kTileM * kTileK;   // its digits; what follows them comes along
  static constexpr int kXRestBytes = kXTileBytes - kXPlanesBytes;
  static constexpr int kXPieceBytes = kXPlanesBytes / kTileSteps * kPieceSteps + kXRestBytes;
  static constexpr int kXBytes = kPieces * kXPieceBytes;
  static_assert(kXRestBytes % 16 == 0 && kXRestBytes / 16 <= kThreads);

  static constexpr int kWPieceBytes = kDigits * kTileN * kStepTerms * kPieceSteps;  // of digits
  static constexpr int kWRowBytes = kSteps * kStepTerms * Weights::kElementBytes;   // of weights in their format
  static constexpr int kWBytes = Weights::kDigits ? kPieces * kWPieceBytes : kTileN * kWRowBytes;
  static_assert(Weights::kDigits || (kBlocks == 1 && kWarpSteps % 2 == 0), "vectors have the terms of two steps");

  static constexpr int kStageBytes = kWBytes + kXBytes;
  static constexpr int kMaxStages = (kMinSmSharedBytes - kReservedSharedBytes) / kStageBytes;
  static constexpr int kStages = kShape.stages < kMaxStages ? kShape.stages : kMaxStages;
  static constexpr int kSumPitch = kTileN + 1;  // of sums that warps add
  static constexpr int kSharedBytes = kStages * kStageBytes;
  static_assert(kStages >= 2 && fits_shared(kSharedBytes, 1, kMinSmSharedBytes), "every device must have room");
  static_assert(fits_shared(kSharedBytes, kCtasPerSm, kSmSharedBytesSm90),
                "ctas_per_sm CTAs must find room on the SM that has most; others hold as many as the driver says");
  static_assert(kWarpsK == 1 || kWarpsK * kTileM * kSumPitch * 8 <= kSharedBytes, "sums take the place of the stages");

  // Sums; a step's digits of both operands; and where weights come in their format, the terms of two rows.
  static constexpr int kSumRegisters = sizeof(typename Contract::template Sums<kBlocks, kGroups>) / 4;
  static constexpr int kLiveRegisters =
      kSumRegisters + kDigits * (4 * kBlocks + 2 * kPair) + (Weights::kDigits ? 0 : 2 * kThreadTerms);
  static_assert(kLiveRegisters + 24 <= registers_per_thread(kThreads, kCtasPerSm),
                "sums, digits and some 24 registers of addresses must fit what ctas_per_sm CTAs leave a thread");
};

// The tile of a CTA: row tiles of one column tile stand side by side, so that they find its weights in the L2.
template <typename S>
struct MmaTile {
  int row_tile, column_tile;  // of the launch
  const Output& out;
  int n0, m0;

  __device__ explicit MmaTile(const Params& p)
      : row_tile(blockIdx.x % p.row_tiles),
        column_tile(blockIdx.x / p.row_tiles),
        out(output_of_tile(p, p.first_column_tile + column_tile)),
        n0((p.first_column_tile + column_tile - out.first_tile) * S::kTileN),
        m0(row_tile * S::kTileM) {}
};

// Steps of 32 terms that a CTA has: those of its k-tiles.
struct StepRange {
  int begin, end;

  __device__ explicit StepRange(const Params& p)
      : begin(p.k_tiles * blockIdx.y / p.splits * kTileSteps),
        end(p.k_tiles * (blockIdx.y + 1) / p.splits * kTileSteps) {}
};

// Digits of kRows rows and the steps of a piece: [digit][rows / 8][steps], from planes of kPlaneRows rows that are
// whole k-tiles. The CTA takes some groups of eight rows at a time; which ones and where, but for a thread's first, are
// constants: what comes between a barrier and the products has to be short.
template <typename S, int kRows, int kPlaneRows>
__device__ inline void fetch_digits(unsigned char* to, const std::uint8_t* from) {
  constexpr int kGroupVectors = S::kPieceSteps * kGroupStepBytes / 16, kGroups = kRows / 8;
  constexpr int kVectors = S::kDigits * kGroups * kGroupVectors;
  constexpr int kAtOnce = S::kThreads / kGroupVectors, kPlane = kPlaneRows * kTileK;
  static_assert(kAtOnce % kGroups == 0 || kGroups % kAtOnce == 0);
  const int own = static_cast<int>(threadIdx.x), group = own / kGroupVectors;
  from += group / kGroups * kPlane + group % kGroups * kGroupTileBytes + own % kGroupVectors * 16;
  to += own * 16;
#pragma unroll
  for (int i = 0; i < (kVectors + S::kThreads - 1) / S::kThreads; ++i) {
    if (kVectors % S::kThreads != 0 && i * S::kThreads + own >= kVectors) break;
    const int first = i * kAtOnce;  // group, of all digits
    ptx::cp_async(to + i * (S::kThreads * 16), from + first / kGroups * kPlane + first % kGroups * kGroupTileBytes);
  }
}

// From step `step` on, a stage of digits of x and what comes with them.
template <typename S>
__device__ inline void fetch_x(const Params& p, const MmaTile<S>& tile, unsigned char* stage, int step, int end) {
#pragma unroll
  for (int piece = 0; piece < S::kPieces; ++piece) {
    const int first = step + piece * kTileSteps;
    if (S::kPieces > 1 && first >= end) break;
    const std::uint8_t* from =
        p.digits + (std::int64_t{tile.row_tile} * p.k_tiles + first / kTileSteps) * S::kXTileBytes;
    unsigned char* to = stage + piece * S::kXPieceBytes;
    fetch_digits<S, S::kTileM, S::kTileM>(to, from + first % kTileSteps * kGroupStepBytes);
    const int at = static_cast<int>(threadIdx.x) * 16;
    if (at < S::kXRestBytes) ptx::cp_async(to + (S::kXPieceBytes - S::kXRestBytes) + at, from + S::kXPlanesBytes + at);
  }
}

// Kept digits have tiles of kPreparedRows rows, prepared ones those of the kernel that takes them.
template <typename S>
__device__ inline void fetch_digit_weights(const Params& p, const MmaTile<S>& tile, unsigned char* stage, int step,
                                           int end) {
  constexpr int kRows = S::Weights::kRows;
  static_assert(kRows == kPreparedRows || kRows == S::kTileN);
  const std::uint8_t* weights = p.digits_in_place ? static_cast<const std::uint8_t*>(tile.out.w) : p.weights;
  const int of_tile = p.digits_in_place ? tile.n0 / kRows : tile.column_tile;
#pragma unroll
  for (int piece = 0; piece < S::kPieces; ++piece) {
    const int first = step + piece * kTileSteps;
    if (S::kPieces > 1 && first >= end) break;
    const std::uint8_t* from =
        weights + (std::int64_t{of_tile} * p.k_tiles + first / kTileSteps) * (S::kDigits * kRows * kTileK) +
        tile.n0 % kRows / 8 * kGroupTileBytes + first % kTileSteps * kGroupStepBytes;
    fetch_digits<S, S::kTileN, kRows>(stage + piece * S::kWPieceBytes, from);
  }
}

// Vector v of row r lies at v ^ r % 2, a swizzle: eight lanes read two rows and every other vector without bank
// conflicts. Zeros from term `k_end` on; rows beyond the last are the last one.
template <typename S>
__device__ inline void fetch_format_weights(const MmaTile<S>& tile, unsigned char* stage, int step, int k_end) {
  using Bits = typename S::Weights::W::Bits;
  constexpr int kPerVector = 16 / sizeof(Bits), kRowVectors = S::kWRowBytes / 16;
  static_assert(S::kTileN * kRowVectors % S::kThreads == 0);
#pragma unroll
  for (int i = 0; i < S::kTileN * kRowVectors / S::kThreads; ++i) {
    const int vector = i * S::kThreads + threadIdx.x, row = vector / kRowVectors, at = vector % kRowVectors;
    const int k = step * kStepTerms + at * kPerVector;
    const Bits* from =
        static_cast<const Bits*>(tile.out.w) + min(tile.n0 + row, tile.out.n - 1) * tile.out.w_stride + k;
    unsigned char* to = stage + row * S::kWRowBytes + (at ^ row % 2) * 16;
    if constexpr (S::Weights::kVectorLoads) {
      ptx::cp_async_or_zero(to, from, k < k_end);
    } else {
      Bits terms[kPerVector];
#pragma unroll
      for (int e = 0; e < kPerVector; ++e) terms[e] = k + e < k_end ? from[e] : Bits{0};
#pragma unroll
      for (int e = 0; e < kPerVector; ++e) reinterpret_cast<Bits*>(to)[e] = terms[e];
    }
  }
}

// Weights, then digits of x. Nothing where the steps have come to their end.
template <typename S>
__device__ inline void fetch_stage(const Params& p, const MmaTile<S>& tile, unsigned char* stage, int step, int end) {
  if (step >= end) return;
  if constexpr (S::Weights::kDigits)
    fetch_digit_weights<S>(p, tile, stage, step, end);
  else
    fetch_format_weights<S>(tile, stage, step, min(p.k, end * kStepTerms));
  fetch_x<S>(p, tile, stage + S::kWBytes, step, end);
}

// The operand of 16 weight rows and 32 terms, from the digits of a piece: rows 0 to 7 and 8 to 15 of its first 16
// terms, then of the others.
template <typename S>
__device__ inline void load_weight_digits(const unsigned char* plane, int block, int step, std::uint32_t (&words)[4]) {
  const int lane = threadIdx.x % kWarp;
  ptx::ldmatrix_x4(words, plane + (block * 2 + lane / 8 % 2) * (S::kPieceSteps * kGroupStepBytes) +
                              step * kGroupStepBytes + lane / 16 * 128 + lane % 8 * 16);
}

// The operands of one or two groups of eight rows of x and 32 terms.
template <typename S, int kPair>
__device__ inline void load_x_digits(const unsigned char* plane, int group, int step,
                                     std::uint32_t (&words)[kPair][2]) {
  const int lane = threadIdx.x % kWarp;
  const unsigned char* row = plane + (group + (kPair == 2 ? lane / 16 : 0)) * (S::kPieceSteps * kGroupStepBytes) +
                             step * kGroupStepBytes + lane / 8 % 2 * 128 + lane % 8 * 16;
  if constexpr (kPair == 2) {
    std::uint32_t both[4];
    ptx::ldmatrix_x4(both, row);
    words[0][0] = both[0];
    words[0][1] = both[1];
    words[1][0] = both[2];
    words[1][1] = both[3];
  } else {
    ptx::ldmatrix_x2(words[0][0], words[0][1], row);
  }
}

// A thread's terms of a weight row in its format: those of step `step` of the stage.
template <typename S>
__device__ inline void load_terms(const unsigned char* weights, int row, int step, float (&terms)[kThreadTerms]) {
  using W = typename S::Weights::W;
  constexpr int kVectors = kThreadTerms / W::kPerVector;
  const int first = first_term(step, threadIdx.x % 4) / W::kPerVector;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const uint4 vector = *reinterpret_cast<const uint4*>(weights + row * S::kWRowBytes + ((first + v) ^ row % 2) * 16);
#pragma unroll
    for (int i = 0; i < W::kPerVector; ++i) terms[v * W::kPerVector + i] = W::element(vector, i);
  }
}

}  // namespace reprofuse::cuda::integer
