// One digest for all the logits of an answer.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "base/sha256.hpp"

namespace reprofuse::model {

// SHA-256 chain over rows of logits: digest i is the hash of digest i - 1 (32 zero bytes before the first) followed by
// row i as little-endian words.
class LogitsDigest {
 public:
  void add(std::span<const float> row) {
    Sha256 hash;
    hash.update(chain_.data(), chain_.size());
    const auto columns = static_cast<std::int64_t>(row.size());
    hash.update_values({.data = row.data(), .rows = 1, .cols = columns, .stride = columns});
    chain_ = hash.finish();
  }
  std::string hex() const { return to_hex(chain_); }

 private:
  std::array<std::uint8_t, 32> chain_{};
};

}  // namespace reprofuse::model
