// What a tokenizer.json holds, once understood.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/added_tokens.hpp"
#include "text/tokenizer/bpe.hpp"
#include "text/tokenizer/pretokenizer.hpp"
#include "text/tokenizer/tokenizer_json.hpp"

namespace reprofuse::text {

struct Token {
  std::string bytes;  // empty where no token has the id
  bool special = false;
  bool is_control = false;  // added, and not of white space alone: plain text must not become it
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
};

// Fails where anything in the document is not understood.
TokenizerParts read_tokenizer(std::string_view json, const std::string& name);

}  // namespace reprofuse::text
