#include "base/merkle.hpp"

namespace reprofuse {
namespace {

constexpr std::uint8_t kLeafPrefix = 0;
constexpr std::uint8_t kNodePrefix = 1;

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

// Level by level: pairs become nodes, and one that is left over goes up as it is, which gives the same tree.
Sha256::Digest merkle_root(std::vector<Sha256::Digest> leaves) {
  while (leaves.size() > 1) {
    const std::size_t pairs = leaves.size() / 2;
    const bool odd = leaves.size() % 2 != 0;
    for (std::size_t i = 0; i < pairs; ++i) leaves[i] = merkle_node(leaves[2 * i], leaves[2 * i + 1]);
    if (odd) leaves[pairs] = leaves.back();
    leaves.resize(pairs + (odd ? 1 : 0));
  }
  return leaves.front();
}

}  // namespace reprofuse
