#include "server/answer_call.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "server/api/error.hpp"

namespace reprofuse::server {

AnswerFeed::AnswerFeed(engine::Service& service, std::vector<engine::Request> requests, Metrics& metrics,
                       std::chrono::steady_clock::time_point begin, bool only_ends_are_news)
    : timer_(metrics, begin, requests.size()), bell_(std::make_shared<engine::AnswerBell>(only_ends_are_news)) {
  std::vector<int> choices;
  choices.reserve(requests.size());
  for (const engine::Request& request : requests) choices.push_back(request.choices);
  answers_ = service.submit_all(std::move(requests), bell_);
  for (std::size_t prompt = 0; prompt < choices.size(); ++prompt) {
    timer_.expect(prompt, choices[prompt]);
    open_.push_back(prompt);
  }
}

std::optional<PromptUpdate> AnswerFeed::next(std::chrono::milliseconds timeout) {
  if (timeout.count() == 0) return take_any();
  const auto deadline = std::chrono::steady_clock::now() + timeout;
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

constexpr const char* kClientLeft = "the client left";
constexpr const char* kBrokenOff = "broken off: the server stopped";

void add_event(std::string& events, std::string_view data) {
  events.append(kEventBegin).append(data).append(kEventEnd);
}

// An answer under way.
class RunningAnswer final : public PendingAnswer {
 public:
  RunningAnswer(const AnswerContext& context, std::unique_ptr<Reply> reply, std::vector<engine::Request> requests,
                bool is_stream)
      : context_(context),
        reply_(std::move(reply)),
        feed_(context.model->service(), std::move(requests), context.metrics, context.record.begin, !is_stream),
        is_stream_(is_stream) {}

  void on_news(std::function<void()> call) override { feed_.on_news(std::move(call)); }

  bool advance(std::string& events, std::size_t enough) override {
    try {
      while (!reply_->finished()) {
        std::optional<PromptUpdate> next = feed_.next(std::chrono::milliseconds(0));
        if (!next) return false;
        context_.record.answer_tokens += static_cast<std::int64_t>(next->update.tokens.size());
        is_stream_ ? add_events(*std::move(next), events) : reply_->add(next->prompt, std::move(next->update));
        if (events.size() >= enough) return false;
      }
      if (is_stream_) end_events(events);
    } catch (const ApiError& error) {  // of what is no stream
      failure_ = error;
    }
    return true;
  }

  HttpResponse response() override {
    try {
      if (failure_) throw *failure_;
      HttpResponse response;
      response.body = reply_->body();
      return response;
    } catch (const ApiError& error) {
      context_.record.note = error.log_note();
      return error_response(error);
    }
  }

  // A server that stops closes connections itself, and a client that it closed did not leave.
  void note_departure() override {
    context_.record.note = context_.model->service().stopped() ? kBrokenOff : kClientLeft;
  }

 private:
  void add_events(PromptUpdate next, std::string& events) {
    if (const auto& end = next.update.end; end && end->finish_reason == engine::FinishReason::kError)
      context_.record.note = end->by_stop ? kBrokenOff : "an answer failed";
    try {
      reply_->add_chunks(next.prompt, std::move(next.update), events);
    } catch (const ApiError& error) {
      context_.record.note = error.log_note();
      add_event(events, error_body(error));
    }
  }

  // An answer that failed ends without [DONE], so that no client takes it for a whole one.
  void end_events(std::string& events) {
    reply_->add_last_chunks(events);
    if (context_.record.note.empty()) add_event(events, "[DONE]");
  }

  AnswerContext context_;
  std::unique_ptr<Reply> reply_;
  AnswerFeed feed_;
  bool is_stream_;
  std::optional<ApiError> failure_;
};

}  // namespace

HttpResponse answer_call(Call& call, std::unique_ptr<Reply> reply, const AnswerContext& context) {
  for (const engine::Request& request : call.requests)
    context.record.prompt_tokens += static_cast<std::int64_t>(request.prompt.size());
  const char* asks_for_many = call.requests.front().choices > 1 ? "n" : "prompt";
  HttpResponse response;
  try {
    response.pending =
        std::make_shared<RunningAnswer>(context, std::move(reply), std::move(call.requests), call.stream);
  } catch (const engine::Refused& refused) {
    throw from_library_error(refused, asks_for_many);
  }
  response.is_stream = call.stream;
  if (!call.stream) return response;
  response.content_type = "text/event-stream; charset=utf-8";
  response.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  return response;
}

}  // namespace reprofuse::server
