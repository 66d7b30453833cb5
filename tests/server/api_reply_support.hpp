// Shared by the tests of replies: updates as an engine would give them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "server/api_support.hpp"
#include "server/openai/reply.hpp"

namespace reprofuse::server {

inline constexpr std::int64_t kCreated = 1700000001;

inline engine::Likelihood likely(float logprob, std::int64_t rank, std::vector<TokenLogprob> top) {
  return {.logprob = logprob, .rank = rank, .top = std::move(top)};
}

inline engine::AnswerToken token(std::int32_t id, std::string text, std::optional<engine::Likelihood> likelihood = {},
                                 std::string digest = "") {
  return {.id = id, .text = std::move(text), .likelihood = std::move(likelihood), .digest = std::move(digest)};
}

inline engine::Update tokens_of(int choice, std::vector<engine::AnswerToken> tokens) {
  engine::Update update;
  update.choice = choice;
  update.tokens = std::move(tokens);
  return update;
}

inline engine::Update end_of(int choice, engine::FinishReason reason, std::string text = "") {
  engine::Update update;
  update.choice = choice;
  update.end.emplace();
  update.end->finish_reason = reason;
  update.end->text = std::move(text);
  return update;
}

inline engine::Update prompt_of(std::vector<engine::PromptToken> tokens) {
  engine::Update update;
  update.prompt = std::move(tokens);
  return update;
}

inline std::unique_ptr<Reply> completion_reply(const std::string& body, const CallRules& rules = {}) {
  return make_reply(parse_completion(body, served(), rules), served(), "cmpl-1", kCreated);
}

inline std::unique_ptr<Reply> chat_reply(const std::string& fields) {
  const std::string body = with(R"({"messages":[{"role":"user","content":"12"}]})", fields);
  return make_reply(parse_chat(body, served()), served(), "chatcmpl-1", kCreated);
}

// The data of each event.
inline std::vector<std::string> lines_of(std::string_view events) {
  std::vector<std::string> lines;
  while (!events.empty()) {
    const std::size_t end = events.find(kEventEnd);
    EXPECT_TRUE(events.starts_with(kEventBegin) && end != std::string_view::npos) << events;
    if (end == std::string_view::npos) break;
    lines.emplace_back(events.substr(kEventBegin.size(), end - kEventBegin.size()));
    events.remove_prefix(end + kEventEnd.size());
  }
  return lines;
}

inline std::vector<std::string> chunks_of(Reply& reply, std::size_t prompt, const engine::Update& update) {
  std::string events;
  reply.add_chunks(prompt, update, events);
  return lines_of(events);
}

inline std::vector<std::string> last_chunks_of(const Reply& reply) {
  std::string events;
  reply.add_last_chunks(events);
  return lines_of(events);
}

// What every reply and chunk begins with.
inline Json reply_head(const std::string& id, const std::string& object) {
  return {{"id", id},
          {"object", object},
          {"created", kCreated},
          {"model", "arithmetic-7m"},
          {"system_fingerprint", "fma-1-0123456789abcdef-0.1.0"}};
}

inline Json usage_of(int prompt, int completion) {
  return {{"prompt_tokens", prompt}, {"completion_tokens", completion}, {"total_tokens", prompt + completion}};
}

}  // namespace reprofuse::server
