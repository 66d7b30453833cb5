// Added tokens: strings that are tokens wherever they stand in a text, whatever surrounds them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "reprofuse/tokenizer.hpp"

namespace reprofuse::text {

class JsonNode;  // tokenizer_json.hpp

struct AddedToken {
  std::int32_t id;
  std::string content;
  bool special;     // skipped when decoding, if asked
  bool normalized;  // looked for in the normalised text rather than in the text as given
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
  // Each token under the string to look for: its content, or what normalisation makes of it.
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

}  // namespace reprofuse::text
