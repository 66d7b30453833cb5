// One digest for all the logits of an answer.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace reprofuse::model {

// SHA-256 chain over rows of logits: digest i is the hash of digest i - 1 (32 zero bytes before the first) followed by
// row i as little-endian words.
class LogitsDigest {
 public:
  void add(std::span<const float> row);
  std::string hex() const;

 private:
  std::array<std::uint8_t, 32> chain_{};
};

}  // namespace reprofuse::model
