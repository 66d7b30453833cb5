#include "server/api/chat.hpp"

#include <fmt/format.h>

#include <utility>

#include "server/api/messages.hpp"

namespace reprofuse::server {
namespace {

constexpr AllowedValue kFixedForChats[] = {
    {"modalities", R"(["text"])"}, {"audio", "null"},         {"prediction", "null"},
    {"reasoning_effort", "null"},  {"verbosity", "null"},     {"web_search_options", "null"},
    {"functions", "null"},         {"function_call", "null"}, {"echo", "false"}};

// Two names for one thing.
AnswerLength read_length(Fields& fields, const ModelFacts& facts) {
  const auto old_name = fields.integer("max_tokens", 1, INT64_MAX);
  const auto new_name = fields.integer("max_completion_tokens", 1, INT64_MAX);
  if (old_name && new_name && *old_name != *new_name)
    throw bad_request(
        fmt::format("max_tokens is {} and max_completion_tokens, which means the same, {}", *old_name, *new_name),
        "max_completion_tokens", "invalid_value");
  return {.given = new_name ? new_name : old_name,
          .preferred = facts.files->checkpoint().generation_config().max_new_tokens.value_or(facts.max_positions),
          .field = new_name ? "max_completion_tokens" : "max_tokens"};
}

int read_chat_logprobs(Fields& fields) {
  const bool wanted = fields.boolean("logprobs").value_or(false);
  const auto most_likely = static_cast<int>(fields.integer("top_logprobs", 0, kMaxLogprobs).value_or(0));
  if (most_likely > 0 && !wanted)
    throw bad_request(fmt::format("top_logprobs is {}, but logprobs is not true", most_likely), "top_logprobs",
                      "invalid_value");
  return wanted ? most_likely : -1;
}

}  // namespace

ChatCall parse_chat(std::string_view body, const ModelFacts& facts, const CallRules& rules) {
  const Json root = parse_object(body);
  Fields fields(root);
  ChatCall call;
  engine::Request common = read_common_fields(fields, facts, rules, call);
  call.logprobs = read_chat_logprobs(fields);
  common.logprobs = call.logprobs;
  const AnswerLength length = read_length(fields, facts);
  fields.allow_only(kFixedForChats);
  std::vector<std::int32_t> prompt = read_chat_prompt(fields, facts);
  fields.refuse_the_rest();
  call.requests.push_back(request_for(std::move(prompt), common, length, facts, "messages"));
  check_prompt_likelihoods(call, call.prompt_logprobs + 1, 1, "prompt_logprobs");
  return call;
}

}  // namespace reprofuse::server
