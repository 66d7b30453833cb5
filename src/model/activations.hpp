// What flows through a forward pass.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "checkpoint/config.hpp"
#include "model/team.hpp"
#include "ops/buffer.hpp"
#include "reprofuse/context.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::model {

// One row per token. Sized once for the largest pass.
class Activations {
 public:
  Activations(const Context& context, const checkpoint::ModelConfig& config, const Share& share, bool is_alone,
              std::int64_t max_rows, std::int64_t max_logit_rows)
      : config_(config),
        share_(share),
        is_alone_(is_alone),
        residual_(context, bytes(max_rows * config.hidden_size)),
        normed_(context, bytes(max_rows * config.hidden_size)),
        qkv_(context, bytes(max_rows * qkv_width())),
        attended_(context, bytes(max_rows * config.q_size())),
        delta_(context, bytes(max_rows * config.hidden_size)),
        gate_up_(context, bytes(max_rows * 2 * share.intermediate.count)),
        logit_inputs_(context, bytes(max_logit_rows * config.hidden_size)),
        logits_(context, bytes(max_logit_rows * config.vocab_size)) {
    if (is_alone) return;
    const std::int64_t widest = std::max({config.q_size(), config.hidden_size, config.intermediate_size});
    product_ = Buffer(context, bytes(max_rows * config.intermediate_size));
    gathered_ = Buffer(context, bytes(std::max(max_rows * widest, max_logit_rows * config.vocab_size)));
    std::vector<std::int32_t> rows(static_cast<std::size_t>(std::max(max_rows, max_logit_rows)));
    std::iota(rows.begin(), rows.end(), 0);
    every_row_ = Buffer(context, rows.size() * sizeof(std::int32_t));
    copy_to_device(context, every_row_.as<void>(), rows.data(), every_row_.bytes());
  }

  // Whole rows: every rank has all of their columns.
  Matrix residual(std::int64_t rows) const { return dense(residual_, rows, config_.hidden_size); }
  Matrix normed(std::int64_t rows) const { return dense(normed_, rows, config_.hidden_size); }
  Matrix delta(std::int64_t rows) const { return dense(delta_, rows, config_.hidden_size); }  // what a sub-layer adds
  Matrix attended(std::int64_t rows) const { return dense(attended_, rows, config_.q_size()); }
  // silu(gate) * up, in the place of gate where one rank is alone.
  Matrix product(std::int64_t rows) const {
    return is_alone_ ? gate(rows) : dense(product_, rows, config_.intermediate_size);
  }
  // Of the rows that get logits.
  Matrix logit_inputs(std::int64_t rows) const { return dense(logit_inputs_, rows, config_.hidden_size); }
  Matrix logits(std::int64_t rows) const { return dense(logits_, rows, config_.vocab_size); }

  // The columns that this rank computes. Columns of one [rows, q, k and v] matrix:
  Matrix q(std::int64_t rows) const { return columns(qkv_, rows, 0, q_width(), qkv_width()); }
  Matrix k(std::int64_t rows) const { return columns(qkv_, rows, q_width(), kv_width(), qkv_width()); }
  Matrix v(std::int64_t rows) const { return columns(qkv_, rows, q_width() + kv_width(), kv_width(), qkv_width()); }
  // Columns of one [rows, gate and up] matrix.
  Matrix gate(std::int64_t rows) const {
    return columns(gate_up_, rows, 0, share_.intermediate.count, 2 * share_.intermediate.count);
  }
  Matrix up(std::int64_t rows) const {
    return columns(gate_up_, rows, share_.intermediate.count, share_.intermediate.count, 2 * share_.intermediate.count);
  }

  // Where a rank writes its columns of whole rows before they are gathered: those of the ranks lie back to back, so one
  // row is whole as soon as all are there.
  Matrix own_columns(Matrix whole, Range own) const {
    if (is_alone_) return whole;
    float* all = whole.rows == 1 ? whole.data : gathered();
    return {.data = all + whole.rows * own.first, .rows = whole.rows, .cols = own.count, .stride = own.count};
  }
  float* gathered() const { return gathered_.as<float>(); }
  const std::int32_t* every_row() const { return every_row_.as<std::int32_t>(); }  // 0, 1, 2, ...

 private:
  static std::size_t bytes(std::int64_t elements) { return static_cast<std::size_t>(elements) * sizeof(float); }
  static Matrix columns(const Buffer& buffer, std::int64_t rows, std::int64_t first, std::int64_t cols,
                        std::int64_t stride) {
    return {.data = buffer.as<float>() + first, .rows = rows, .cols = cols, .stride = stride};
  }
  static Matrix dense(const Buffer& buffer, std::int64_t rows, std::int64_t cols) {
    return columns(buffer, rows, 0, cols, cols);
  }
  std::int64_t q_width() const { return share_.heads.count * config_.head_dim; }
  std::int64_t kv_width() const { return share_.kv_heads.count * config_.head_dim; }
  std::int64_t qkv_width() const { return q_width() + 2 * kv_width(); }

  checkpoint::ModelConfig config_;
  Share share_;
  bool is_alone_;  // one rank, which exchanges nothing
  Buffer residual_, normed_, qkv_, attended_, delta_, gate_up_, logit_inputs_, logits_;
  Buffer product_, gathered_, every_row_;  // of a team
};

}  // namespace reprofuse::model
