#include "server/api/reply_base.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.hpp"
#include "server/api/error.hpp"

namespace reprofuse::server {
namespace {

bool is_failure(const engine::Update& update) {
  return update.end && update.end->finish_reason == engine::FinishReason::kError;
}

ApiError failure_of(const engine::End& end) {
  if (end.by_stop) return {503, "service_unavailable_error", end.error, std::nullopt, "stopped"};
  return server_error(end.error, "generation_failed");
}

// Texts are UTF-8 all through; were one not, a reply with a replaced byte is better than none.
std::string written(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

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

void ReplyBase::gather_prompt(std::size_t prompt, const engine::Update& update) {
  prompts_[prompt].insert(prompts_[prompt].end(), update.prompt.begin(), update.prompt.end());
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
  if (!update.end || is_failure(update) || choice.steps.steps() == 0) return;
  engine::Request request = request_of(choice);
  request.sampling.seed += static_cast<std::uint64_t>(update.choice);
  try {
    const receipt::Issued issued = facts_.issuer->issue(request, std::exchange(choice.steps, {}), *call_.receipt);
    choice.receipt = Json::parse(issued.envelope.text());
    if (issued.opening) choice.receipt_opening = Json::parse(issued.opening->text());
  } catch (const Error& error) {  // its words are about the server's own files
    failed_ = true;
    ApiError failure = server_error("the receipt could not be kept", "receipt_failed");
    failure.set_log_note(fmt::format("receipt_failed: {}", error.what()));
    throw failure;
  }
}

void ReplyBase::add(std::size_t prompt, const engine::Update& update) {
  Choice& choice = choice_at(prompt, update.choice);
  record(choice, update);
  gather_prompt(prompt, update);
  count_logprobs(update);
  choice.tokens.insert(choice.tokens.end(), update.tokens.begin(), update.tokens.end());
  completion_tokens_ += static_cast<std::int64_t>(update.tokens.size());
  if (!update.end) return;
  choice.end = update.end;
  --open_choices_;
  failed_ = failed_ || is_failure(update);
}

std::string ReplyBase::body() const {
  for (const Choice& choice : choices_)
    if (choice.end && choice.end->finish_reason == engine::FinishReason::kError) throw failure_of(*choice.end);
  invariant(finished(), "a reply was asked for before its end");
  Json body = head(object_name());
  Json& list = body["choices"] = Json::array();
  for (const Choice& choice : choices_) list.push_back(whole_choice(choice));
  body["usage"] = usage();
  complete_body(body);
  return written(body);
}

std::vector<std::string> ReplyBase::chunks(std::size_t prompt, const engine::Update& update) {
  if (failed_) return {};
  choice_at(prompt, update.choice);
  gather_prompt(prompt, update);
  if (is_failure(update)) {
    failed_ = true;
    return {error_body(failure_of(*update.end))};
  }
  held_[prompt].push_back(update);
  std::vector<std::string> lines;
  if (!knows_prompt(prompt)) return lines;
  for (const engine::Update& next : std::exchange(held_[prompt], {})) stream_update(prompt, next, lines);
  return lines;
}

void ReplyBase::stream_update(std::size_t prompt, const engine::Update& update, std::vector<std::string>& lines) {
  Choice& choice = choice_at(prompt, update.choice);
  if (!std::exchange(choice.is_open, true)) {
    if (auto opening = opening_chunk(choice)) lines.push_back(line_of(std::move(*opening)));
  }
  const bool tells_more =
      call_.logprobs >= 0 || call_.return_token_ids || request_of(choice).digest != DigestKind::kNone;
  for (const engine::AnswerToken& token : update.tokens) {
    ++completion_tokens_;
    if (tells_more || !token.text.empty()) lines.push_back(line_of(chunk_with(token_choice(choice, token))));
  }
  record(choice, update);
  if (!update.end) return;
  --open_choices_;
  lines.push_back(line_of(chunk_with(end_choice(choice, *update.end))));
}

std::vector<std::string> ReplyBase::last_chunks() const {
  if (failed_ || !call_.include_usage) return {};
  Json chunk = head(chunk_name());
  chunk["choices"] = Json::array();
  chunk["usage"] = usage();
  return {written(chunk)};
}

std::string ReplyBase::line_of(Json chunk) const {
  if (call_.continuous_usage)
    chunk["usage"] = usage();
  else if (call_.include_usage)
    chunk["usage"] = nullptr;
  return written(chunk);
}

Json ReplyBase::head(std::string_view object) const {
  return {{"id", request_id_},
          {"object", object},
          {"created", created_},
          {"model", facts_.id},
          {"system_fingerprint", facts_.fingerprint}};
}

Json ReplyBase::chunk_with(Json choice) const {
  Json chunk = head(chunk_name());
  chunk["choices"] = Json::array({std::move(choice)});
  return chunk;
}

// A prompt counts once, however many choices answer it.
Json ReplyBase::usage() const {
  std::int64_t prompt_tokens = 0;
  for (const engine::Request& request : call_.requests)
    prompt_tokens += static_cast<std::int64_t>(request.prompt.size());
  Json usage = {{"prompt_tokens", prompt_tokens},
                {"completion_tokens", completion_tokens_},
                {"total_tokens", prompt_tokens + completion_tokens_}};
  if (call_.report_cached_tokens)
    usage["prompt_tokens_details"] = {
        {"cached_tokens", std::accumulate(cached_tokens_.begin(), cached_tokens_.end(), std::int64_t{0})}};
  return usage;
}

// As in vLLM, stop_reason is what the client asked to stop at, and null when the model ended its answer by itself.
void ReplyBase::add_end(Json& json, const Choice& choice, const engine::End& end) const {
  json["finish_reason"] = engine::finish_reason_name(end.finish_reason);
  json["stop_reason"] = nullptr;
  const std::vector<std::int32_t>& asked = call_.stop_token_ids;
  if (end.stop_string) json["stop_reason"] = *end.stop_string;
  if (end.stop_token && std::find(asked.begin(), asked.end(), *end.stop_token) != asked.end())
    json["stop_reason"] = *end.stop_token;
  // Where no token was chosen, no logits were chained, and a digest of nothing would be equal to any other.
  const bool of_nothing = end.digest.ends_with(std::string(64, '0'));
  if (!end.digest.empty()) json["digest"] = of_nothing ? Json() : Json(end.digest);
  if (call_.receipt) json["receipt"] = choice.receipt;
  if (!choice.receipt_opening.is_null()) json["receipt_opening"] = choice.receipt_opening;
}

void ReplyBase::add_token_facts(Json& choice, const engine::AnswerToken& token) const {
  choice["finish_reason"] = nullptr;
  if (call_.return_token_ids) choice["token_ids"] = Json::array({token.id});
  if (!token.digest.empty()) choice["digest"] = token.digest;
}

}  // namespace reprofuse::server
