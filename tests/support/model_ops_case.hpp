// Operands for tests of the transformer operations on the CPU: seeded, in padded matrices, in shuffled pages.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "base/thread_pool.hpp"
#include "kernels/cpu/attention/attention.hpp"
#include "kernels/cpu/elementwise/elementwise.hpp"
#include "kernels/op_calls.hpp"
#include "kernels/reference/reference.hpp"
#include "reprofuse/reprofuse.hpp"
#include "study/probe/probe.hpp"
#include "study/seeded/inputs.hpp"

namespace reprofuse {

inline constexpr float kPoison = 12345.678F;

// A matrix that owns its rows, with poison between them and values that depend on seed, row and column alone.
class Rows {
 public:
  Rows(std::int64_t rows, std::int64_t cols, std::uint64_t seed, std::int64_t padding = 0, float scale = 1.0F)
      : rows_(rows), cols_(cols), stride_(cols + padding) {
    const std::vector<float> values = study::make_activations(seed, rows, cols);
    storage_.assign(static_cast<std::size_t>(rows * stride_ + padding), kPoison);
    for (std::int64_t m = 0; m < rows; ++m)
      for (std::int64_t i = 0; i < cols; ++i) at(m, i) = values[static_cast<std::size_t>(m * cols + i)] * scale;
  }

  float& at(std::int64_t row, std::int64_t column) {
    return storage_[static_cast<std::size_t>(row * stride_ + column)];
  }
  Matrix view() { return {storage_.data(), rows_, cols_, stride_}; }
  ConstMatrix view() const { return {storage_.data(), rows_, cols_, stride_}; }

  bool padding_is_intact() const {
    for (std::size_t i = 0; i < storage_.size(); ++i) {
      const auto column = static_cast<std::int64_t>(i) % stride_;
      const bool inside = static_cast<std::int64_t>(i) < rows_ * stride_ && column < cols_;
      if (!inside && storage_[i] != kPoison) return false;
    }
    return true;
  }

 private:
  std::int64_t rows_;
  std::int64_t cols_;
  std::int64_t stride_;
  std::vector<float> storage_;
};

inline ConstMatrix as_const(Matrix matrix) {
  return {matrix.data, matrix.rows, matrix.cols, matrix.stride};
}

inline ::testing::AssertionResult same_bits(ConstMatrix got, ConstMatrix expected) {
  const auto difference = study::first_difference(got, expected);
  if (!difference) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << difference->description();
}

inline ::testing::AssertionResult same_bits(Rows& got, Rows& expected) {
  if (!got.padding_is_intact()) return ::testing::AssertionFailure() << "a value between the rows was written";
  return same_bits(as_const(got.view()), as_const(expected.view()));
}

inline std::string describe(const std::optional<kernels::NonFinite>& place) {
  return place ? std::to_string(place->row) + ":" + std::to_string(place->column) : "none";
}

// Runs `work` with a backend of every instruction set of this machine.
template <class Work>
void on_every_isa(int threads, const Work& work) {
  ThreadPool pool(threads);
  for (const Isa isa : supported_isas()) {
    SCOPED_TRACE(std::string(isa_name(isa)) + ", threads " + std::to_string(threads));
    work(cpu::CpuDevice{.isa = isa, .pool = &pool});
    if (::testing::Test::HasFatalFailure()) return;
  }
}

struct ChunkSpec {
  std::int32_t sequence;
  std::int32_t first_position;
  std::int32_t rows;
};

struct KvSpec {
  std::int32_t kv_heads = 2;
  std::int32_t head_dim = 64;
  std::int32_t page_size = 64;
  DType dtype = DType::kF32;
  std::uint64_t page_seed = 1;  // how pages are shuffled
};

// A batch and its KV pages. The key and value of a position depend on its sequence, position, head and element alone;
// positions that no chunk has reached hold NaNs, and the table has no page for them.
class KvCase {
 public:
  KvCase(const KvSpec& spec, std::vector<ChunkSpec> chunks) : spec_(spec) {
    for (const ChunkSpec& chunk : chunks) {
      chunks_.push_back(
          {static_cast<std::int32_t>(positions_.size()), chunk.rows, chunk.first_position, chunk.sequence});
      max_chunk_rows_ = std::max(max_chunk_rows_, chunk.rows);
      for (std::int32_t r = 0; r < chunk.rows; ++r) {
        positions_.push_back(chunk.first_position + r);
        sequences_.push_back(chunk.sequence);
      }
      sequence_count_ = std::max(sequence_count_, chunk.sequence + 1);
      max_keys_ = std::max(max_keys_, chunk.first_position + chunk.rows);
    }
    make_pages();
  }

  std::int32_t rows() const { return static_cast<std::int32_t>(positions_.size()); }
  const std::vector<kernels::Chunk>& chunks() const { return chunks_; }
  std::int32_t max_keys() const { return max_keys_; }

  kernels::Batch batch() const {
    return {.rows = rows(),
            .chunk_count = static_cast<std::int32_t>(chunks_.size()),
            .max_chunk_rows = max_chunk_rows_,
            .max_keys = max_keys_,
            .tokens = nullptr,
            .positions = positions_.data(),
            .sequences = sequences_.data(),
            .chunks = chunks_.data(),
            .page_table = page_table_.data(),
            .page_table_stride = pages_per_sequence_};
  }

  kernels::KvPages pages() {
    return {.keys = keys_.data(),
            .values = values_.data(),
            .dtype = spec_.dtype,
            .kv_heads = spec_.kv_heads,
            .head_dim = spec_.head_dim,
            .page_size = spec_.page_size};
  }

  // Writes the seeded keys and values of positions [0, end) of every sequence, its own end.
  void fill(std::uint64_t seed) {
    for (const kernels::Chunk& chunk : chunks_)
      for (std::int32_t position = 0; position < chunk.first_position + chunk.rows; ++position)
        for (std::int32_t head = 0; head < spec_.kv_heads; ++head) fill_position(seed, chunk.sequence, position, head);
  }

  void set_key(std::int32_t sequence, std::int32_t position, std::int32_t head, std::int32_t d, float value) {
    const auto place = reference::find_place(pages(), batch(), sequence, position, head);
    reference::store_element(keys_.data(), spec_.dtype, place.key(d), value);
  }

  void set_value(std::int32_t sequence, std::int32_t position, std::int32_t head, std::int32_t d, float value) {
    const auto place = reference::find_place(pages(), batch(), sequence, position, head);
    reference::store_element(values_.data(), spec_.dtype, place.value(d), value);
  }

  // Every key and value that has a position, in order of positions; for comparing what was stored.
  std::vector<float> stored() {
    std::vector<float> all;
    for (const kernels::Chunk& chunk : chunks_)
      for (std::int32_t position = 0; position < chunk.first_position + chunk.rows; ++position)
        for (std::int32_t head = 0; head < spec_.kv_heads; ++head) {
          const auto place = reference::find_place(pages(), batch(), chunk.sequence, position, head);
          for (std::int32_t d = 0; d < spec_.head_dim; ++d) {
            all.push_back(reference::load_element(keys_.data(), spec_.dtype, place.key(d)));
            all.push_back(reference::load_element(values_.data(), spec_.dtype, place.value(d)));
          }
        }
    return all;
  }

 private:
  void make_pages() {
    constexpr std::int32_t kSparePages = 3;
    constexpr std::int32_t kNoPage = -1000000;  // whoever reads it runs into memory that is not there
    pages_per_sequence_ = (max_keys_ + spec_.page_size - 1) / spec_.page_size + 1;
    std::vector<std::int32_t> free(static_cast<std::size_t>(sequence_count_ * pages_per_sequence_ + kSparePages));
    std::iota(free.begin(), free.end(), 0);
    std::uint64_t state = spec_.page_seed;
    for (std::size_t i = free.size() - 1; i > 0; --i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      std::swap(free[i], free[(state >> 33) % (i + 1)]);
    }
    const auto elements = static_cast<std::size_t>(spec_.kv_heads * spec_.head_dim * spec_.page_size) * free.size();
    keys_.assign(elements * dtype_bytes(spec_.dtype), std::byte{0xff});
    values_ = keys_;
    page_table_.assign(static_cast<std::size_t>(sequence_count_ * pages_per_sequence_), kNoPage);
    for (const kernels::Chunk& chunk : chunks_)
      for (std::int32_t p = 0; p * spec_.page_size < chunk.first_position + chunk.rows; ++p) {
        std::int32_t& page = page_table_[static_cast<std::size_t>(chunk.sequence * pages_per_sequence_ + p)];
        if (page != kNoPage) continue;
        page = free.back();
        free.pop_back();
      }
  }

  void fill_position(std::uint64_t seed, std::int32_t sequence, std::int32_t position, std::int32_t head) {
    const auto place = reference::find_place(pages(), batch(), sequence, position, head);
    const std::uint64_t name = seed + static_cast<std::uint64_t>((sequence * 100000 + position) * 64 + head);
    const std::vector<float> elements = study::make_activations(name * 0x9e3779b97f4a7c15ULL, 2, spec_.head_dim);
    for (std::int32_t d = 0; d < spec_.head_dim; ++d) {
      reference::store_element(keys_.data(), spec_.dtype, place.key(d), elements[static_cast<std::size_t>(d)]);
      reference::store_element(values_.data(), spec_.dtype, place.value(d),
                               elements[static_cast<std::size_t>(spec_.head_dim + d)]);
    }
  }

  KvSpec spec_;
  std::vector<kernels::Chunk> chunks_;
  std::vector<std::int32_t> positions_;
  std::vector<std::int32_t> sequences_;
  std::vector<std::int32_t> page_table_;
  std::vector<std::byte> keys_;
  std::vector<std::byte> values_;
  std::int32_t max_chunk_rows_ = 0;
  std::int32_t sequence_count_ = 0;
  std::int32_t max_keys_ = 0;
  std::int32_t pages_per_sequence_ = 0;
};

}  // namespace reprofuse
