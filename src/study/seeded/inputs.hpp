// Seeded operands made with integer arithmetic alone, so that every machine makes the same bits.
// Mantissas are full, so sums round at every step and an order that moved would show; exponents fall off
// geometrically, and signs are even, so sums also cancel.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/thread_pool.hpp"
#include "numerics/float_ops.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::study {

// The finaliser of SplitMix64 over a counter: a well-mixed word for every index, in any order.
inline std::uint64_t random_word(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

struct FloatFormat {
  int mantissa;  // stored bits
  int exponent_bits;
  int bias;  // the exponent field of 1
};

constexpr FloatFormat format_of(DType dtype) {
  switch (dtype) {
    case DType::kBF16: return {7, 8, 127};
    case DType::kF16: return {10, 5, 15};
    case DType::kF32: break;
  }
  return {23, 8, 127};
}

// The exponent is `top` with probability 1/2, top - 1 with 1/4, ... and the sign is even: root mean square 1.15 *
// 2^top.
inline std::uint32_t random_float(std::uint64_t word, FloatFormat format, int top) {
  const int drop = std::countr_zero((word & 0xff) | 0x100);
  const auto sign = static_cast<std::uint32_t>(word >> 63);
  const auto fraction = static_cast<std::uint32_t>(word >> 16) & ((1U << format.mantissa) - 1);
  const auto exponent = static_cast<std::uint32_t>(std::max(0, format.bias + top - drop));
  return sign << (format.mantissa + format.exponent_bits) | exponent << format.mantissa | fraction;
}

// Within an eighth above 1 or a sixteenth below it, with equal chances.
inline std::uint32_t random_near_one(std::uint64_t word, FloatFormat format) {
  const auto fraction = static_cast<std::uint32_t>(word >> 16) & ((1U << (format.mantissa - 3)) - 1);
  const auto one = static_cast<std::uint32_t>(format.bias) << format.mantissa;
  return (word >> 63) == 0 ? one + fraction : one - 1 - fraction;
}

// Row-major [rows, cols] activations of magnitude 2^-7 to 4. Value (r, c) depends on seed, r * cols + c and nothing
// else.
inline std::vector<float> make_activations(std::uint64_t seed, std::int64_t rows, std::int64_t cols) {
  constexpr int kTop = 1;  // the largest exponent, as a power of two
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::bit_cast<float>(random_float(random_word(seed, i), format_of(DType::kF32), kTop));
  return values;
}

// Weights of magnitude 2^-13 to 2^-4, owned.
struct Weights {
  DType dtype;
  std::int64_t n;
  std::int64_t k;
  std::vector<std::byte> storage;  // [n, k]

  WeightView view() const { return {storage.data(), dtype, n, k, k}; }
};

// Large matrices are filled by the threads of `pool`; the values do not depend on it.
inline Weights make_weights(std::uint64_t seed, DType dtype, std::int64_t n, std::int64_t k, ThreadPool& pool) {
  constexpr int kTop = -5;
  Weights weights{dtype, n, k, std::vector<std::byte>(static_cast<std::size_t>(n * k) * dtype_bytes(dtype))};
  pool.parallel_for(n, [&](std::int64_t row, int) {
    for (std::int64_t i = row * k; i < (row + 1) * k; ++i) {
      const std::uint64_t word = random_word(seed, static_cast<std::uint64_t>(i));
      store_weight(weights.storage.data(), dtype, i, random_float(word, format_of(dtype), kTop));
    }
  });
  return weights;
}

}  // namespace reprofuse::study
