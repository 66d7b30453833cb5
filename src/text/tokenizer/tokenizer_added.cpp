#include "text/tokenizer/tokenizer_added.hpp"

#include <algorithm>

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

}  // namespace reprofuse::text
