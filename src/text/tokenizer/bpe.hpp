// Byte-level byte pair encoding: the model of a tokenizer.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer/bpe_merges.hpp"
#include "text/tokenizer/tokenizer_json.hpp"

namespace reprofuse::text {

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// Spelling to id. A vocabulary spells each byte as one printable character (bpe_alphabet.hpp).
using Vocabulary = std::unordered_map<std::string, std::int32_t, StringHash, std::equal_to<>>;

class Bpe {
 public:
  // Of "model" in tokenizer.json.
  explicit Bpe(const JsonNode& model);

  const Vocabulary& vocabulary() const { return vocabulary_; }

  // Appends the tokens of a piece: its bytes, merged pair by pair, the pair that was learned first before others, the
  // leftmost first among equals. Takes n log n time for n bytes.
  void encode(std::string_view piece, std::vector<std::int32_t>& ids) const;

 private:
  void read_vocabulary(const JsonNode& vocab);
  void read_merges(const JsonNode& merges);
  void add_merge(std::string_view left, std::string_view right, std::uint32_t rank, const JsonNode& merges);
  std::int32_t id_of_merge_part(std::string_view spelling, std::uint32_t rank, const JsonNode& merges) const;

  std::string file_;
  Vocabulary vocabulary_;
  MergeTable merges_;
  std::array<std::int32_t, 256> byte_ids_;  // -1 for a byte that the vocabulary lacks
  bool whole_pieces_first_ = false;         // ignore_merges: a piece that is a token needs no merges
};

}  // namespace reprofuse::text
