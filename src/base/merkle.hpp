// Merkle trees over SHA-256, as RFC 6962 (Certificate Transparency) defines them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/sha256.hpp"

namespace reprofuse {

// SHA-256 of the byte 0, then the data.
Sha256::Digest merkle_leaf(std::span<const std::uint8_t> data);
Sha256::Digest merkle_leaf(std::span<const float> values);  // as little-endian words

// SHA-256 of the byte 1, then the hashes of the two children.
Sha256::Digest merkle_node(const Sha256::Digest& left, const Sha256::Digest& right);

// The left subtree of n leaves has as many as the largest power of two below n. One leaf is its own root;
// of no leaf it is the hash of nothing.
Sha256::Digest merkle_root(std::vector<Sha256::Digest> leaves);

// The levels of a tree, from the leaves up to the root.
std::vector<std::vector<Sha256::Digest>> merkle_levels(std::vector<Sha256::Digest> leaves);
// The audit path of a leaf (RFC 6962, 2.1.1): what it takes, from the leaf up, to compute the root again.
std::vector<Sha256::Digest> merkle_path(const std::vector<std::vector<Sha256::Digest>>& levels, std::size_t index);
// The root that a leaf at this place among so many has by its path; none: the path has another length.
std::optional<Sha256::Digest> merkle_root_by(const Sha256::Digest& leaf, std::size_t index, std::size_t leaves,
                                             std::span<const Sha256::Digest> path);

}  // namespace reprofuse
