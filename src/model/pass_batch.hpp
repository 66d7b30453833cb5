// The chunks of a pass laid out in host memory: what rank 0 makes of them, copies to its device, and sends to the
// others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/op_calls.hpp"
#include "model/exchange.hpp"

namespace reprofuse::model {

struct PassBatch {
  std::vector<std::int32_t> tokens, positions, sequences, logit_rows, page_table;
  std::vector<kernels::Chunk> chunks;
  std::int32_t max_chunk_rows = 0;
  std::int32_t max_keys = 0;
  std::int32_t page_table_stride = 0;  // entries per sequence

  bool is_decode() const { return max_chunk_rows == 1 && logit_rows.size() == tokens.size(); }

  std::vector<std::int32_t> to_words() const;
  static PassBatch from_words(std::span<const std::int32_t> words);
};

// The tokens by the ranks that own their rows of the embedding: TokenOwners (model.hpp), in host memory.
struct HostTokenOwners {
  HostTokenOwners(const Exchange& exchange, std::span<const std::int32_t> tokens);
  std::vector<std::int64_t> counts;
  std::vector<std::int32_t> own_tokens, places;
};

}  // namespace reprofuse::model
