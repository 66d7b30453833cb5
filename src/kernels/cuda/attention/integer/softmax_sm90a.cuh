// The softmax of one block of keys by contracts int16-1 and exact-2, in the registers of a warpgroup: what a product of
// queries and keys leaves in a thread becomes the left operand of the product with values, and no thread talks to
// others but for the maxima of a row.
#pragma once

#include "kernels/cuda/attention/integer/fold.cuh"

namespace reprofuse::cuda::integer_attention {

// 2^x for x <= 0: N::exp2 with one instruction less. The polynomial is that of half of 2^x, each of its steps scaled by
// a power of two; an exponent is added in place of a product. The sum that rounds x is odd as there, so that ties go
// the same way.
template <typename N>
__device__ inline float exp2_by_exponent(float x) {
  constexpr float kShift = reprofuse::int16::kRoundToInteger + 1;
  x = fmaxf(x, reprofuse::int16::kExp2Min);
  const float shifted = __fadd_rn(x, kShift);
  const float r = __fsub_rn(x, __fsub_rn(shifted, kShift));
  const float p = exp2_polynomial<N, true>(r);
  return __uint_as_float(__float_as_uint(p) + (__float_as_uint(shifted) << 23));
}

// Of contracts that fit the unit of weights to a row.
template <typename N, int kKeys>
struct FittingUnits {};
template <int kKeys>
struct alignas(16) FittingUnits<ThreeDigits, kKeys> {
  float value_steps[kKeys];  // from the largest unit of values to those of a key, as powers of two
  int largest_value_unit;
};

// The units of a block's keys and values in shared memory: bytes as the TMA brings them, and what a warp makes of them.
template <typename N, int kKeys>
struct alignas(16) BlockUnits : FittingUnits<N, kKeys> {
  std::uint8_t key_bytes[kKeys], value_bytes[kKeys];  // as they are stored
  float key_units[kKeys];
  float weight_factors[kKeys];  // for rows that see the whole block; where units are fitted, a row's own comes to them
  float largest_key_unit;
  float value_scale;  // for rows that see the whole block
};

// The keys of a block that a row sees, counted from the block's first: [begin, end).
struct Visible {
  int begin, end;
  __device__ bool has(int key) const { return key >= begin && key < end; }
};

struct RowSoftmax {
  float max, sum, scale;
};

__device__ inline float max_of_quad(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

__device__ inline int max_of_quad(int x) {
  x = max(x, __shfl_xor_sync(~0u, x, 1));
  return max(x, __shfl_xor_sync(~0u, x, 2));
}

__device__ inline int sum_of_quad(int x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

// Digits of four integers, each in the low bits of a sum with N::kUnsigned: the first digit, then the others and 128
// each.
template <typename N>
struct PackedDigits {
  std::uint32_t digits[N::kDigits];

  __device__ explicit PackedDigits(const std::uint32_t (&w)[4]) {
    const std::uint32_t front = __byte_perm(w[0], w[1], 0x5140), back = __byte_perm(w[2], w[3], 0x5140);
    if constexpr (N::kDigits == 3)
      digits[0] = __byte_perm(__byte_perm(w[0], w[1], 0x0062), __byte_perm(w[2], w[3], 0x0062), 0x5410);
    const std::uint32_t second = __byte_perm(front, back, 0x7632);
    digits[N::kDigits - 2] = N::kDigits == 2 ? second : second ^ 0x80808080u;
    digits[N::kDigits - 1] = __byte_perm(front, back, 0x5410) ^ 0x80808080u;
  }
};

// A left operand: digits, steps of 32 terms, words.
template <typename N, int kSteps>
using LeftWords = std::uint32_t[N::kDigits][kSteps][4];

// The softmax of a thread's two rows over one block, in two steps. kWhole: all rows of the warp see all keys, and no
// score can be other than finite. Sums come in kPanels of the block's keys. `Rows` tells a row's factor of scores, the
// keys that it sees, and where it lies, for the record of what is not finite.
template <typename N, int kKeys, int kPanels>
struct BlockSoftmax {
  using Units = BlockUnits<N, kKeys>;
  static constexpr int kTiles = kKeys / 8 / kPanels;  // of a panel, 8 keys each
  static constexpr int kSums = kTiles * 4;
  float largest[2] = {masked_score(), masked_score()};
  int unit[2] = {reprofuse::int16::kMinUnit, reprofuse::int16::kMinUnit};

  // The thread's first key of each eight.
  __device__ static int first_key() { return threadIdx.x % 4 * 2; }

  // Sums of digits' products, as value(i) tells them, become scores.
  template <bool kWhole, typename Rows, typename Value>
  __device__ void score(const Units& units, const Rows& rows, int panel, const Value& value, int (&scores)[kSums]) {
    const Visible visible[2] = {rows.visible(0), rows.visible(1)};
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const int first = (panel * kTiles + tile) * 8 + first_key();
      const float2 key_units = *reinterpret_cast<const float2*>(units.key_units + first);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float score = value(tile * 4 + i);
        score = __fmul_rn(__fmul_rn(score, i % 2 == 0 ? key_units.x : key_units.y), rows.factor[i / 2]);
        if constexpr (!kWhole) {
          const int key = first + i % 2;
          if (visible[i / 2].has(key)) {
            rows.record_if_not_finite(i / 2, score);
            unit[i / 2] = max(unit[i / 2], int{units.value_bytes[key]});
          } else {
            score = masked_score();
          }
        }
        largest[i / 2] = fmaxf(largest[i / 2], score);
        scores[tile * 4 + i] = __float_as_int(score);
      }
    }
  }

  // The unit that a row's weights count in. Its scores become differences to their maximum, which is known.
  template <bool kWhole>
  __device__ void fit_weights(const Units& units, const Visible (&visible)[2], int (&scores)[kPanels][kSums],
                              float (&row_factor)[2]) {
    float fit[2] = {-N::kMaxFit, -N::kMaxFit};
#pragma unroll
    for (int tile = 0; tile < kKeys / 8; ++tile) {
      const int first = tile * 8 + first_key();
      const float2 steps = *reinterpret_cast<const float2*>(units.value_steps + first);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        int& score = scores[tile / kTiles][tile % kTiles * 4 + i];
        const float log2 = fmaxf(__fsub_rn(__int_as_float(score), largest[i / 2]), reprofuse::int16::kExp2Min);
        score = __float_as_int(log2);
        if constexpr (kWhole) {
          fit[i / 2] = fmaxf(fit[i / 2], __fadd_rn(log2, i % 2 == 0 ? steps.x : steps.y));
        } else {
          const int key = first + i % 2;
          if (visible[i / 2].has(key))
            fit[i / 2] = fmaxf(fit[i / 2], N::fit_of(log2, units.value_bytes[key], unit[i / 2]));
        }
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int largest_unit = kWhole ? units.largest_value_unit : unit[r];
      unit[r] = N::weight_unit(largest_unit, max_of_quad(fit[r]));
      row_factor[r] = N::weight_factor(largest_unit, unit[r]);
    }
  }

  // Scores become the digits of weights.
  template <bool kWhole, typename Rows>
  __device__ void weigh(const Units& units, const Rows& rows, int (&scores)[kPanels][kSums],
                        LeftWords<N, kKeys / 32>& digits, RowSoftmax (&result)[2]) {
    const Visible visible[2] = {rows.visible(0), rows.visible(1)};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      largest[r] = max_of_quad(largest[r]);
      if constexpr (!kWhole) unit[r] = max_of_quad(unit[r]);
    }
    float row_factor[2];
    if constexpr (N::kFitsWeights) fit_weights<kWhole>(units, visible, scores, row_factor);
    std::uint32_t sum[2] = {};
#pragma unroll
    for (int pair = 0; pair < kKeys / 16; ++pair) {
      const int first = pair * 16 + first_key();
      float2 factors[2];
      if constexpr (kWhole) {
        factors[0] = *reinterpret_cast<const float2*>(units.weight_factors + first);
        factors[1] = *reinterpret_cast<const float2*>(units.weight_factors + first + 8);
      }
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        std::uint32_t weights[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int tile = pair * 2 + i / 2;
          const float score = __int_as_float(scores[tile / kTiles][tile % kTiles * 4 + r * 2 + i % 2]);
          float probability = exp2_by_exponent<N>(N::kFitsWeights ? score : __fsub_rn(score, largest[r]));
          float factor;
          if constexpr (kWhole) {
            factor = i % 2 == 0 ? factors[i / 2].x : factors[i / 2].y;
            if constexpr (N::kFitsWeights) factor = __fmul_rn(factor, row_factor[r]);
          } else {
            const int key = first + i / 2 * 8 + i % 2;
            const bool seen = visible[r].has(key);
            probability = seen ? probability : 0.0f;
            factor = N::weight_factor(seen ? units.value_bytes[key] : 0, unit[r]);
          }
          sum[r] += __float_as_uint(fma_rn(probability, 0x1p+23f, 0x1p+23f));
          weights[i] =
              __float_as_uint(fma_rn(probability, factor, N::kWeightOffset + static_cast<float>(N::kUnsigned)));
        }
        const PackedDigits<N> packed(weights);
#pragma unroll
        for (int digit = 0; digit < N::kDigits; ++digit)
          digits[digit][pair / 2][pair % 2 * 2 + r] = packed.digits[digit];
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      constexpr std::uint32_t kShifted = 0x4b000000u * (kKeys / 4);  // bits of 2^23 in each of the thread's terms
      result[r].max = largest[r];
      result[r].sum = sum_value(sum_of_quad(static_cast<int>(sum[r] - kShifted)));
      result[r].scale = kWhole && !N::kFitsWeights ? units.value_scale : N::value_scale(unit[r]);
    }
  }
};

}  // namespace reprofuse::cuda::integer_attention
