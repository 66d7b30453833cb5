// {"object": "chat.completion"} and {"object": "chat.completion.chunk"}
#include <span>
#include <utility>

#include "server/api/reply_base.hpp"

namespace reprofuse::server {
namespace {

class ChatReply final : public ReplyBase {
 public:
  using ReplyBase::ReplyBase;

 private:
  std::string_view object_name() const override { return "chat.completion"; }
  std::string_view chunk_name() const override { return "chat.completion.chunk"; }
  bool has_opening() const override { return true; }
  void write_whole(JsonWriter& json, const Choice& choice) const override;
  void write_opening(JsonWriter& json, const Choice& choice) const override;
  void write_token(JsonWriter& json, const Choice& choice, const engine::AnswerToken& token) override;
  void write_end(JsonWriter& json, const Choice& choice, const engine::End& end) const override;
  void write_prompt(JsonWriter& json) const override;

  void write_logprobs(JsonWriter& json, std::span<const engine::AnswerToken> tokens) const;
};

// null unless asked for.
void ChatReply::write_logprobs(JsonWriter& json, std::span<const engine::AnswerToken> tokens) const {
  json.key("logprobs");
  if (call().logprobs < 0) return void(json.value(nullptr));
  json.object([&] {
    json.key("content").array([&] {
      for (const engine::AnswerToken& token : tokens)
        if (token.likelihood) write_chat_logprob(json, token.id, *token.likelihood, call().logprobs, names());
    });
    json.field("refusal", nullptr);
  });
}

// A chat has one prompt, so what is known of it stands outside the choices, as in vLLM.
void ChatReply::write_prompt(JsonWriter& json) const {
  const Choice of_the_prompt;
  if (call().prompt_logprobs >= 0)
    write_prompt_logprobs(json, prompt_of(of_the_prompt), call().prompt_logprobs, names());
  if (call().return_token_ids) json.field("prompt_token_ids", request_of(of_the_prompt).prompt);
}

void ChatReply::write_whole(JsonWriter& json, const Choice& choice) const {
  std::string text;
  std::vector<std::int32_t> ids;
  for (const engine::AnswerToken& token : choice.tokens) {
    text += token.text;
    ids.push_back(token.id);
  }
  text += choice.end->text;
  json.field("index", choice.index).key("message").object([&] {
    json.field("role", "assistant").field("content", text).field("refusal", nullptr);
  });
  write_logprobs(json, choice.tokens);
  write_end_facts(json, choice, *choice.end);
  if (call().return_token_ids) json.field("token_ids", ids);
}

void ChatReply::write_opening(JsonWriter& json, const Choice& choice) const {
  json.field("index", choice.index).key("delta").object([&] { json.field("role", "assistant").field("content", ""); });
  json.field("logprobs", nullptr).field("finish_reason", nullptr);
}

void ChatReply::write_token(JsonWriter& json, const Choice& choice, const engine::AnswerToken& token) {
  json.field("index", choice.index).key("delta").object([&] { json.field("content", token.text); });
  write_logprobs(json, {&token, 1});
  write_token_facts(json, token);
}

void ChatReply::write_end(JsonWriter& json, const Choice& choice, const engine::End& end) const {
  json.field("index", choice.index).key("delta").object([&] {
    if (!end.text.empty()) json.field("content", end.text);
  });
  json.field("logprobs", nullptr);
  write_end_facts(json, choice, end);
}

}  // namespace

std::unique_ptr<Reply> make_reply(const ChatCall& call, const ServedFacts& facts, std::string request_id,
                                  std::int64_t created) {
  return std::make_unique<ChatReply>(call, facts, std::move(request_id), created);
}

}  // namespace reprofuse::server
