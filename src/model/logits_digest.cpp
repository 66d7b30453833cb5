#include "model/logits_digest.hpp"

#include "base/sha256.hpp"

namespace reprofuse::model {

void LogitsDigest::add(std::span<const float> row) {
  Sha256 hash;
  hash.update(chain_.data(), chain_.size());
  const auto columns = static_cast<std::int64_t>(row.size());
  hash.update_values({.data = row.data(), .rows = 1, .cols = columns, .stride = columns});
  chain_ = hash.finish();
}

std::string LogitsDigest::hex() const {
  return to_hex(chain_);
}

}  // namespace reprofuse::model
