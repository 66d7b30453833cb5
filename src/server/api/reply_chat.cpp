// {"object": "chat.completion"} and {"object": "chat.completion.chunk"}
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
  void complete_body(Json& body) const override;
  Json whole_choice(const Choice& choice) const override;
  std::optional<Json> opening_chunk(const Choice& choice) const override;
  Json token_choice(const Choice& choice, const engine::AnswerToken& token) override;
  Json end_choice(const Choice& choice, const engine::End& end) const override;

  Json logprobs_of(const std::vector<engine::AnswerToken>& tokens) const;
};

// null unless asked for.
Json ChatReply::logprobs_of(const std::vector<engine::AnswerToken>& tokens) const {
  if (call().logprobs < 0) return nullptr;
  Json content = Json::array();
  for (const engine::AnswerToken& token : tokens)
    if (token.likelihood) content.push_back(chat_logprob(token.id, *token.likelihood, call().logprobs, names()));
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

// A chat has one prompt, so what is known of it stands outside the choices, as in vLLM.
void ChatReply::complete_body(Json& body) const {
  const Choice of_the_prompt;
  if (call().prompt_logprobs >= 0)
    body["prompt_logprobs"] = prompt_logprobs_json(prompt_of(of_the_prompt), call().prompt_logprobs, names());
  if (call().return_token_ids) body["prompt_token_ids"] = request_of(of_the_prompt).prompt;
}

Json ChatReply::whole_choice(const Choice& choice) const {
  std::string text;
  std::vector<std::int32_t> ids;
  for (const engine::AnswerToken& token : choice.tokens) {
    text += token.text;
    ids.push_back(token.id);
  }
  Json json = {{"index", choice.index},
               {"message", {{"role", "assistant"}, {"content", text + choice.end->text}, {"refusal", nullptr}}},
               {"logprobs", logprobs_of(choice.tokens)}};
  add_end(json, choice, *choice.end);
  if (call().return_token_ids) json["token_ids"] = ids;
  return json;
}

std::optional<Json> ChatReply::opening_chunk(const Choice& choice) const {
  Json chunk = chunk_with({{"index", choice.index},
                           {"delta", {{"role", "assistant"}, {"content", ""}}},
                           {"logprobs", nullptr},
                           {"finish_reason", nullptr}});
  if (call().return_token_ids) chunk["prompt_token_ids"] = request_of(choice).prompt;
  return chunk;
}

Json ChatReply::token_choice(const Choice& choice, const engine::AnswerToken& token) {
  Json json = {{"index", choice.index}, {"delta", {{"content", token.text}}}, {"logprobs", logprobs_of({token})}};
  add_token_facts(json, token);
  return json;
}

Json ChatReply::end_choice(const Choice& choice, const engine::End& end) const {
  Json json = {{"index", choice.index}, {"delta", Json::object()}, {"logprobs", nullptr}};
  if (!end.text.empty()) json["delta"]["content"] = end.text;
  add_end(json, choice, end);
  return json;
}

}  // namespace

std::unique_ptr<Reply> make_reply(const ChatCall& call, const ServedFacts& facts, std::string request_id,
                                  std::int64_t created) {
  return std::make_unique<ChatReply>(call, facts, std::move(request_id), created);
}

}  // namespace reprofuse::server
