// What a tokenizer.json holds, once understood.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/bpe.hpp"
#include "text/tokenizer/pretokenizer.hpp"
#include "text/tokenizer/tokenizer_json.hpp"

namespace reprofuse::text {

// Added tokens: strings that are tokens wherever they stand in a text, whatever surrounds them.
struct AddedToken {
  std::int32_t id;
  std::string content;
  bool special;     // skipped when decoding, if asked
  bool normalized;  // looked for in the normalised text rather than in the text as given
  bool strip_left;  // swallows the white space before it, or after it
  bool strip_right;
};

// Of "added_tokens" in tokenizer.json.
std::vector<AddedToken> read_added_tokens(const JsonNode& added_tokens);

// A part of a text: an added token, or what lies between two.
struct Segment {
  std::string_view text;
  std::optional<std::int32_t> id;
};

// Finds tokens in a text from left to right: at each place the longest, and none inside another.
class AddedTokenFinder {
 public:
  // Each token under the string to look for: its content, or what normalisation makes of it.
  void add(const std::string& string, const AddedToken& token);

  // Of well-formed UTF-8. Without segments that are empty.
  std::vector<Segment> split(std::string_view text) const;

 private:
  struct Node {
    std::map<char, std::uint32_t> children;
    std::optional<std::size_t> token;
  };

  // The longest token that starts at an offset: its index, and where it ends.
  struct Match {
    std::size_t token, end;
  };
  std::optional<Match> match_at(std::string_view text, std::size_t offset) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::array<bool, 256> starts_token_{};
};

struct Token {
  std::string bytes;  // empty where no token has the id
  bool special = false;
};

struct TokenizerParts {
  std::string name;  // of the file
  bool normalize_nfc;
  PreTokenizer pre_tokenizer;
  Bpe bpe;
  Vocabulary added_ids = {};              // the content of each added token
  AddedTokenFinder verbatim = {};         // added tokens to look for before normalisation,
  AddedTokenFinder normalized = {};       // and after
  bool has_template = false;              // post_processor says what goes around a text, be it nothing
  std::vector<std::int32_t> before = {};  // special tokens that go before a text,
  std::vector<std::int32_t> after = {};   // and after
  std::vector<Token> tokens = {};         // by id
  std::size_t longest_token_bytes = 0;
};

// Fails where anything in the document is not understood.
TokenizerParts read_tokenizer(std::string_view json, const std::string& name);

}  // namespace reprofuse::text
