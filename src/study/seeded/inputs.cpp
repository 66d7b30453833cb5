#include "study/seeded/inputs.hpp"

#include <bit>

#include "numerics/widen.hpp"

namespace reprofuse::study {
namespace {

constexpr int kActivationTop = 1;  // exponents as powers of two
constexpr int kWeightTop = -5;

}  // namespace

std::vector<float> make_activations(std::uint64_t seed, std::int64_t rows, std::int64_t cols) {
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::bit_cast<float>(random_float(random_word(seed, i), format_of(DType::kF32), kActivationTop));
  return values;
}

Weights make_weights(std::uint64_t seed, DType dtype, std::int64_t n, std::int64_t k, ThreadPool& pool) {
  Weights weights{dtype, n, k, std::vector<std::byte>(static_cast<std::size_t>(n * k) * dtype_bytes(dtype))};
  pool.parallel_for(n, [&](std::int64_t row, int) {
    for (std::int64_t i = row * k; i < (row + 1) * k; ++i) {
      const std::uint64_t word = random_word(seed, static_cast<std::uint64_t>(i));
      store_weight(weights.storage.data(), dtype, i, random_float(word, format_of(dtype), kWeightTop));
    }
  });
  return weights;
}

}  // namespace reprofuse::study
