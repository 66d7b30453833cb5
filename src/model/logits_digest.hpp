// One digest for all the logits of an answer: a chain of SHA-256 over its rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "base/hash.hpp"
#include "reprofuse/answer.hpp"

namespace reprofuse::model {

class LogitsDigest {
 public:
  explicit LogitsDigest(DigestKind kind) : kind_(kind) {}

  // chain-1: the hash of the digest before, then the row as little-endian words.
  void add_row(std::span<const float> row) {
    Sha256 hash;
    hash.update(chain_.data(), chain_.size());
    const auto columns = static_cast<std::int64_t>(row.size());
    hash.update_values({.data = row.data(), .rows = 1, .cols = columns, .stride = columns});
    chain_ = hash.finish();
    has_rows_ = true;
  }

  // tree-1: the hash of the byte 2, the digest before, then the Merkle root of the row. The bytes before a tree's
  // leaves and nodes are 0 and 1.
  void add_root(const std::uint8_t (&root)[32]) {
    std::uint8_t step[1 + sizeof(chain_) + sizeof(root)] = {2};
    std::ranges::copy(chain_, step + 1);
    std::ranges::copy(root, step + 1 + chain_.size());
    Sha256 hash;
    hash.update(step, sizeof(step));
    chain_ = hash.finish();
    has_rows_ = true;
  }

  // "tree-1:" and hex digits; of chain-1 these alone. Empty before the first row: nothing was computed, and a digest of
  // nothing would be equal to any other.
  std::string text() const {
    if (!has_rows_) return {};
    return kind_ == DigestKind::kTree1 ? "tree-1:" + to_hex(chain_) : to_hex(chain_);
  }

 private:
  DigestKind kind_;
  Sha256::Digest chain_{};
  bool has_rows_ = false;
};

}  // namespace reprofuse::model
