// {"object": "text_completion"}
#include <algorithm>
#include <utility>

#include "server/api/reply_base.hpp"

namespace reprofuse::server {
namespace {

class CompletionReply final : public ReplyBase {
 public:
  CompletionReply(const CompletionCall& call, const ServedFacts& facts, std::string request_id, std::int64_t created)
      : ReplyBase(call, facts, std::move(request_id), created), echo_(call.echo), prompt_texts_(call.prompt_texts) {
    for (std::size_t prompt = 0; prompt < call.requests.size(); ++prompt) {
      const auto choices = static_cast<std::size_t>(call.requests[prompt].choices);
      positions_.insert(positions_.end(), choices, answer_start(prompt));
      sent_.insert(sent_.end(), choices, echo_ ? count_characters(prompt_texts_[prompt]) : 0);
    }
  }

 private:
  std::string_view object_name() const override { return "text_completion"; }
  std::string_view chunk_name() const override { return "text_completion"; }
  void complete_body(Json&) const override {}
  Json whole_choice(const Choice& choice) const override;
  std::optional<Json> opening_chunk(const Choice& choice) const override;
  Json token_choice(const Choice& choice, const engine::AnswerToken& token) override;
  Json end_choice(const Choice& choice, const engine::End& end) const override;

  TextPosition answer_start(std::size_t prompt) const;
  void add_prompt_logprobs(const Choice& choice, CompletionLogprobs& logprobs) const;
  const std::string& echoed_text(const Choice& choice) const { return prompt_texts_[choice.prompt]; }

  bool echo_;
  std::vector<std::string> prompt_texts_;
  std::vector<TextPosition> positions_;  // in a stream: of each choice
  std::vector<std::size_t> sent_;        // and the characters that were sent of it, and before it
};

TextPosition CompletionReply::answer_start(std::size_t prompt) const {
  return {facts(), call().requests[prompt].skip_special_tokens, echo_ ? count_characters(prompt_texts_[prompt]) : 0};
}

void CompletionReply::add_prompt_logprobs(const Choice& choice, CompletionLogprobs& logprobs) const {
  EchoPosition position(facts(), echoed_text(choice));
  for (const engine::PromptToken& token : prompt_of(choice))
    logprobs.add(token.id, token.likelihood, position.next(token.id));
}

Json CompletionReply::whole_choice(const Choice& choice) const {
  std::string text = echo_ ? echoed_text(choice) : "";
  CompletionLogprobs logprobs(call().logprobs, names());
  if (echo_) add_prompt_logprobs(choice, logprobs);
  for (const engine::AnswerToken& token : choice.tokens) text += token.text;
  text += choice.end->text;
  const std::size_t end = count_characters(text);  // a stop string may have cut tokens off
  TextPosition position = answer_start(choice.prompt);
  std::vector<std::int32_t> ids;
  for (const engine::AnswerToken& token : choice.tokens) {
    logprobs.add(token.id, token.likelihood, std::min(position.next(token.id), end));
    ids.push_back(token.id);
  }
  Json json = {{"index", choice.index}, {"text", std::move(text)}, {"logprobs", nullptr}};
  if (call().logprobs >= 0) json["logprobs"] = logprobs.json();
  add_end(json, choice, *choice.end);
  if (call().prompt_logprobs >= 0)
    json["prompt_logprobs"] = prompt_logprobs_json(prompt_of(choice), call().prompt_logprobs, names());
  if (call().return_token_ids) {
    json["prompt_token_ids"] = request_of(choice).prompt;
    json["token_ids"] = ids;
  }
  return json;
}

std::optional<Json> CompletionReply::opening_chunk(const Choice& choice) const {
  if (!echo_ && !call().return_token_ids) return std::nullopt;
  Json json = {{"index", choice.index},
               {"text", echo_ ? echoed_text(choice) : ""},
               {"logprobs", nullptr},
               {"finish_reason", nullptr}};
  if (echo_ && call().logprobs >= 0) {
    CompletionLogprobs logprobs(call().logprobs, names());
    add_prompt_logprobs(choice, logprobs);
    json["logprobs"] = logprobs.json();
  }
  if (call().return_token_ids) {
    json["prompt_token_ids"] = request_of(choice).prompt;
    json["token_ids"] = Json::array();
  }
  return chunk_with(std::move(json));
}

Json CompletionReply::token_choice(const Choice& choice, const engine::AnswerToken& token) {
  Json json = {{"index", choice.index}, {"text", token.text}, {"logprobs", nullptr}};
  if (call().logprobs >= 0) {
    CompletionLogprobs logprobs(call().logprobs, names());
    // Text that may be the start of a stop string is held back, and may never come.
    logprobs.add(token.id, token.likelihood, std::min(positions_[choice.index].next(token.id), sent_[choice.index]));
    sent_[choice.index] += count_characters(token.text);
    json["logprobs"] = logprobs.json();
  }
  add_token_facts(json, token);
  return json;
}

Json CompletionReply::end_choice(const Choice& choice, const engine::End& end) const {
  Json json = {{"index", choice.index}, {"text", end.text}, {"logprobs", nullptr}};
  add_end(json, choice, end);
  if (call().return_token_ids) json["token_ids"] = Json::array();
  return json;
}

}  // namespace

std::unique_ptr<Reply> make_reply(const CompletionCall& call, const ServedFacts& facts, std::string request_id,
                                  std::int64_t created) {
  return std::make_unique<CompletionReply>(call, facts, std::move(request_id), created);
}

}  // namespace reprofuse::server
