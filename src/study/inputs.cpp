#include "study/inputs.hpp"

#include <bit>

#include "numerics/widen.hpp"

namespace reprofuse::study {
namespace {

// The finaliser of SplitMix64 over a counter: a well-mixed word for every index, in any order.
std::uint64_t random_word(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

// A float format of `mantissa` stored bits: sign even, exponent `top` with probability 1/2, top - 1 with 1/4, ...
std::uint32_t random_float(std::uint64_t word, int mantissa, int exponent_bits, int top) {
  const int drop = std::countr_zero((word & 0xff) | 0x100);
  const auto sign = static_cast<std::uint32_t>(word >> 63);
  const auto fraction = static_cast<std::uint32_t>(word >> 16) & ((1U << mantissa) - 1);
  const auto exponent = static_cast<std::uint32_t>(top - drop);
  return sign << (mantissa + exponent_bits) | exponent << mantissa | fraction;
}

constexpr int kActivationTop = 1;  // exponents as powers of two
constexpr int kWeightTop = -5;

std::uint32_t random_weight(std::uint64_t word, DType dtype) {
  switch (dtype) {
    case DType::kBF16: return random_float(word, 7, 8, 127 + kWeightTop);
    case DType::kF16: return random_float(word, 10, 5, 15 + kWeightTop);
    case DType::kF32: break;
  }
  return random_float(word, 23, 8, 127 + kWeightTop);
}

}  // namespace

std::vector<float> make_activations(std::uint64_t seed, std::int64_t rows, std::int64_t cols) {
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::bit_cast<float>(random_float(random_word(seed, i), 23, 8, 127 + kActivationTop));
  return values;
}

Weights make_weights(std::uint64_t seed, DType dtype, std::int64_t n, std::int64_t k, ThreadPool& pool) {
  Weights weights{dtype, n, k, std::vector<std::byte>(static_cast<std::size_t>(n * k) * dtype_bytes(dtype))};
  pool.parallel_for(n, [&](std::int64_t row, int) {
    for (std::int64_t i = row * k; i < (row + 1) * k; ++i) {
      const std::uint64_t word = random_word(seed, static_cast<std::uint64_t>(i));
      store_weight(weights.storage.data(), dtype, i, random_weight(word, dtype));
    }
  });
  return weights;
}

}  // namespace reprofuse::study
