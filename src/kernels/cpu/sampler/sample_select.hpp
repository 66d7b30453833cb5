// Sums and selections over a vocabulary whose tokens have integer weights. Integer sums know no order, so any number of
// workers gives the same result.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/math.hpp"
#include "base/thread_pool.hpp"

namespace reprofuse::cpu {

// Ids [0, count) in chunks, on the pool or, without one, on the calling thread.
class Chunks {
 public:
  static constexpr std::int64_t kChunk = 8192;

  Chunks(std::int64_t count, ThreadPool* pool) : count_(count), pool_(count > kChunk ? pool : nullptr) {}

  std::int64_t count() const { return count_; }
  int workers() const { return pool_ != nullptr ? pool_->threads() : 1; }

  // body(begin, end, worker)
  template <class Body>
  void for_each(const Body& body) const {
    const auto chunk = [&](std::int64_t index, int worker) {
      body(index * kChunk, std::min(count_, (index + 1) * kChunk), worker);
    };
    const std::int64_t chunks = ceil_div(count_, kChunk);
    if (pool_ != nullptr) return pool_->parallel_for(chunks, chunk);
    for (std::int64_t i = 0; i < chunks; ++i) chunk(i, 0);
  }

 private:
  std::int64_t count_;
  ThreadPool* pool_;
};

// The sum of weight(id) over all ids.
template <class Weight>
std::uint64_t total_weight(const Chunks& chunks, const Weight& weight) {
  std::vector<std::uint64_t> totals(static_cast<std::size_t>(chunks.workers()));
  chunks.for_each([&](std::int64_t begin, std::int64_t end, int worker) {
    std::uint64_t sum = 0;
    for (std::int64_t id = begin; id < end; ++id) sum += weight(id);
    totals[static_cast<std::size_t>(worker)] += sum;
  });
  std::uint64_t total = 0;
  for (const std::uint64_t part : totals) total += part;
  return total;
}

// Takes ids by descending rank until their weights reach `needed`, and returns the rank of the last one taken. Ranks
// are distinct and have `bits` bits; 1 <= needed <= the sum of all weights. One pass settles eleven bits.
template <class Rank, class Weight>
std::uint64_t last_rank_taken(const Chunks& chunks, int bits, const Rank& rank, const Weight& weight,
                              std::uint64_t needed) {
  constexpr int kDigitBits = 11;
  using Histogram = std::array<std::uint64_t, 1U << kDigitBits>;
  std::vector<Histogram> histograms(static_cast<std::size_t>(chunks.workers()));
  std::uint64_t settled = 0;  // the rank's upper digits
  for (int open = bits; open > 0;) {
    const int digit_bits = std::min(kDigitBits, open);
    const int shift = open - digit_bits;
    const std::uint64_t mask = (std::uint64_t{1} << digit_bits) - 1;
    for (Histogram& histogram : histograms) histogram.fill(0);
    chunks.for_each([&](std::int64_t begin, std::int64_t end, int worker) {
      Histogram& histogram = histograms[static_cast<std::size_t>(worker)];
      for (std::int64_t id = begin; id < end; ++id)
        if (const std::uint64_t r = rank(id); r >> open == settled) histogram[r >> shift & mask] += weight(id);
    });
    std::uint64_t digit = mask;
    for (;; --digit) {
      std::uint64_t sum = 0;
      for (const Histogram& histogram : histograms) sum += histogram[digit];
      if (sum >= needed) break;
      needed -= sum;
    }
    settled = settled << digit_bits | digit;
    open = shift;
  }
  return settled;
}

}  // namespace reprofuse::cpu
