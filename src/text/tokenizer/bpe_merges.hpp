// The merges that a byte pair encoding has learned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprofuse::text {

struct Merge {
  std::uint32_t rank;   // when it was learned: lower goes first
  std::int32_t merged;  // the token that takes the place of the pair
};

// A hash table with open addressing: encoding looks up one pair for every byte of text, and mostly finds none.
class MergeTable {
 public:
  // Room for this many pairs; called once, before add().
  void reserve(std::size_t pairs);

  // A pair given twice keeps its last rank.
  void add(std::int32_t left, std::int32_t right, Merge merge);

  // Null when the pair does not merge.
  const Merge* find(std::int32_t left, std::int32_t right) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[slot_of(key_of(left, right))];
    return slot.key == kEmpty ? nullptr : &slot.merge;
  }

 private:
  struct Slot {
    std::uint64_t key;
    Merge merge;
  };
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};  // no pair: ids are not negative

  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  }

  // The slot with this key, or the empty one where it belongs.
  std::size_t slot_of(std::uint64_t key) const {
    std::uint64_t mixed = key * 0x9E3779B97F4A7C15U;
    mixed ^= mixed >> 32;
    std::size_t slot = mixed & (slots_.size() - 1);
    while (slots_[slot].key != key && slots_[slot].key != kEmpty) slot = (slot + 1) & (slots_.size() - 1);
    return slot;
  }

  std::vector<Slot> slots_;  // a power of two, at most half of them taken
};

// Appends what is left of tokens when every pair that merges has been merged: in the order of rank, the leftmost first
// among equals. A queue of pairs over a linked list takes n log n time for n tokens, however long a word is.
void append_merged(std::span<const std::int32_t> tokens, const MergeTable& merges, std::vector<std::int32_t>& ids);

}  // namespace reprofuse::text
