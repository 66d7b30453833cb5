// Transformer operations drawn from fuzz input: shapes, pages, chunks, windows, threads and bit patterns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/op_calls.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::fuzz {

struct Shape {
  std::int32_t kv_heads;
  std::int32_t group;
  std::int32_t head_dim;
  std::int32_t page_size;
  std::int32_t window;
  DType dtype;
  bool norm;
  int threads;
  std::vector<kernels::Chunk> chunks;

  std::string description() const;  // every parameter, for the report of a difference
};

// What the operations read and write: copied for every implementation.
struct State {
  std::vector<float> q, k, v, out, gate;
  std::vector<std::byte> keys, values;
  std::optional<kernels::NonFinite> failure;
};

struct ModelOpsCase {
  Shape shape{};
  std::vector<std::int32_t> positions, sequences, page_table;
  std::int32_t pages_per_sequence = 0;
  std::int32_t max_keys = 0;
  std::vector<float> norms, weights, angles;
  State start;

  std::int64_t q_cols() const { return std::int64_t{shape.kv_heads} * shape.group * shape.head_dim; }
  std::int64_t k_cols() const { return std::int64_t{shape.kv_heads} * shape.head_dim; }
  std::int64_t rows() const { return static_cast<std::int64_t>(positions.size()); }

  // The calls of the operations, in the order they run; each writes into the state.
  kernels::RotaryCall rotary(State& state) const;
  kernels::AttentionCall attention(State& state) const;
  kernels::SiluGateCall silu_gate(State& state) const;
  kernels::RmsNormCall rms_norm(State& state) const;

 private:
  kernels::Batch batch() const;
  kernels::KvPages pages(State& state) const;
};

ModelOpsCase draw_model_ops_case(std::span<const std::uint8_t> input);

}  // namespace reprofuse::fuzz
