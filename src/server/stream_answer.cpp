#include "server/stream_answer.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "server/api/error.hpp"

namespace reprofuse::server {

AnswerFeed::AnswerFeed(engine::Service& service, std::vector<engine::Request> requests, Metrics& metrics,
                       std::chrono::steady_clock::time_point begin)
    : timer_(metrics, begin, requests.size()) {
  std::vector<int> choices;
  choices.reserve(requests.size());
  for (const engine::Request& request : requests) choices.push_back(request.choices);
  answers_ = service.submit_all(std::move(requests), bell_);
  for (std::size_t prompt = 0; prompt < choices.size(); ++prompt) {
    timer_.expect(prompt, choices[prompt]);
    open_.push_back(prompt);
  }
}

std::optional<PromptUpdate> AnswerFeed::next(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!open_.empty()) {
    if (auto found = take_any()) return found;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (!bell_->wait(std::max(left, std::chrono::milliseconds(0)))) break;
  }
  return std::nullopt;
}

std::optional<PromptUpdate> AnswerFeed::take_any() {
  for (std::size_t i = 0; i < open_.size(); ++i) {
    turn_ = (turn_ + 1) % open_.size();
    if (auto found = take(turn_)) return found;
  }
  return std::nullopt;
}

std::optional<PromptUpdate> AnswerFeed::take(std::size_t index) {
  const std::size_t prompt = open_[index];
  std::optional<engine::Update> update = answers_[prompt]->next(std::chrono::milliseconds(0));
  if (!update) return std::nullopt;
  timer_.add(prompt, *update);
  if (answers_[prompt]->finished()) {
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(index));
    turn_ = 0;
  }
  return PromptUpdate{prompt, std::move(*update)};
}

namespace {

constexpr std::chrono::milliseconds kBetweenLooks{50};  // at whether the client is still there
constexpr int kClientClosedRequest = 499;               // nginx's number for what HTTP has none for
constexpr const char* kClientLeft = "the client left";
constexpr const char* kBrokenOff = "broken off: the server stopped";

// An answer under way.
struct Running {
  AnswerContext context;
  std::unique_ptr<Reply> reply;
  AnswerFeed feed;

  Running(const AnswerContext& of, std::unique_ptr<Reply> into, std::vector<engine::Request> requests)
      : context(of),
        reply(std::move(into)),
        feed(of.model->service(), std::move(requests), of.metrics, of.record.begin) {}

  // The next update of the engine; none when the client has gone.
  std::optional<PromptUpdate> next() {
    while (!context.client.gone())
      if (std::optional<PromptUpdate> found = feed.next(kBetweenLooks)) {
        context.record.answer_tokens += static_cast<std::int64_t>(found->update.tokens.size());
        return found;
      }
    note_unfinished();
    return std::nullopt;
  }

  // A server that stops closes connections itself, and a client that it closed did not leave.
  void note_unfinished() { context.record.note = context.model->service().stopped() ? kBrokenOff : kClientLeft; }
};

std::string event(const std::string& data) {
  return "data: " + data + "\n\n";
}

HttpResponse gather(Running& running) {
  while (!running.reply->finished()) {
    const std::optional<PromptUpdate> next = running.next();
    if (!next) return http_error(kClientClosedRequest, kClientLeft, "client_closed_request");
    running.reply->add(next->prompt, next->update);
  }
  HttpResponse response;
  response.body = running.reply->body();
  return response;
}

// An answer that failed ends without [DONE], so that no client takes it for a whole one.
bool send_events(Running& running, EventSink& sink) {
  std::string failure;
  while (!running.reply->finished()) {
    const std::optional<PromptUpdate> next = running.next();
    if (!next) return false;
    if (const auto& end = next->update.end; end && end->finish_reason == engine::FinishReason::kError)
      failure = end->by_stop ? kBrokenOff : "an answer failed";
    std::string events;
    for (const std::string& chunk : running.reply->chunks(next->prompt, next->update)) events += event(chunk);
    if (!events.empty() && !sink.send(events)) {
      running.note_unfinished();
      return false;
    }
  }
  std::string events;
  for (const std::string& chunk : running.reply->last_chunks()) events += event(chunk);
  running.context.record.note = failure;
  if (failure.empty()) events += event("[DONE]");
  return sink.send(events);
}

std::shared_ptr<Running> start(Call& call, std::unique_ptr<Reply> reply, const AnswerContext& context) {
  const char* asks_for_many = call.requests.front().choices > 1 ? "n" : "prompt";
  try {
    return std::make_shared<Running>(context, std::move(reply), std::move(call.requests));
  } catch (const engine::Refused& refused) {
    throw from_library_error(refused, asks_for_many);
  }
}

}  // namespace

HttpResponse answer_call(Call& call, std::unique_ptr<Reply> reply, const AnswerContext& context) {
  for (const engine::Request& request : call.requests)
    context.record.prompt_tokens += static_cast<std::int64_t>(request.prompt.size());
  const std::shared_ptr<Running> running = start(call, std::move(reply), context);
  if (!call.stream) return gather(*running);
  HttpResponse response;
  response.content_type = "text/event-stream; charset=utf-8";
  response.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  response.stream = [running](EventSink& sink) { return send_events(*running, sink); };
  return response;
}

}  // namespace reprofuse::server
