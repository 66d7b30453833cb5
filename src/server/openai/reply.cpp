#include "server/openai/reply.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>

#include "base/check.hpp"

namespace reprofuse::server {
namespace {

bool is_failure(const engine::Update& update) {
  return update.end && update.end->finish_reason == engine::FinishReason::kError;
}

}  // namespace

ApiError failure_of(const engine::End& end) {
  if (end.by_stop) return {503, "service_unavailable_error", end.error, std::nullopt, "stopped"};
  if (end.by_memory) return {503, "server_error", end.error, std::nullopt, "out_of_memory"};
  return server_error(end.error, "generation_failed");
}

ReplyBase::ReplyBase(const Call& call, const ServedFacts& facts, std::string request_id, std::int64_t created)
    : call_(call),
      facts_(facts),
      names_(facts, call.tokens_as_ids),
      request_id_(std::move(request_id)),
      created_(created),
      prompts_(call.requests.size()),
      held_(call.requests.size()),
      cached_tokens_(call.requests.size()) {
  for (std::size_t prompt = 0; prompt < call_.requests.size(); ++prompt)
    for (int i = 0; i < call_.requests[prompt].choices; ++i)
      choices_.push_back({.index = choices_.size(), .prompt = prompt, .is_open = false, .tokens = {}, .end = {}});
  open_choices_ = choices_.size();
}

Choice& ReplyBase::choice_at(std::size_t prompt, int choice) {
  invariant(prompt < call_.requests.size() && choice >= 0 && choice < call_.requests[prompt].choices,
            "an update of a choice that was not requested");
  const auto each = static_cast<std::size_t>(call_.requests[prompt].choices);  // the same for every prompt
  return choices_[prompt * each + static_cast<std::size_t>(choice)];
}

void ReplyBase::gather_prompt(std::size_t prompt, engine::Update& update) {
  std::move(update.prompt.begin(), update.prompt.end(), std::back_inserter(prompts_[prompt]));
  if (update.choice == 0) cached_tokens_[prompt] = std::max(cached_tokens_[prompt], update.cached_prompt_tokens);
}

bool ReplyBase::knows_prompt(std::size_t prompt) const {
  const engine::Request& request = call_.requests[prompt];
  return request.prompt_logprobs < 0 || prompts_[prompt].size() >= request.prompt.size();
}

void ReplyBase::count_logprobs(const engine::Update& update) {
  for (const engine::AnswerToken& token : update.tokens)
    if (token.likelihood) logprobs_ += 1 + static_cast<std::int64_t>(token.likelihood->top.size());
  if (logprobs_ <= kMaxAnswerLogprobs) return;
  throw bad_request(
      fmt::format("the answers have more than the {} log-probabilities that a reply may have: stream them, or ask "
                  "for fewer by logprobs, top_logprobs, n or max_tokens",
                  kMaxAnswerLogprobs),
      "logprobs", "invalid_value");
}

// Keeps what a receipt needs, and has it signed when the choice ends.
void ReplyBase::record(Choice& choice, const engine::Update& update) {
  if (!call_.receipt) return;
  choice.steps.add(update);
  if (!update.end || is_failure(update) || choice.steps.step_count() == 0) return;
  engine::Request request = request_of(choice);
  request.sampling.seed += static_cast<std::uint64_t>(update.choice);
  try {
    const receipt::Issued issued = facts_.issuer->issue(request, std::exchange(choice.steps, {}), *call_.receipt);
    choice.receipt = issued.envelope.text();
    if (issued.opening) choice.receipt_opening = issued.opening->text();
    receipt_bytes_ += choice.receipt.size() + choice.receipt_opening.size();
  } catch (const Error& error) {  // its words are about the server's own files
    failed_ = true;
    ApiError failure = server_error("the receipt could not be kept", "receipt_failed");
    failure.set_log_note(fmt::format("receipt_failed: {}", error.what()));
    throw failure;
  }
}

void ReplyBase::add(std::size_t prompt, engine::Update update) {
  Choice& choice = choice_at(prompt, update.choice);
  record(choice, update);
  gather_prompt(prompt, update);
  count_logprobs(update);
  completion_tokens_ += static_cast<std::int64_t>(update.tokens.size());
  std::move(update.tokens.begin(), update.tokens.end(), std::back_inserter(choice.tokens));
  if (!update.end) return;
  choice.end = std::move(update.end);
  --open_choices_;
  failed_ = failed_ || choice.end->finish_reason == engine::FinishReason::kError;
}

std::string ReplyBase::body() const {
  for (const Choice& choice : choices_)
    if (choice.end && choice.end->finish_reason == engine::FinishReason::kError) throw failure_of(*choice.end);
  invariant(finished(), "a reply was asked for before its end");
  return json_object([&](JsonWriter& json) {
    write_head(json, object_name());
    json.key("choices").array([&] {
      for (const Choice& choice : choices_) json.object([&] { write_whole(json, choice); });
    });
    write_usage(json);
    write_prompt(json);
  });
}

// Ids, names and numbers in decimal digits. The prompt may stand beside each choice, as text and as ids.
std::size_t ReplyBase::body_bytes() const {
  constexpr std::size_t kPerId = 8, kPerLogprob = 64;
  const auto of_logprobs = [](const std::optional<engine::Likelihood>& likelihood) {
    return likelihood ? (1 + likelihood->top.size()) * kPerLogprob : 0;
  };
  std::size_t bytes = 0;
  for (const Choice& choice : choices_) {
    bytes += choice.receipt.size() + choice.receipt_opening.size() + 2 * kPerId * request_of(choice).prompt.size();
    for (const engine::PromptToken& token : prompt_of(choice)) bytes += of_logprobs(token.likelihood);
    for (const engine::AnswerToken& token : choice.tokens)
      bytes += token.text.size() + kPerId + of_logprobs(token.likelihood);
  }
  return bytes;
}

void ReplyBase::add_chunks(std::size_t prompt, engine::Update update, std::string& events) {
  if (failed_) return;
  choice_at(prompt, update.choice);
  gather_prompt(prompt, update);
  if (is_failure(update)) {
    failed_ = true;
    events.append(kEventBegin).append(error_body(failure_of(*update.end))).append(kEventEnd);
    return;
  }
  if (!knows_prompt(prompt)) return held_[prompt].push_back(std::move(update));
  for (const engine::Update& held : std::exchange(held_[prompt], {})) stream_update(prompt, held, events);
  stream_update(prompt, update, events);
}

// `content` writes what follows the head, but for the usage.
template <typename Content>
void ReplyBase::add_chunk(std::string& events, Content content) const {
  events += kEventBegin;
  JsonWriter json(events);
  json.object([&] {
    write_head(json, chunk_name());
    content(json);
  });
  events += kEventEnd;
}

void ReplyBase::stream_update(std::size_t prompt, const engine::Update& update, std::string& events) {
  Choice& choice = choice_at(prompt, update.choice);
  const auto add_choice = [&](const auto& write_choice, bool is_opening = false) {
    add_chunk(events, [&](JsonWriter& json) {
      json.key("choices").array([&] { json.object([&] { write_choice(json); }); });
      if (is_opening) write_prompt(json);
      if (call_.continuous_usage)
        write_usage(json);
      else if (call_.include_usage)
        json.field("usage", nullptr);
    });
  };
  if (!std::exchange(choice.is_open, true) && has_opening())
    add_choice([&](JsonWriter& json) { write_opening(json, choice); }, true);
  const bool tells_more =
      call_.logprobs >= 0 || call_.return_token_ids || request_of(choice).digest != DigestKind::kNone;
  for (const engine::AnswerToken& token : update.tokens) {
    ++completion_tokens_;
    if (tells_more || !token.text.empty()) add_choice([&](JsonWriter& json) { write_token(json, choice, token); });
  }
  record(choice, update);
  if (!update.end) return;
  --open_choices_;
  add_choice([&](JsonWriter& json) { write_end(json, choice, *update.end); });
  choice.receipt = choice.receipt_opening = {};
  receipt_bytes_ = 0;
}

void ReplyBase::add_last_chunks(std::string& events) const {
  if (failed_ || !call_.include_usage) return;
  add_chunk(events, [&](JsonWriter& json) {
    json.key("choices").array([] {});
    write_usage(json);
  });
}

void ReplyBase::write_head(JsonWriter& json, std::string_view object) const {
  json.field("id", request_id_).field("object", object).field("created", created_).field("model", facts_.id);
  json.field("system_fingerprint", facts_.fingerprint);
}

// A prompt counts once, however many choices answer it.
void ReplyBase::write_usage(JsonWriter& json) const {
  std::int64_t prompt_tokens = 0;
  for (const engine::Request& request : call_.requests)
    prompt_tokens += static_cast<std::int64_t>(request.prompt.size());
  json.key("usage").object([&] {
    json.field("prompt_tokens", prompt_tokens).field("completion_tokens", completion_tokens_);
    json.field("total_tokens", prompt_tokens + completion_tokens_);
    if (!call_.report_cached_tokens) return;
    const auto cached = std::accumulate(cached_tokens_.begin(), cached_tokens_.end(), std::int64_t{0});
    json.key("prompt_tokens_details").object([&] { json.field("cached_tokens", cached); });
  });
}

// As in vLLM, stop_reason is what the client asked to stop at, and null when the model ended its answer by itself.
void ReplyBase::write_end_facts(JsonWriter& json, const Choice& choice, const engine::End& end) const {
  json.field("finish_reason", engine::finish_reason_name(end.finish_reason)).key("stop_reason");
  const std::vector<std::int32_t>& asked = call_.stop_token_ids;
  if (end.stop_token && std::find(asked.begin(), asked.end(), *end.stop_token) != asked.end())
    json.value(*end.stop_token);
  else
    json.value(end.stop_string);
  if (request_of(choice).digest != DigestKind::kNone)  // null: no token was chosen, so that there are no logits
    json.field("digest", end.digest.empty() ? std::nullopt : std::optional(end.digest));
  if (call_.receipt) json.key("receipt").raw(choice.receipt);
  if (!choice.receipt_opening.empty()) json.key("receipt_opening").raw(choice.receipt_opening);
}

void ReplyBase::write_token_facts(JsonWriter& json, const engine::AnswerToken& token) const {
  json.field("finish_reason", nullptr);
  if (call_.return_token_ids) json.field("token_ids", std::span(&token.id, 1));
  if (!token.digest.empty()) json.field("digest", token.digest);
}

}  // namespace reprofuse::server
