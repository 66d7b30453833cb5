#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/api/call.hpp"
#include "text/tokenizer/detokenizer.hpp"

namespace reprofuse::server {
namespace {

constexpr std::int64_t kDefaultCompletionTokens = 16;

constexpr AllowedValue kFixedForCompletions[] = {{"suffix", "null"}, {"prompt_embeds", "null"}};

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
  if (answers > kMaxAnswers)
    throw bad_request(fmt::format("{} prompts with n = {} ask for {} answers, more than the {} that a request may",
                                  entries.size(), common.choices, answers, kMaxAnswers),
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

}  // namespace reprofuse::server
