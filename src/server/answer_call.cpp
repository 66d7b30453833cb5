#include "server/answer_call.hpp"

#include <string>
#include <utility>

#include "server/openai/error.hpp"

namespace reprofuse::server {

AnswerFeed::AnswerFeed(engine::Service& service, std::vector<engine::Request> requests, Metrics& metrics,
                       std::chrono::steady_clock::time_point begin, std::shared_ptr<engine::AnswerNotifier> notifier)
    : timer_(metrics, begin, requests.size()), notifier_(std::move(notifier)) {
  std::vector<int> choices;
  choices.reserve(requests.size());
  for (const engine::Request& request : requests) choices.push_back(request.choices);
  answers_ = service.submit_all(std::move(requests), notifier_);
  for (std::size_t prompt = 0; prompt < choices.size(); ++prompt) {
    timer_.expect(prompt, choices[prompt]);
    open_.push_back(prompt);
  }
}

std::optional<PromptUpdate> AnswerFeed::next() {
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

constexpr std::size_t kReceiptStepBytes = sizeof(LogitsRoot) + sizeof(std::int32_t);
constexpr const char* kClientLeft = "the client left";
constexpr const char* kBrokenOff = "broken off: the server stopped";

void add_event(std::string& events, std::string_view data) {
  events.append(kEventBegin).append(data).append(kEventEnd);
}

// An answer under way.
class RunningAnswer final : public PendingResponse {
 public:
  RunningAnswer(const AnswerContext& context, std::unique_ptr<Reply> reply, Call& call)
      : context_(context),
        reply_(std::move(reply)),
        feed_(context.model->service(), std::move(call.requests), context.metrics, context.log_entry.begin,
              notifier_for(context, call)),
        is_stream_(call.stream),
        has_receipt_(call.receipt.has_value()) {}

  void on_update(std::function<void()> call) override { feed_.on_update(std::move(call)); }

  State advance(std::string& events, std::size_t enough, bool may_wait) override {
    context_.memory->shrink(std::exchange(event_bytes_, 0));
    const State state = add_all(events, enough, may_wait);
    if (events.size() < enough || context_.memory->grow(events.size())) {
      event_bytes_ = events.size() < enough ? 0 : events.size();
      return state;
    }
    events.clear();
    add_failure(no_memory(), events);
    return State::kComplete;
  }

  HttpResponse response() override {
    try {
      if (failure_) throw *failure_;
      if (!context_.memory->grow(reply_->body_bytes())) throw no_memory();
      HttpResponse response;
      response.body = reply_->body();
      return response;
    } catch (const ApiError& error) {
      context_.log_entry.note = error.log_note();
      return error_response(error);
    }
  }

  // A server that stops closes connections itself, and a client that it closed did not leave.
  void note_departure() override {
    context_.log_entry.note = context_.model->service().stopped() ? kBrokenOff : kClientLeft;
  }

 private:
  // A stream's updates are given up when they have become events; of other answers all stay till the end.
  static std::shared_ptr<engine::AnswerNotifier> notifier_for(const AnswerContext& context, const Call& call) {
    return std::make_shared<engine::AnswerNotifier>(
        !call.stream, [memory = context.memory](std::size_t bytes) { return memory->grow(bytes); });
  }
  static ApiError no_memory() {
    engine::End end;
    end.error = engine::kNoMemoryForAnswer;
    end.by_memory = true;
    return failure_of(end);
  }

  State add_all(std::string& events, std::size_t enough, bool may_wait) {
    try {
      while (!reply_->finished()) {
        if (!next_) next_ = feed_.next();
        if (!next_) return State::kNothingMore;
        // Its receipt is signed, and kept on a disk.
        if (signs(next_->update) && !std::exchange(may_wait, false)) return State::kMustWait;
        PromptUpdate next = *std::exchange(next_, std::nullopt);
        context_.log_entry.answer_tokens += static_cast<std::int64_t>(next.update.tokens.size());
        is_stream_ ? add_events(std::move(next), events) : reply_->add(next.prompt, std::move(next.update));
        if (!context_.memory->grow(reply_->take_receipt_bytes())) throw no_memory();
        if (events.size() >= enough) return State::kNothingMore;
      }
      if (is_stream_) end_events(events);
    } catch (const ApiError& error) {
      is_stream_ ? add_failure(error, events) : void(failure_ = error);
    }
    return State::kComplete;
  }

  bool signs(const engine::Update& update) const {
    return has_receipt_ && update.end && update.end->finish_reason != engine::FinishReason::kError;
  }

  void add_events(PromptUpdate next, std::string& events) {
    if (const auto& end = next.update.end; end && end->finish_reason == engine::FinishReason::kError)
      context_.log_entry.note = end->by_stop ? kBrokenOff : "an answer failed";
    // A prompt stays till the end, and so does what a receipt will have of each step.
    const std::size_t kept = has_receipt_ ? next.update.tokens.size() * kReceiptStepBytes : 0;
    const std::size_t bytes = next.update.prompt.empty() ? engine::bytes_of(next.update) - kept : 0;
    try {
      reply_->add_chunks(next.prompt, std::move(next.update), events);
    } catch (const ApiError& error) {
      add_failure(error, events);
    }
    context_.memory->shrink(bytes);
  }

  void add_failure(const ApiError& error, std::string& events) {
    context_.log_entry.note = error.log_note();
    add_event(events, error_body(error));
  }

  // An answer that failed ends without [DONE], so that no client takes it for a whole one.
  void end_events(std::string& events) {
    reply_->add_last_chunks(events);
    if (context_.log_entry.note.empty()) add_event(events, "[DONE]");
  }

  AnswerContext context_;
  std::unique_ptr<Reply> reply_;
  AnswerFeed feed_;
  const bool is_stream_, has_receipt_;
  std::optional<PromptUpdate> next_;  // taken, and not added yet
  std::size_t event_bytes_ = 0;       // counted, of events that are being sent
  std::optional<ApiError> failure_;
};

}  // namespace

HttpResponse answer_call(Call& call, std::unique_ptr<Reply> reply, const AnswerContext& context) {
  for (const engine::Request& request : call.requests)
    context.log_entry.prompt_tokens += static_cast<std::int64_t>(request.prompt.size());
  const char* asks_for_many = call.requests.front().choices > 1 ? "n" : "prompt";
  HttpResponse response;
  try {
    response.pending = std::make_shared<RunningAnswer>(context, std::move(reply), call);
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
