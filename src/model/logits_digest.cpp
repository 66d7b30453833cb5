#include "model/logits_digest.hpp"

#include <algorithm>

namespace reprofuse::model {
namespace {

constexpr std::uint8_t kStepPrefix = 2;  // those of a tree's leaves and nodes are 0 and 1

}  // namespace

void LogitsDigest::add_row(std::span<const float> row) {
  Sha256 hash;
  hash.update(chain_.data(), chain_.size());
  const auto columns = static_cast<std::int64_t>(row.size());
  hash.update_values({.data = row.data(), .rows = 1, .cols = columns, .stride = columns});
  chain_ = hash.finish();
  has_rows_ = true;
}

void LogitsDigest::add_root(const std::uint8_t (&root)[32]) {
  std::uint8_t step[1 + sizeof(chain_) + sizeof(root)] = {kStepPrefix};
  std::ranges::copy(chain_, step + 1);
  std::ranges::copy(root, step + 1 + chain_.size());
  Sha256 hash;
  hash.update(step, sizeof(step));
  chain_ = hash.finish();
  has_rows_ = true;
}

std::string LogitsDigest::text() const {
  if (!has_rows_) return {};
  return kind_ == DigestKind::kTree1 ? "tree-1:" + to_hex(chain_) : to_hex(chain_);
}

}  // namespace reprofuse::model
