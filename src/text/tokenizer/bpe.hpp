// Byte-level byte pair encoding: the model of a tokenizer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace reprofuse::text {

class JsonNode;  // tokenizer_json.hpp

// How a vocabulary spells bytes: each as one printable character. Printable ASCII and Latin-1 stand for themselves, the
// other bytes for U+0100 and up: a space is U+0120.
std::string spell_bytes(std::string_view bytes);

// The bytes of a spelling, which is well-formed UTF-8. One with a character that stands for no byte is taken literally.
std::string bytes_of_spelling(std::string_view spelling);

// A pair of tokens that the encoding has learned to merge.
struct Merge {
  std::uint32_t rank;   // when it was learned: lower goes first
  std::int32_t merged;  // the token that takes the place of the pair
};

// A hash table with open addressing: encoding looks up one pair for every byte of text, and mostly finds none.
class MergeTable {
 public:
  // Room for this many pairs; called once, before add().
  void reserve(std::size_t pairs);

  // A pair given twice keeps its last rank. False where too many pairs want the same place, which happens to no file
  // that was not made for it.
  bool add(std::int32_t left, std::int32_t right, Merge merge);

  // Null when the pair does not merge.
  const Merge* find(std::int32_t left, std::int32_t right) const {
    if (slots_.empty()) return nullptr;
    const std::uint64_t key = key_of(left, right);
    std::size_t slot = home_of(key);
    for (std::size_t probe = 0; probe <= longest_probe_; ++probe, slot = (slot + 1) & (slots_.size() - 1)) {
      if (slots_[slot].key == key) return &slots_[slot].merge;
      if (slots_[slot].key == kEmpty) return nullptr;
    }
    return nullptr;
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

  std::size_t home_of(std::uint64_t key) const {
    std::uint64_t mixed = key * 0x9E3779B97F4A7C15U;
    mixed ^= mixed >> 32;
    return mixed & (slots_.size() - 1);
  }

  std::vector<Slot> slots_;        // a power of two, at most half of them taken
  std::size_t longest_probe_ = 0;  // how far from its home a pair is, at most
};

// Appends what is left of tokens when every pair that merges has been merged: in the order of rank, the leftmost first
// among equals. A queue of pairs over a linked list takes n log n time for n tokens, however long a word is.
// `poll`, if there is one, is called now and then.
void append_merged(std::span<const std::int32_t> tokens, const MergeTable& merges, std::vector<std::int32_t>& ids,
                   const std::function<void()>& poll = {});

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// Spelling to id. A vocabulary spells each byte as one printable character.
using Vocabulary = std::unordered_map<std::string, std::int32_t, StringHash, std::equal_to<>>;

// False when the spelling is there already. Rejects `list` when many spellings have one hash, which happens to no file
// that was not made for it.
bool insert_token(Vocabulary& vocabulary, const std::string& spelling, std::int32_t id, const JsonNode& list);

class Bpe {
 public:
  // Of "model" in tokenizer.json.
  explicit Bpe(const JsonNode& model);

  const Vocabulary& vocabulary() const { return vocabulary_; }

  // Appends the tokens of a piece: its bytes, merged pair by pair, the pair that was learned first before others, the
  // leftmost first among equals. Takes n log n time for n bytes.
  void encode(std::string_view piece, std::vector<std::int32_t>& ids, const std::function<void()>& poll) const;

  // A text has no fewer tokens than this: each of its bytes is at best in the longest token that has such a byte.
  std::size_t fewest_tokens(std::string_view text) const;

 private:
  void read_vocabulary(const JsonNode& vocab);
  void read_merges(const JsonNode& merges);
  void add_merge(std::string_view left, std::string_view right, std::uint32_t rank, const JsonNode& merges);
  std::int32_t id_of_merge_part(std::string_view spelling, std::uint32_t rank, const JsonNode& merges) const;

  std::string file_;
  Vocabulary vocabulary_;
  MergeTable merges_;
  std::array<std::int32_t, 256> byte_ids_;   // -1 for a byte that the vocabulary lacks
  std::array<std::uint64_t, 256> shares_{};  // of the longest token with such a byte: 2^32 is all of it
  bool whole_pieces_first_ = false;          // ignore_merges: a piece that is a token needs no merges
};

}  // namespace reprofuse::text
