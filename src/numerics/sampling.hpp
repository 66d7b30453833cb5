// What the sampler computes per token and per row, and its random words, for host and device. Weights are integers, so
// their sums are exact in any order. NUMERICS.md defines every bit.
#pragma once

#include <cstdint>

#include "base/math.hpp"
#include "numerics/exp_log.hpp"
#include "numerics/float_ops.hpp"
#include "reprofuse/sampling.hpp"

namespace reprofuse {

// Of a request, and of what a checkpoint suggests: a logit below 3.4e36 in magnitude stays finite under these.
inline constexpr double kMinRepetitionPenalty = 0.01;
inline constexpr double kMaxRepetitionPenalty = 100;

// Philox4x32-10 (Salmon et al., SC 2011): random words as a function of a key and a counter, with no state to carry.
struct PhiloxBlock {
  std::uint32_t words[4];
};

REPROFUSE_HOST_DEVICE constexpr PhiloxBlock philox4x32(PhiloxBlock counter, std::uint32_t key0, std::uint32_t key1) {
  constexpr std::uint64_t kMultiplier0 = 0xd2511f53U, kMultiplier1 = 0xcd9e8d57U;
  constexpr std::uint32_t kWeyl0 = 0x9e3779b9U, kWeyl1 = 0xbb67ae85U;
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter.words[0];
    const std::uint64_t product1 = kMultiplier1 * counter.words[2];
    counter = {
        {static_cast<std::uint32_t>(product1 >> 32) ^ counter.words[1] ^ key0, static_cast<std::uint32_t>(product1),
         static_cast<std::uint32_t>(product0 >> 32) ^ counter.words[3] ^ key1, static_cast<std::uint32_t>(product0)}};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

// A uniform 64-bit word: draw number `draw` of the token at `position` of a request with this seed.
REPROFUSE_HOST_DEVICE constexpr std::uint64_t philox(std::uint64_t seed, std::uint64_t position, std::uint64_t draw) {
  const PhiloxBlock block =
      philox4x32({{static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32),
                   static_cast<std::uint32_t>(draw), static_cast<std::uint32_t>(draw >> 32)}},
                 static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
  return std::uint64_t{block.words[1]} << 32 | block.words[0];
}

namespace sampling {

inline constexpr int kWeightBits = 40;
inline constexpr int kIdBits = 22;
inline constexpr std::int64_t kMaxVocabulary = std::int64_t{1} << kIdBits;  // so that no sum of weights reaches 2^63
using reprofuse::kMaxLogprobs;

// Larger logits and, among equal ones, smaller ids have larger keys. +0 and -0 are equal.
REPROFUSE_HOST_DEVICE inline std::uint64_t order_key(float logit, std::uint32_t id) {
  const std::uint32_t bits = float_bits(logit + 0.0F);
  const std::uint32_t ascending = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return std::uint64_t{ascending} << kIdBits | (kMaxVocabulary - 1 - id);
}
inline constexpr int kKeyBits = 32 + kIdBits;

REPROFUSE_HOST_DEVICE inline std::uint32_t id_of(std::uint64_t key) {
  return static_cast<std::uint32_t>(kMaxVocabulary - 1 - (key & (kMaxVocabulary - 1)));
}

REPROFUSE_HOST_DEVICE inline float penalized(float logit, float penalty) {
  return logit > 0.0F ? div_rn(logit, penalty) : logit * penalty;
}

// exp((logit - greatest) / temperature): the probability relative to that of the most likely token, in [0, 1].
REPROFUSE_HOST_DEVICE inline float unnormalized_probability(float logit, float greatest, float temperature) {
  return exp_nonpositive_f32(div_rn(logit - greatest, temperature));
}

// In units of 2^-40, truncated. The product is exact.
REPROFUSE_HOST_DEVICE inline std::uint64_t weight_of(float probability) {
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(probability * 0x1p+40F));
}

// floor(a b / 2^64)
REPROFUSE_HOST_DEVICE constexpr std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t a0 = a & 0xffffffffU, a1 = a >> 32, b0 = b & 0xffffffffU, b1 = b >> 32;
  const std::uint64_t low = a0 * b0;
  const std::uint64_t middle1 = a1 * b0 + (low >> 32);
  const std::uint64_t middle2 = a0 * b1 + (middle1 & 0xffffffffU);
  return a1 * b1 + (middle1 >> 32) + (middle2 >> 32);
}

// The least integer that is at least top_p * total, and at least 1; 0 <= top_p <= 1, total < 2^63.
REPROFUSE_HOST_DEVICE inline std::uint64_t nucleus_weight(float top_p, std::uint64_t total) {
  // top_p = significand * 2^-shift. Below 2^-63 the product is less than 1.
  if (!(top_p >= 0x1p-63F)) return 1;
  const std::uint32_t bits = float_bits(top_p);
  const std::uint64_t significand = (bits & 0x7fffffU) | 0x800000U;
  const int shift = 150 - static_cast<int>(bits >> 23);  // 23 to 86
  const std::uint64_t high = multiply_high(total, significand);
  const std::uint64_t low = total * significand;
  if (shift >= 64) {
    const int more = shift - 64;
    const std::uint64_t dropped = low | (high & ((std::uint64_t{1} << more) - 1));
    const std::uint64_t quotient = (high >> more) + (dropped != 0 ? 1 : 0);
    return quotient > 0 ? quotient : 1;
  }
  const std::uint64_t dropped = low & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t quotient = (high << (64 - shift) | low >> shift) + (dropped != 0 ? 1 : 0);
  return quotient > 0 ? quotient : 1;
}

// Uniform in [0, total).
REPROFUSE_HOST_DEVICE inline std::uint64_t draw_below(std::uint64_t total, std::uint64_t seed, std::uint64_t position) {
  return multiply_high(philox(seed, position, 0), total);
}

// log of the sum of unnormalized probabilities, from the sum of their weights: one rounding to binary32, then an exact
// product.
REPROFUSE_HOST_DEVICE inline float log_total(std::uint64_t total) {
  return log_f32(static_cast<float>(total) * 0x1p-40F);
}

REPROFUSE_HOST_DEVICE inline float logprob(float logit, float greatest, float log_total) {
  return (logit - greatest) - log_total;
}

// The digest of a row of logits is the Merkle root of leaves of so many, the last of what is left.
inline constexpr std::int64_t kLogitsPerLeaf = 256;

REPROFUSE_HOST_DEVICE inline std::int64_t logits_leaves(std::int64_t vocabulary) {
  return (vocabulary + kLogitsPerLeaf - 1) / kLogitsPerLeaf;
}

}  // namespace sampling
}  // namespace reprofuse
