// Tokens and their log-probabilities as replies show them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "server/openai/call.hpp"
#include "server/openai/json.hpp"
#include "server/openai/reply.hpp"

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

void TokenNames::write_bytes(JsonWriter& json, std::int32_t id) const {
  if (!has_text(id)) return void(json.value(nullptr));
  json.array([&] {
    for (const char byte : format_.tokenizer().token_bytes(id)) json.value(static_cast<unsigned char>(byte));
  });
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

void write_chat_logprob(JsonWriter& json, std::int32_t id, const engine::Likelihood& likelihood, int max_top,
                        const TokenNames& names) {
  const auto write_entry = [&](std::int32_t token, float logprob) {
    json.field("token", names.name(token)).field("logprob", shown_logprob(logprob));
    names.write_bytes(json.key("bytes"), token);
  };
  json.object([&] {
    write_entry(id, likelihood.logprob);
    json.key("top_logprobs").array([&] {
      for (const TokenLogprob& other : likeliest(likelihood, max_top))
        json.object([&] { write_entry(other.id, other.logprob); });
    });
  });
}

namespace {

void write_top(JsonWriter& json, const PlacedToken& token, int max_top, const TokenNames& names) {
  std::vector<std::string> written;  // two tokens may have one name
  const auto add = [&](std::int32_t id, float logprob) {
    std::string name = names.name(id);
    if (std::find(written.begin(), written.end(), name) != written.end()) return;
    json.field(name, shown_logprob(logprob));
    written.push_back(std::move(name));
  };
  for (const TokenLogprob& other : likeliest(*token.likelihood, max_top)) add(other.id, other.logprob);
  add(token.id, token.likelihood->logprob);
}

}  // namespace

void write_completion_logprobs(JsonWriter& json, const std::vector<PlacedToken>& tokens, int max_top,
                               const TokenNames& names) {
  const auto write_list = [&](std::string_view key, const auto& write_entry) {
    json.key(key).array([&] {
      for (const PlacedToken& token : tokens) write_entry(token);
    });
  };
  json.object([&] {
    write_list("tokens", [&](const PlacedToken& token) { json.value(names.name(token.id)); });
    write_list("token_logprobs", [&](const PlacedToken& token) {
      token.likelihood ? json.value(shown_logprob(token.likelihood->logprob)) : json.value(nullptr);
    });
    write_list("top_logprobs", [&](const PlacedToken& token) {
      token.likelihood ? json.object([&] { write_top(json, token, max_top, names); }) : json.value(nullptr);
    });
    write_list("text_offset", [&](const PlacedToken& token) { json.value(token.offset); });
  });
}

void write_prompt_logprobs(JsonWriter& json, const std::vector<engine::PromptToken>& prompt, int max_top,
                           const TokenNames& names) {
  const auto write_entry = [&](std::int32_t id, float logprob, std::int64_t rank) {
    json.key(std::to_string(id)).object([&] {
      json.field("logprob", shown_logprob(logprob)).field("rank", rank).field("decoded_token", names.name(id));
    });
  };
  const auto write_entries = [&](std::int32_t id, const engine::Likelihood& likelihood) {
    write_entry(id, likelihood.logprob, likelihood.rank);
    std::int64_t rank = 0;
    for (const TokenLogprob& other : likeliest(likelihood, max_top))
      if (++rank; other.id != id) write_entry(other.id, other.logprob, rank);
  };
  json.key("prompt_logprobs").array([&] {
    for (const engine::PromptToken& token : prompt)
      token.likelihood ? json.object([&] { write_entries(token.id, *token.likelihood); }) : json.value(nullptr);
  });
}

}  // namespace reprofuse::server
