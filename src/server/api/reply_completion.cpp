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
  bool has_opening() const override { return echo_ || call().return_token_ids; }
  void write_whole(JsonWriter& json, const Choice& choice) const override;
  void write_opening(JsonWriter& json, const Choice& choice) const override;
  void write_token(JsonWriter& json, const Choice& choice, const engine::AnswerToken& token) override;
  void write_end(JsonWriter& json, const Choice& choice, const engine::End& end) const override;
  void write_prompt(JsonWriter&) const override {}  // each choice has its own

  TextPosition answer_start(std::size_t prompt) const;
  void place_prompt(const Choice& choice, std::vector<PlacedToken>& tokens) const;
  void write_logprobs(JsonWriter& json, const std::vector<PlacedToken>& tokens) const;
  const std::string& echoed_text(const Choice& choice) const { return prompt_texts_[choice.prompt]; }

  bool echo_;
  std::vector<std::string> prompt_texts_;
  std::vector<TextPosition> positions_;  // in a stream: of each choice
  std::vector<std::size_t> sent_;        // and the characters that were sent of it, and before it
};

TextPosition CompletionReply::answer_start(std::size_t prompt) const {
  return {facts(), call().requests[prompt].skip_special_tokens, echo_ ? count_characters(prompt_texts_[prompt]) : 0};
}

void CompletionReply::place_prompt(const Choice& choice, std::vector<PlacedToken>& tokens) const {
  EchoPosition position(facts(), echoed_text(choice));
  for (const engine::PromptToken& token : prompt_of(choice))
    tokens.push_back({token.id, token.likelihood, position.next(token.id)});
}

// null unless asked for.
void CompletionReply::write_logprobs(JsonWriter& json, const std::vector<PlacedToken>& tokens) const {
  json.key("logprobs");
  if (call().logprobs < 0) return void(json.value(nullptr));
  write_completion_logprobs(json, tokens, call().logprobs, names());
}

void CompletionReply::write_whole(JsonWriter& json, const Choice& choice) const {
  std::string text = echo_ ? echoed_text(choice) : "";
  for (const engine::AnswerToken& token : choice.tokens) text += token.text;
  text += choice.end->text;
  json.field("index", choice.index).field("text", text);

  const std::size_t end = count_characters(text);  // a stop string may have cut tokens off
  std::vector<PlacedToken> tokens;
  if (echo_) place_prompt(choice, tokens);
  TextPosition position = answer_start(choice.prompt);
  std::vector<std::int32_t> ids;
  for (const engine::AnswerToken& token : choice.tokens) {
    tokens.push_back({token.id, token.likelihood, std::min(position.next(token.id), end)});
    ids.push_back(token.id);
  }
  write_logprobs(json, tokens);
  write_end_facts(json, choice, *choice.end);
  if (call().prompt_logprobs >= 0) write_prompt_logprobs(json, prompt_of(choice), call().prompt_logprobs, names());
  if (call().return_token_ids) json.field("prompt_token_ids", request_of(choice).prompt).field("token_ids", ids);
}

void CompletionReply::write_opening(JsonWriter& json, const Choice& choice) const {
  json.field("index", choice.index).field("text", echo_ ? echoed_text(choice) : "");
  std::vector<PlacedToken> tokens;
  if (echo_) place_prompt(choice, tokens);
  echo_ ? write_logprobs(json, tokens) : void(json.field("logprobs", nullptr));
  json.field("finish_reason", nullptr);
  if (call().return_token_ids)
    json.field("prompt_token_ids", request_of(choice).prompt).field("token_ids", std::vector<std::int32_t>());
}

void CompletionReply::write_token(JsonWriter& json, const Choice& choice, const engine::AnswerToken& token) {
  json.field("index", choice.index).field("text", token.text);
  std::vector<PlacedToken> tokens;
  if (call().logprobs >= 0) {
    // Text that may be the start of a stop string is held back, and may never come.
    std::size_t& sent = sent_[choice.index];
    tokens.push_back({token.id, token.likelihood, std::min(positions_[choice.index].next(token.id), sent)});
    sent += count_characters(token.text);
  }
  write_logprobs(json, tokens);
  write_token_facts(json, token);
}

void CompletionReply::write_end(JsonWriter& json, const Choice& choice, const engine::End& end) const {
  json.field("index", choice.index).field("text", end.text).field("logprobs", nullptr);
  write_end_facts(json, choice, end);
  if (call().return_token_ids) json.field("token_ids", std::vector<std::int32_t>());
}

}  // namespace

std::unique_ptr<Reply> make_reply(const CompletionCall& call, const ServedFacts& facts, std::string request_id,
                                  std::int64_t created) {
  return std::make_unique<CompletionReply>(call, facts, std::move(request_id), created);
}

}  // namespace reprofuse::server
