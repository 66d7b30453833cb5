#include "reprofuse/tokenizer.hpp"

#include <algorithm>
#include <fstream>
#include <system_error>

#include "base/check.hpp"
#include "text/tokenizer/tokenizer_parts.hpp"
#include "text/tokenizer/unicode.hpp"

namespace reprofuse::text {

std::vector<AddedToken> read_added_tokens(const JsonNode& added_tokens) {
  std::vector<AddedToken> tokens;
  for (const JsonNode& entry : added_tokens.elements()) {
    entry.require_keys_among({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    if (entry.boolean_or("single_word", false)) entry.node("single_word").reject("is not supported; only false is");
    const JsonNode content = entry.node("content");
    if (content.string().empty()) content.reject("must not be empty");
    const bool special = entry.node("special").boolean();
    tokens.push_back({entry.node("id").token_id(), content.string(), special, entry.node("normalized").boolean(),
                      entry.boolean_or("lstrip", false), entry.boolean_or("rstrip", false)});
  }
  return tokens;
}

void AddedTokenFinder::add(const std::string& string, const AddedToken& token) {
  if (string.empty()) return;
  std::uint32_t node = 0;
  for (const char byte : string) {
    const auto [child, inserted] = nodes_[node].children.emplace(byte, static_cast<std::uint32_t>(nodes_.size()));
    node = child->second;
    if (inserted) nodes_.emplace_back();
  }
  starts_token_[static_cast<unsigned char>(string[0])] = true;
  // Of two tokens that normalise to the same string the first is found.
  if (!nodes_[node].token) nodes_[node].token = tokens_.size();
  tokens_.push_back(token);
}

std::optional<AddedTokenFinder::Match> AddedTokenFinder::match_at(std::string_view text, std::size_t offset) const {
  std::optional<Match> longest;
  if (!starts_token_[static_cast<unsigned char>(text[offset])]) return longest;
  const Node* node = &nodes_[0];
  for (; offset < text.size(); ++offset) {
    const auto child = node->children.find(text[offset]);
    if (child == node->children.end()) break;
    node = &nodes_[child->second];
    if (node->token) longest = {*node->token, offset + 1};
  }
  return longest;
}

std::vector<Segment> AddedTokenFinder::split(std::string_view text) const {
  std::vector<Segment> segments;
  std::size_t done = 0;
  for (std::size_t offset = 0; offset < text.size();) {
    const auto match = match_at(text, offset);
    if (!match) {
      ++offset;
      continue;
    }
    const AddedToken& token = tokens_[match->token];
    // White space that the token before has swallowed is gone.
    std::size_t begin = std::max(offset, done);
    if (token.strip_left) begin -= trailing_white_space(text.substr(done, begin - done));
    if (begin > done) segments.push_back({text.substr(done, begin - done), std::nullopt});
    std::size_t end = std::max(match->end, done);
    if (token.strip_right) end += leading_white_space(text.substr(end));
    segments.push_back({text.substr(begin, end - begin), token.id});
    done = end;
    offset = match->end;
  }
  if (done < text.size()) segments.push_back({text.substr(done), std::nullopt});
  return segments;
}

namespace {

// Text in which no added token of the first kind stands.
void encode_between(const TokenizerParts& parts, std::string_view text, std::vector<std::int32_t>& ids) {
  const std::string normalized = parts.normalize_nfc ? normalize_nfc(text) : std::string(text);
  for (const Segment& segment : parts.normalized.split(normalized)) {
    if (segment.id) {
      ids.push_back(*segment.id);
      continue;
    }
    const Pieces pieces = parts.pre_tokenizer.split(segment.text);
    std::size_t begin = 0;
    for (const std::size_t end : pieces.ends) {
      parts.bpe.encode(std::string_view(pieces.text).substr(begin, end - begin), ids);
      begin = end;
    }
  }
}

bool has_token_in(const TokenizerParts& parts, std::int32_t id) {
  return id >= 0 && static_cast<std::size_t>(id) < parts.tokens.size() && !parts.tokens[id].bytes.empty();
}

const Token& token_of(const TokenizerParts& parts, std::int32_t id) {
  require(has_token_in(parts, id), "{}: no token has the id {}", parts.name, id);
  return parts.tokens[id];
}

}  // namespace

}  // namespace reprofuse::text

namespace reprofuse {

Tokenizer::Tokenizer(std::shared_ptr<const text::TokenizerParts> parts) : parts_(std::move(parts)) {}

Tokenizer Tokenizer::from_json(std::string_view json, const std::string& name) {
  return Tokenizer(std::make_shared<const text::TokenizerParts>(text::read_tokenizer(json, name)));
}

Tokenizer Tokenizer::load(const std::filesystem::path& tokenizer_json) {
  const std::string name = tokenizer_json.string();
  std::error_code error;
  require(std::filesystem::exists(tokenizer_json, error), "{}: there is no such file", name);
  require(std::filesystem::is_regular_file(tokenizer_json, error), "{}: is not a regular file", name);
  std::string json(std::filesystem::file_size(tokenizer_json, error), '\0');
  std::ifstream file(tokenizer_json, std::ios::binary);
  file.read(json.data(), static_cast<std::streamsize>(json.size()));
  require(!error && file.good(), "{}: cannot be read", name);
  return from_json(json, name);
}

bool Tokenizer::has_token(std::int32_t id) const {
  return text::has_token_in(*parts_, id);
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view utf8, bool add_special_tokens) const {
  const auto invalid = text::find_invalid_utf8(utf8);
  require(!invalid, "the text is not well-formed UTF-8 at byte {} of {}", invalid.value_or(0), utf8.size());
  std::vector<std::int32_t> ids;
  if (add_special_tokens) ids = parts_->before;
  for (const text::Segment& segment : parts_->verbatim.split(utf8)) {
    if (segment.id) {
      ids.push_back(*segment.id);
    } else {
      text::encode_between(*parts_, segment.text, ids);
    }
  }
  if (add_special_tokens) ids.insert(ids.end(), parts_->after.begin(), parts_->after.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const {
  std::string bytes;
  for (const std::int32_t id : ids) {
    const text::Token& token = text::token_of(*parts_, id);
    if (!token.special || !skip_special_tokens) bytes += token.bytes;
  }
  return text::utf8_replacing(bytes);
}

std::size_t Tokenizer::vocab_size() const {
  return parts_->tokens.size();
}

std::size_t Tokenizer::longest_token_bytes() const {
  return parts_->longest_token_bytes;
}

std::optional<std::int32_t> Tokenizer::token_id(std::string_view spelling) const {
  for (const text::Vocabulary* vocabulary : {&parts_->added_ids, &parts_->bpe.vocabulary()}) {
    if (const auto found = vocabulary->find(spelling); found != vocabulary->end()) return found->second;
  }
  return std::nullopt;
}

const std::string& Tokenizer::token_bytes(std::int32_t id) const {
  return text::token_of(*parts_, id).bytes;
}

bool Tokenizer::is_special(std::int32_t id) const {
  return text::token_of(*parts_, id).special;
}

bool Tokenizer::has_template() const {
  return parts_->has_template;
}

}  // namespace reprofuse
