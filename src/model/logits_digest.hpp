// One digest for all the logits of an answer: a chain of SHA-256 over its rows.
#pragma once

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
  void add_row(std::span<const float> row);
  // tree-1: the hash of the byte 2, the digest before, then the Merkle root of the row.
  void add_root(const std::uint8_t (&root)[32]);

  // "tree-1:" and hex digits; of chain-1 these alone. Empty before the first row: nothing was computed, and a digest of
  // nothing would be equal to any other.
  std::string text() const;

 private:
  DigestKind kind_;
  Sha256::Digest chain_{};
  bool has_rows_ = false;
};

}  // namespace reprofuse::model
