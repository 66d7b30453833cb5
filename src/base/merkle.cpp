#include "base/merkle.hpp"

#include <utility>

namespace reprofuse {
namespace {

constexpr std::uint8_t kLeafPrefix = 0;
constexpr std::uint8_t kNodePrefix = 1;

// One level: pairs become nodes, and one that is left over goes up as it is, which gives the same tree.
void go_up(std::vector<Sha256::Digest>& level) {
  const std::size_t pairs = level.size() / 2;
  const bool odd = level.size() % 2 != 0;
  for (std::size_t i = 0; i < pairs; ++i) level[i] = merkle_node(level[2 * i], level[2 * i + 1]);
  if (odd) level[pairs] = level.back();
  level.resize(pairs + (odd ? 1 : 0));
}

}  // namespace

Sha256::Digest merkle_leaf(std::span<const std::uint8_t> data) {
  Sha256 hash;
  hash.update(&kLeafPrefix, 1);
  hash.update(data.data(), data.size());
  return hash.finish();
}

Sha256::Digest merkle_leaf(std::span<const float> values) {
  Sha256 hash;
  hash.update(&kLeafPrefix, 1);
  const auto count = static_cast<std::int64_t>(values.size());
  hash.update_values({.data = values.data(), .rows = 1, .cols = count, .stride = count});
  return hash.finish();
}

Sha256::Digest merkle_node(const Sha256::Digest& left, const Sha256::Digest& right) {
  Sha256 hash;
  hash.update(&kNodePrefix, 1);
  hash.update(left.data(), left.size());
  hash.update(right.data(), right.size());
  return hash.finish();
}

Sha256::Digest merkle_root(std::vector<Sha256::Digest> leaves) {
  if (leaves.empty()) return Sha256().finish();
  while (leaves.size() > 1) go_up(leaves);
  return leaves.front();
}

std::vector<std::vector<Sha256::Digest>> merkle_levels(std::vector<Sha256::Digest> leaves) {
  std::vector<std::vector<Sha256::Digest>> levels = {std::move(leaves)};
  while (levels.back().size() > 1) {
    std::vector<Sha256::Digest> next = levels.back();
    go_up(next);
    levels.push_back(std::move(next));
  }
  return levels;
}

std::vector<Sha256::Digest> merkle_path(const std::vector<std::vector<Sha256::Digest>>& levels, std::size_t index) {
  std::vector<Sha256::Digest> path;
  for (const std::vector<Sha256::Digest>& level : levels) {
    if (const std::size_t sibling = index ^ 1; sibling < level.size()) path.push_back(level[sibling]);
    index /= 2;
  }
  return path;
}

std::optional<Sha256::Digest> merkle_root_by(const Sha256::Digest& leaf, std::size_t index, std::size_t leaves,
                                             std::span<const Sha256::Digest> path) {
  if (index >= leaves) return std::nullopt;
  Sha256::Digest node = leaf;
  for (; leaves > 1; index /= 2, leaves = (leaves + 1) / 2) {
    if ((index ^ 1) >= leaves) continue;  // one that is left over
    if (path.empty()) return std::nullopt;
    node = index % 2 == 0 ? merkle_node(node, path.front()) : merkle_node(path.front(), node);
    path = path.subspan(1);
  }
  return path.empty() ? std::optional(node) : std::nullopt;
}

}  // namespace reprofuse
