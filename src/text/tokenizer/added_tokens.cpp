#include <algorithm>
#include <utility>

#include "text/tokenizer/stages.hpp"
#include "text/tokenizer/tokenizer_json.hpp"
#include "text/tokenizer/unicode.hpp"

namespace reprofuse::text {
namespace {

constexpr std::size_t kBlock = std::size_t{64} << 10;  // of text, looked through at a time
constexpr std::size_t kMaxContentBytes = 4096;         // of one token,
constexpr std::size_t kMaxAllBytes = 4U << 20;         // and of all

std::uint64_t edge(std::uint32_t node, char byte) {
  return std::uint64_t{node} << 8 | static_cast<unsigned char>(byte);
}

}  // namespace

std::vector<AddedToken> read_added_tokens(const JsonNode& added_tokens) {
  std::vector<AddedToken> tokens;
  std::size_t bytes = 0;
  added_tokens.for_each(std::size_t{kMaxTokenId} + 1, [&](const JsonNode& entry) {
    entry.require_keys_among({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    if (entry.boolean_or("single_word", false)) entry.node("single_word").reject("is not supported; only false is");
    const JsonNode content = entry.node("content");
    const std::string text = content.string();
    if (text.empty()) content.reject("must not be empty");
    if (text.size() > kMaxContentBytes)
      content.reject(fmt::format("has {} bytes; at most {} are supported", text.size(), kMaxContentBytes));
    bytes += text.size();
    if (bytes > kMaxAllBytes) added_tokens.reject(fmt::format("has more than {} bytes of content", kMaxAllBytes));
    tokens.push_back({.id = entry.node("id").token_id(),
                      .content = text,
                      .special = entry.node("special").boolean(),
                      .normalized = entry.node("normalized").boolean(),
                      .strip_left = entry.boolean_or("lstrip", false),
                      .strip_right = entry.boolean_or("rstrip", false),
                      .white_space = leading_white_space(text) == text.size()});
  });
  return tokens;
}

void AddedTokenFinder::add(const std::string& string, const AddedToken& token) {
  if (string.empty()) return;
  std::uint32_t node = 0;
  for (std::size_t i = string.size(); i-- > 0;) {
    const auto [found, is_new] = children_.emplace(edge(node, string[i]), static_cast<std::uint32_t>(nodes_.size()));
    node = found->second;
    if (is_new) nodes_.push_back({.length = static_cast<std::uint32_t>(string.size() - i)});
  }
  // Of two tokens that normalize to the same string the first is found.
  if (!nodes_[node].token) nodes_[node].token = static_cast<std::uint32_t>(tokens_.size());
  tokens_.push_back(token);
  longest_ = std::max(longest_, string.size());
}

void AddedTokenFinder::finish() {
  struct Edge {
    std::uint32_t parent, node;
    char byte;
  };
  std::vector<Edge> edges;
  edges.reserve(children_.size());
  for (const auto& [key, node] : children_)
    edges.push_back({static_cast<std::uint32_t>(key >> 8), node, static_cast<char>(key & 0xFF)});
  // Suffixes of a node are shorter, so they are known before it.
  std::sort(edges.begin(), edges.end(), [&](const Edge& a, const Edge& b) {
    return std::pair(nodes_[a.node].length, a.node) < std::pair(nodes_[b.node].length, b.node);
  });
  for (const Edge& each : edges) {
    Node& node = nodes_[each.node];
    if (each.parent == 0) {
      first_[static_cast<unsigned char>(each.byte)] = each.node;
    } else {
      node.suffix = next(nodes_[each.parent].suffix, each.byte);
      node.shorter = nodes_[node.suffix].token ? node.suffix : nodes_[node.suffix].shorter;
    }
    const bool is_white_space = node.token && tokens_[*node.token].white_space;
    node.white_space = is_white_space ? each.node : nodes_[node.suffix].white_space;
  }
}

bool AddedTokenFinder::finds_more_than_white_space() const {
  return std::any_of(tokens_.begin(), tokens_.end(), [](const AddedToken& token) { return !token.white_space; });
}

std::uint32_t AddedTokenFinder::child(std::uint32_t node, char byte) const {
  if (node == 0) return first_[static_cast<unsigned char>(byte)];
  const auto found = children_.find(edge(node, byte));
  return found == children_.end() ? 0 : found->second;
}

std::uint32_t AddedTokenFinder::next(std::uint32_t node, char byte) const {
  while (true) {
    const std::uint32_t found = child(node, byte);
    if (found != 0 || node == 0) return found;
    node = nodes_[node].suffix;
  }
}

// By descending place.
std::vector<AddedTokenFinder::Hit> AddedTokenFinder::hits_in(std::string_view text, std::size_t begin,
                                                             std::size_t end) const {
  std::vector<Hit> hits;
  std::uint32_t node = 0;
  for (std::size_t i = std::min(text.size(), end + longest_); i-- > begin;) {
    node = next(node, text[i]);
    if (node == 0 || i >= end) continue;
    const std::uint32_t longest = nodes_[node].token ? node : nodes_[node].shorter;
    if (longest != 0) hits.push_back({i, longest});
  }
  return hits;
}

// `plain` begins with the first part that ends after the hit's begin.
const AddedTokenFinder::Node* AddedTokenFinder::longest_allowed(const Hit& hit, std::span<const TextSpan> plain) const {
  std::uint32_t at = hit.node;
  const bool is_inside = !plain.empty() && plain.front().begin <= hit.begin;
  if (is_inside) at = nodes_[at].white_space;
  const auto is_allowed = [&](const Node& node) {
    return plain.empty() || hit.begin + node.length <= plain.front().begin || tokens_[*node.token].white_space;
  };
  while (at != 0 && !is_allowed(nodes_[at])) at = nodes_[at].shorter;
  return at == 0 ? nullptr : &nodes_[at];
}

void AddedTokenFinder::split(std::string_view text, std::span<const TextSpan> plain,
                             const std::function<void(const Segment&)>& visit) const {
  std::size_t done = 0;    // what the segments so far have taken
  std::size_t offset = 0;  // where the next token may begin
  TextSpan space;          // white space that has been walked over
  for (std::size_t block = 0; block < text.size() && !tokens_.empty(); block += kBlock) {
    const std::vector<Hit> hits = hits_in(text, block, std::min(text.size(), block + kBlock));
    for (auto hit = hits.rbegin(); hit != hits.rend(); ++hit) {
      if (hit->begin < offset) continue;
      while (!plain.empty() && plain.front().end <= hit->begin) plain = plain.subspan(1);
      const Node* const node = longest_allowed(*hit, plain);
      if (node == nullptr) continue;
      offset = hit->begin + node->length;
      const AddedToken& token = tokens_[*node->token];
      std::size_t begin = hit->begin;
      std::size_t end = offset;
      if (token.strip_left) begin = begin > done ? begin - trailing_white_space(text.substr(done, begin - done)) : done;
      if (token.strip_right) {
        if (end < space.begin || end > space.end) space = {end, end + leading_white_space(text.substr(end))};
        end = space.end;
      }
      if (begin > done) visit({text.substr(done, begin - done), std::nullopt});
      if (end > begin) visit({text.substr(begin, end - begin), token.id});
      done = end;
    }
  }
  if (done < text.size()) visit({text.substr(done), std::nullopt});
}

}  // namespace reprofuse::text
