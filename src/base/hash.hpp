// SHA-256 (FIPS 180-4), and Merkle trees over it.
// Our own, because a digest is needed on every architecture the bits are proved on, and a cross build under an emulator
// should need no library of the foreign architecture.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reprofuse/types.hpp"

namespace reprofuse {

// The compression function of SHA-256 over whole blocks of 64 bytes: in portable C++, and with the instructions that
// x86 has for it. Both give the same state.
using Sha256State = std::array<std::uint32_t, 8>;
using Sha256Blocks = void (*)(Sha256State& state, const std::uint8_t* blocks, std::size_t count);

void sha256_blocks_portable(Sha256State& state, const std::uint8_t* blocks, std::size_t count);

// Null where the processor or its architecture has no such instructions.
Sha256Blocks sha256_blocks_instructions();

class Sha256 {
 public:
  using Digest = std::array<std::uint8_t, 32>;

  void update(const void* data, std::size_t bytes);
  // The values in row-major order, each as its little-endian word whatever the machine's byte order; padding between
  // rows does not count.
  void update_values(ConstMatrix values);
  Digest finish();  // call once, last

 private:
  Sha256State state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, 64> buffer_ = {};  // the start of a block not yet complete
  std::uint64_t bytes_ = 0;
};

std::string to_hex(const Sha256::Digest& digest);

// Of the values as update_values() takes them.
std::string sha256_hex(ConstMatrix values);

// Merkle trees over SHA-256, as RFC 6962 (Certificate Transparency) defines them.

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
