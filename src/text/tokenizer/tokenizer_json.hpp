// Strict reading of tokenizer.json: every complaint names the file, the key and the value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "text/tokenizer/stages.hpp"

namespace reprofuse::text {

// A JSON value and where it stands. It refers to a document that must outlive it. Not a JsonReader, which reads one
// object: lists within lists are steps here, and a message tells the whole way to a value.
class JsonNode {
 public:
  JsonNode(const nlohmann::json& value, std::string file, std::string key = "")
      : value_(&value), file_(std::move(file)), key_(std::move(key)) {}

  const nlohmann::json& value() const { return *value_; }
  const std::string& file() const { return file_; }
  std::string place() const { return fmt::format("{}: {}", file_, key_); }

  // "tokenizer.json: model.type 'WordPiece' <reason>".
  [[noreturn]] void reject(std::string_view reason) const;

  // Nothing when the key is missing or null; node() fails then.
  std::optional<JsonNode> find(std::string_view key) const;
  JsonNode node(std::string_view key) const;
  // Of an array of at most so many, the second way one after the other.
  std::vector<JsonNode> elements(std::size_t max) const;
  void for_each(std::size_t max, const std::function<void(const JsonNode&)>& visit) const;

  // What a node of type "Sequence" has under this key, or the node itself when it is of another type. A sequence in a
  // sequence stays as it is, and no reader takes it.
  std::vector<JsonNode> steps(std::string_view key) const;

  std::string string() const;
  bool boolean() const;
  std::int32_t token_id() const;
  bool boolean_or(std::string_view key, bool fallback) const;

  // Fails unless "type" is this one. Comes before any other key: those of another type would take the blame.
  void require_type(std::string_view supported) const;

  // Fails unless this is an object with no keys but these, so that no setting is passed over.
  void require_keys_among(std::initializer_list<std::string_view> keys) const;

 private:
  JsonNode member(std::string_view key, const nlohmann::json& value) const;

  const nlohmann::json* value_;
  std::string file_;
  std::string key_;  // "model.merges", or empty for the document itself
};

// Ids above this are refused: tables of all ids stay small however hostile the file.
inline constexpr std::int32_t kMaxTokenId = (1 << 20) - 1;

// Of a "Sequence", of a template, and of the ids that one of its special tokens stands for. Published files have 5.
inline constexpr std::size_t kMaxSteps = 32;

// What a tokenizer.json holds, once understood.
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
  AddedTokenFinder verbatim = {};         // added tokens to look for before normalization,
  AddedTokenFinder normalized = {};       // and after
  bool has_template = false;              // post_processor says what goes around a text, be it nothing
  std::vector<std::int32_t> before = {};  // special tokens that go before a text,
  std::vector<std::int32_t> after = {};   // and after
  std::vector<Token> tokens = {};         // by id
};

// Fails where anything in the document is not understood.
TokenizerParts read_tokenizer(std::string_view json, const std::string& name);

}  // namespace reprofuse::text
