// How far the attention of each numerics is from binary64.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "reprofuse/context.hpp"
#include "study/bench/error.hpp"

namespace reprofuse::study {

// Seeded queries, keys and values of one head of 128: what they stand for, and how many keys.
struct AttentionOperands {
  std::string name;
  std::int64_t keys;
};

struct AttentionErrorRow {
  AttentionOperands operands;
  double bf16;                        // queries, keys, values and probabilities rounded to BF16, sums exact
  std::vector<RelativeError> errors;  // in the order of the contexts; a row is a query
};
using OnAttentionErrorRow = std::function<void(const AttentionErrorRow&)>;

// 16 queries each. The contexts' memory is the host's.
void bench_attention_errors(std::span<const Context> contexts, const OnAttentionErrorRow& report);

}  // namespace reprofuse::study
