// The stages that a text goes through on its way to tokens, as tokenizer.json describes them: added tokens, the
// pre-tokenizer and the byte pairs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "reprofuse/tokenizer.hpp"

struct pcre2_real_code_8;
struct pcre2_real_match_context_8;
struct pcre2_real_match_data_8;

namespace reprofuse::text {

class JsonNode;  // tokenizer_json.hpp

// Added tokens: strings that are tokens wherever they stand in a text, whatever surrounds them.

struct AddedToken {
  std::int32_t id;
  std::string content;
  bool special;     // skipped when decoding, if asked
  bool normalized;  // looked for in the normalized text rather than in the text as given
  bool strip_left;  // swallows the white space before it, or after it
  bool strip_right;
  bool white_space;  // nothing but: it stands for text, and forges nothing
};

// Of "added_tokens" in tokenizer.json.
std::vector<AddedToken> read_added_tokens(const JsonNode& added_tokens);

// A part of a text: an added token, or what lies between two.
struct Segment {
  std::string_view text;
  std::optional<std::int32_t> id;
};

// Finds tokens in a text from left to right: at each place the longest, and none inside another. Aho and Corasick's
// automaton, run backwards: what ends a token from that side is where it begins, so time is linear in the text.
class AddedTokenFinder {
 public:
  // Each token under the string to look for: its content, or what normalization makes of it.
  void add(const std::string& string, const AddedToken& token);
  // After the last add().
  void finish();

  bool finds_more_than_white_space() const;

  // The segments of well-formed UTF-8, none empty, in order. No token but one of white space has a byte of the plain
  // parts, which are ascending and apart. As in Hugging Face's tokenizers, a token of white space that stands where the
  // token before has swallowed it is found nevertheless.
  void split(std::string_view text, std::span<const TextSpan> plain,
             const std::function<void(const Segment&)>& visit) const;

 private:
  struct Node {
    std::uint32_t suffix = 0;       // the longest other node that this one's string ends with
    std::uint32_t shorter = 0;      // the longest one among those that is a token; 0: none
    std::uint32_t white_space = 0;  // the longest that is a token of white space, itself included
    std::uint32_t length = 0;
    std::optional<std::uint32_t> token = {};
  };
  struct Hit {
    std::size_t begin;
    std::uint32_t node;  // of the longest token that begins here
  };

  std::uint32_t child(std::uint32_t node, char byte) const;  // 0: none
  std::uint32_t next(std::uint32_t node, char byte) const;
  std::vector<Hit> hits_in(std::string_view text, std::size_t begin, std::size_t end) const;
  const Node* longest_allowed(const Hit& hit, std::span<const TextSpan> plain) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_ = std::vector<Node>(1);             // of the strings' ends: node 0 is the empty one
  std::unordered_map<std::uint64_t, std::uint32_t> children_;  // by node and byte
  std::array<std::uint32_t, 256> first_{};                     // children of node 0
  std::size_t longest_ = 0;
};

// Cutting text into the pieces that are encoded one by one, by the regular expressions of tokenizer.json, which are
// Oniguruma's, run by PCRE2 in bounded time.

// Rewrites a pattern of Oniguruma's Ruby syntax, in which tokenizer.json is written, into one that PCRE2 understands
// the same way: \s becomes the property White_Space (PCRE2's own \s has U+180E too), \p{Han} the script and not its
// extensions. Knows what tokenizers use; for anything else it fails and says what. place is for the message.
std::string to_pcre2(std::string_view oniguruma, const std::string& place);

// Takes one part of a text after the other, none of them empty.
using PieceVisitor = std::function<void(std::string_view piece)>;

// What is a letter or a number is for the Unicode version of the linked PCRE2 to say: version 14 for PCRE2 10.42.
class Pattern {
 public:
  // What matching needs to write to, and how much work is left: one for each text, for any number of patterns.
  class Scratch {
   public:
    Scratch();

   private:
    friend class Pattern;
    std::unique_ptr<pcre2_real_match_data_8, void (*)(pcre2_real_match_data_8*)> data_;
    std::unique_ptr<pcre2_real_match_context_8, void (*)(pcre2_real_match_context_8*)> limits_;
    std::uint64_t work_left_;
  };

  Pattern(std::string_view oniguruma, std::string place);

  // Cuts well-formed UTF-8 into matches and what lies between them. Time is linear in the text: fails when the pattern
  // takes more steps or memory than matching so much text can need.
  void split(std::string_view text, Scratch& scratch, const PieceVisitor& visit) const;

 private:
  struct Match {
    std::size_t begin, end;
  };

  // The first match that begins at `start` or after it.
  std::optional<Match> find(std::string_view text, std::size_t start, Scratch& scratch) const;

  std::string place_;
  std::shared_ptr<pcre2_real_code_8> code_;  // never written to once compiled
};

// Of "pre_tokenizer" in tokenizer.json: "ByteLevel", or a "Sequence" of "Split" and "Digits" that ends in "ByteLevel".
class PreTokenizer {
 public:
  explicit PreTokenizer(const JsonNode& pre_tokenizer);

  // Of well-formed UTF-8: each piece as soon as it is known.
  void split(std::string_view text, Pattern::Scratch& scratch, const PieceVisitor& visit) const;

 private:
  void add_step(const JsonNode& step);
  void add_byte_level(const JsonNode& step);
  void split_from(std::size_t step, std::string_view text, Pattern::Scratch& scratch, const PieceVisitor& visit) const;

  std::vector<Pattern> patterns_;  // each cuts the pieces of the one before
  std::size_t prefix_step_ = 0;    // before which pattern each piece gets its space, where it has none
  bool add_prefix_space_ = false;
  bool complete_ = false;  // "ByteLevel" has been read, after which nothing may come
};

// Byte-level byte pair encoding: the model of a tokenizer.

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
  std::array<std::int32_t, 256> byte_ids_;      // -1 for a byte that the vocabulary lacks
  std::array<std::uint64_t, 256> fractions_{};  // of the longest token with such a byte: 2^32 is all of it
  bool whole_pieces_first_ = false;             // ignore_merges: a piece that is a token needs no merges
};

}  // namespace reprofuse::text
