#include "server/api/tokens.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace reprofuse::server {
namespace {

std::span<const TokenLogprob> likeliest(const engine::Likelihood& likelihood, int max_top) {
  return std::span(likelihood.top)
      .first(std::min(likelihood.top.size(), static_cast<std::size_t>(std::max(0, max_top))));
}

}  // namespace

bool TokenNames::has_text(std::int32_t id) const {
  return format_.has_tokenizer() && format_.tokenizer().has_token(id);
}

std::string TokenNames::name(std::int32_t id) const {
  return as_ids_ ? fmt::format("token_id:{}", id) : format_.token_name(id);
}

Json TokenNames::bytes(std::int32_t id) const {
  if (!has_text(id)) return nullptr;
  Json list = Json::array();
  for (const char byte : format_.tokenizer().token_bytes(id)) list.push_back(static_cast<unsigned char>(byte));
  return list;
}

TextPosition::TextPosition(const ServedFacts& facts, bool skip_special_tokens, std::size_t start) : position_(start) {
  const engine::TextFormat& format = facts.files->text();
  if (format.has_tokenizer()) detokenizer_.emplace(format.tokenizer(), skip_special_tokens);
}

std::size_t TextPosition::next(std::int32_t id) {
  const std::size_t here = position_;
  if (detokenizer_) position_ += count_characters(detokenizer_->push(id));
  return here;
}

std::size_t count_characters(std::string_view utf8) {
  const auto starts_one = [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) != 0x80U; };
  return static_cast<std::size_t>(std::count_if(utf8.begin(), utf8.end(), starts_one));
}

EchoPosition::EchoPosition(const ServedFacts& facts, std::string_view text)
    : format_(facts.files->text()), rest_(text) {
  if (format_.has_tokenizer()) detokenizer_.emplace(format_.tokenizer(), true);
}

std::size_t EchoPosition::next(std::int32_t id) {
  const std::size_t here = position_;
  if (!detokenizer_) return here;
  const Tokenizer& tokenizer = format_.tokenizer();
  const bool is_special = tokenizer.has_token(id) && tokenizer.is_special(id);
  const std::string text = is_special ? tokenizer.token_bytes(id) : detokenizer_->push(id);
  if (is_special && !rest_.starts_with(text)) return here;
  for (std::size_t left = count_characters(text); left > 0 && !rest_.empty(); --left, ++position_) {
    std::size_t bytes = 1;
    while (bytes < rest_.size() && count_characters(rest_.substr(bytes, 1)) == 0) ++bytes;
    rest_.remove_prefix(bytes);
  }
  return here;
}

double shown_logprob(float logprob) {
  return std::isfinite(logprob) ? static_cast<double>(logprob) : -9999.0;
}

Json chat_logprob(std::int32_t id, const engine::Likelihood& likelihood, int max_top, const TokenNames& names) {
  const auto entry = [&](std::int32_t token, float logprob) {
    return Json{{"token", names.name(token)}, {"logprob", shown_logprob(logprob)}, {"bytes", names.bytes(token)}};
  };
  Json chosen = entry(id, likelihood.logprob);
  Json& top = chosen["top_logprobs"] = Json::array();
  for (const TokenLogprob& other : likeliest(likelihood, max_top)) top.push_back(entry(other.id, other.logprob));
  return chosen;
}

void CompletionLogprobs::add(std::int32_t id, const std::optional<engine::Likelihood>& likelihood, std::size_t offset) {
  tokens_.push_back(names_.name(id));
  offsets_.push_back(offset);
  if (!likelihood) {
    token_logprobs_.push_back(nullptr);
    top_logprobs_.push_back(nullptr);
    return;
  }
  token_logprobs_.push_back(shown_logprob(likelihood->logprob));
  Json top = Json::object();
  for (const TokenLogprob& other : likeliest(*likelihood, max_top_))
    top.emplace(names_.name(other.id), shown_logprob(other.logprob));
  top.emplace(names_.name(id), shown_logprob(likelihood->logprob));
  top_logprobs_.push_back(std::move(top));
}

Json CompletionLogprobs::json() const {
  return {{"tokens", tokens_},
          {"token_logprobs", token_logprobs_},
          {"top_logprobs", top_logprobs_},
          {"text_offset", offsets_}};
}

Json prompt_logprobs_json(const std::vector<engine::PromptToken>& prompt, int max_top, const TokenNames& names) {
  Json list = Json::array();
  for (const engine::PromptToken& token : prompt) {
    if (!token.likelihood) {
      list.push_back(nullptr);
      continue;
    }
    Json entries = Json::object();
    const auto add = [&](std::int32_t id, float logprob, std::int64_t rank) {
      entries.emplace(std::to_string(id),
                      Json{{"logprob", shown_logprob(logprob)}, {"rank", rank}, {"decoded_token", names.name(id)}});
    };
    add(token.id, token.likelihood->logprob, token.likelihood->rank);
    std::int64_t rank = 0;
    for (const TokenLogprob& other : likeliest(*token.likelihood, max_top)) add(other.id, other.logprob, ++rank);
    list.push_back(std::move(entries));
  }
  return list;
}

}  // namespace reprofuse::server
