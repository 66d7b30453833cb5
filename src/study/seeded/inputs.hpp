// Seeded operands made with integer arithmetic alone, so that every machine makes the same bits.
// Mantissas are full, so sums round at every step and an order that moved would show; exponents fall off
// geometrically, and signs are even, so sums also cancel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/thread_pool.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::study {

// Row-major [rows, cols] activations of magnitude 2^-7 to 4. Value (r, c) depends on seed, r * cols + c and nothing
// else.
std::vector<float> make_activations(std::uint64_t seed, std::int64_t rows, std::int64_t cols);

// Weights of magnitude 2^-13 to 2^-4, owned.
struct Weights {
  DType dtype;
  std::int64_t n;
  std::int64_t k;
  std::vector<std::byte> storage;  // [n, k]

  WeightView view() const { return {storage.data(), dtype, n, k, k}; }
};

// Large matrices are filled by the threads of `pool`; the values do not depend on it.
Weights make_weights(std::uint64_t seed, DType dtype, std::int64_t n, std::int64_t k, ThreadPool& pool);

}  // namespace reprofuse::study
