// What flows through a forward pass, one row per token. Sized once for the largest pass.
#pragma once

#include <cstdint>

#include "checkpoint/config.hpp"
#include "ops/buffer.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::model {

class Activations {
 public:
  Activations(const Context& context, const checkpoint::ModelConfig& config, std::int64_t max_rows,
              std::int64_t max_logit_rows)
      : config_(config),
        residual_(context, bytes(max_rows * config.hidden_size)),
        normed_(context, bytes(max_rows * config.hidden_size)),
        qkv_(context, bytes(max_rows * (config.q_size() + 2 * config.kv_size()))),
        attended_(context, bytes(max_rows * config.q_size())),
        delta_(context, bytes(max_rows * config.hidden_size)),
        gate_up_(context, bytes(max_rows * 2 * config.intermediate_size)),
        last_(context, bytes(max_logit_rows * config.hidden_size)),
        logits_(context, bytes(max_logit_rows * config.vocab_size)) {}

  Matrix residual(std::int64_t rows) const { return dense(residual_, rows, config_.hidden_size); }
  Matrix normed(std::int64_t rows) const { return dense(normed_, rows, config_.hidden_size); }
  Matrix delta(std::int64_t rows) const { return dense(delta_, rows, config_.hidden_size); }  // what a sub-layer adds
  Matrix attended(std::int64_t rows) const { return dense(attended_, rows, config_.q_size()); }
  Matrix last(std::int64_t rows) const { return dense(last_, rows, config_.hidden_size); }  // rows that get logits
  Matrix logits(std::int64_t rows) const { return dense(logits_, rows, config_.vocab_size); }

  // Columns of one [rows, q_size + 2 kv_size] matrix.
  Matrix q(std::int64_t rows) const { return columns(qkv_, rows, 0, config_.q_size(), qkv_width()); }
  Matrix k(std::int64_t rows) const { return columns(qkv_, rows, config_.q_size(), config_.kv_size(), qkv_width()); }
  Matrix v(std::int64_t rows) const {
    return columns(qkv_, rows, config_.q_size() + config_.kv_size(), config_.kv_size(), qkv_width());
  }
  Matrix qkv(std::int64_t rows) const { return dense(qkv_, rows, qkv_width()); }
  // Columns of one [rows, 2 intermediate_size] matrix. silu(gate) * up takes the place of gate.
  Matrix gate(std::int64_t rows) const {
    return columns(gate_up_, rows, 0, config_.intermediate_size, 2 * config_.intermediate_size);
  }
  Matrix up(std::int64_t rows) const {
    return columns(gate_up_, rows, config_.intermediate_size, config_.intermediate_size, 2 * config_.intermediate_size);
  }
  Matrix gate_up(std::int64_t rows) const { return dense(gate_up_, rows, 2 * config_.intermediate_size); }

 private:
  static std::size_t bytes(std::int64_t elements) { return static_cast<std::size_t>(elements) * sizeof(float); }
  static Matrix columns(const Buffer& buffer, std::int64_t rows, std::int64_t first, std::int64_t cols,
                        std::int64_t stride) {
    return {.data = buffer.as<float>() + first, .rows = rows, .cols = cols, .stride = stride};
  }
  static Matrix dense(const Buffer& buffer, std::int64_t rows, std::int64_t cols) {
    return columns(buffer, rows, 0, cols, cols);
  }
  std::int64_t qkv_width() const { return config_.q_size() + 2 * config_.kv_size(); }

  checkpoint::ModelConfig config_;
  Buffer residual_, normed_, qkv_, attended_, delta_, gate_up_, last_, logits_;
};

}  // namespace reprofuse::model
