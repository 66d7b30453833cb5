// The part of a model that one rank computes. A rank owns outputs and computes each over all of its inputs, so the
// order of every sum is that of one rank alone.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/config.hpp"

namespace reprofuse::model {

struct Range {
  std::int64_t first = 0;
  std::int64_t count = 0;

  std::int64_t end() const { return first + count; }
  Range times(std::int64_t unit) const { return {first * unit, count * unit}; }
  bool operator==(const Range&) const = default;
};

// Part number `part` of `parts`: as even as possible, the larger ones first.
Range part_of(std::int64_t total, int part, int parts);

struct Share {
  int ranks = 1;
  Range heads;         // of queries
  Range kv_heads;      // that these look at; of several ranks where there are more ranks than such heads
  Range hidden;        // outputs of o_proj and down_proj
  Range intermediate;  // outputs of gate_proj and up_proj
  Range vocabulary;    // rows of the embedding and of the head
};

// Throws kUnsupported, saying how many ranks are possible, where some would have nothing.
void require_ranks(const checkpoint::ModelConfig& config, int ranks);
Share share_of(const checkpoint::ModelConfig& config, int rank, int ranks);
std::vector<Share> shares_of(const checkpoint::ModelConfig& config, int ranks);

}  // namespace reprofuse::model
