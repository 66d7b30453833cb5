#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/openai/call.hpp"
#include "server/openai/reply.hpp"
#include "text/tokenizer/detokenizer.hpp"

namespace reprofuse::server {
namespace {

constexpr std::int64_t kDefaultCompletionTokens = 16;  // OpenAI's

constexpr FixedValue kFixedForCompletions[] = {{"suffix", "null"}, {"prompt_embeds", "null"}};

// A string, a list of strings, a list of token ids or a list of such lists: as a list of strings and id lists.
std::vector<const Json*> prompt_entries(Fields& fields) {
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) fields.fail_missing("prompt");
  const auto among = [&](auto is_kind) { return std::all_of(prompt->begin(), prompt->end(), is_kind); };
  const bool is_one = prompt->is_string() || (prompt->is_array() && !prompt->empty() &&
                                              among([](const Json& entry) { return entry.is_number(); }));
  if (is_one) return {prompt};
  const bool is_batch = prompt->is_array() && !prompt->empty() &&
                        (among([](const Json& entry) { return entry.is_string(); }) ||
                         among([](const Json& entry) { return entry.is_array(); }));
  if (!is_batch) fields.fail_value("prompt", *prompt, "a string, a list of token ids, or a list of either");
  std::vector<const Json*> entries;
  for (const Json& entry : *prompt) entries.push_back(&entry);
  return entries;
}

std::vector<std::int32_t> entry_tokens(const Json& entry, const TextRules& rules, const ServedFacts& facts,
                                       const std::string& param) {
  const auto* text = entry.get_ptr<const std::string*>();
  if (text == nullptr) return read_token_ids(entry, facts.files->checkpoint().config().vocab_size, param);
  return encode_prompt(*text, rules, facts, param);
}

// What an echo shows: models pad their vocabularies, so an id may stand for nothing.
std::string entry_text(const Json& entry, const engine::Request& request, const ServedFacts& facts) {
  if (entry.is_string()) return entry.get<std::string>();
  if (!facts.files->text().has_tokenizer()) return {};
  text::StreamDetokenizer detokenizer(facts.files->text().tokenizer(), request.skip_special_tokens);
  std::string text;
  for (const std::int32_t id : request.prompt) text += detokenizer.push(id);
  return text + detokenizer.flush();
}

}  // namespace

CompletionCall parse_completion(const RequestBody& body, const ServedFacts& facts, const CallRules& rules,
                                const Caller& caller) {
  const OwnedJson root = parse_object(body, "the body", kHarmlessFields, max_numbers(facts));
  Fields fields(*root);
  CompletionCall call;
  engine::Request common = read_common_fields(fields, facts, rules, caller, call);
  const AnswerLength length = {.given = fields.integer("max_tokens", 0, INT64_MAX),
                               .preferred = kDefaultCompletionTokens};
  const TextRules text_rules(fields, true, body, facts);
  call.echo = fields.boolean("echo").value_or(false);
  call.logprobs = static_cast<int>(fields.integer("logprobs", 0, kMaxLogprobs).value_or(-1));
  common.logprobs = call.logprobs;
  if (call.echo) common.prompt_logprobs = std::max(common.prompt_logprobs, call.logprobs);
  const std::vector<const Json*> entries = prompt_entries(fields);
  fields.allow_only(kFixedForCompletions);
  fields.refuse_the_rest();

  const std::int64_t answers = static_cast<std::int64_t>(entries.size()) * common.choices;
  if (answers > kMaxCallChoices)
    throw bad_request(fmt::format("{} prompts with n = {} ask for {} answers, more than the {} that a request may",
                                  entries.size(), common.choices, answers, kMaxCallChoices),
                      "prompt", "invalid_value");
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string param = entries.size() == 1 ? "prompt" : fmt::format("prompt[{}]", i);
    std::vector<std::int32_t> tokens = entry_tokens(*entries[i], text_rules, facts, param);
    call.requests.push_back(request_for(std::move(tokens), common, length, facts, param));
    if (call.echo) call.prompt_texts.push_back(entry_text(*entries[i], call.requests.back(), facts));
  }
  const int per_token = call.prompt_logprobs + 1 + (call.echo ? call.logprobs + 1 : 0);
  check_prompt_logprobs(call, per_token, common.choices, call.prompt_logprobs >= 0 ? "prompt_logprobs" : "logprobs");
  return call;
}

// {"object": "text_completion"}

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
