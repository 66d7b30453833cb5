// From a call to the response of HTTP: the engine's updates, gathered into one body or sent on as events.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/service.hpp"
#include "server/http/message.hpp"
#include "server/metrics.hpp"
#include "server/openai/call.hpp"
#include "server/openai/reply.hpp"
#include "server/served_model.hpp"

namespace reprofuse::server {

// One of the engine's updates, and which prompt of the call it is about.
struct PromptUpdate {
  std::size_t prompt;
  engine::Update update;
};

// The updates of all prompts of one call, as they come. Destroying it cancels what has not ended.
class AnswerFeed {
 public:
  // Submits the requests, all or none, their answers with this one notifier. Throws what Service::submit_all throws.
  AnswerFeed(engine::Service& service, std::vector<engine::Request> requests, Metrics& metrics,
             std::chrono::steady_clock::time_point begin, std::shared_ptr<engine::AnswerNotifier> notifier);

  std::optional<PromptUpdate> next();  // none: nothing has come, or everything has ended
  // From now on `call` is called, by any thread, whenever something new is there.
  void on_update(std::function<void()> call) { notifier_->set_callback(std::move(call)); }

 private:
  std::optional<PromptUpdate> take(std::size_t index);  // of one of the open prompts

  RequestTimer timer_;
  std::shared_ptr<engine::AnswerNotifier> notifier_;
  std::vector<std::unique_ptr<engine::Answers>> answers_;
  std::vector<std::size_t> open_;  // prompts whose answers have not all ended
  std::size_t turn_ = 0;           // which of them is looked at first
};

struct AnswerContext {
  std::shared_ptr<ServedModel> model;
  Metrics& metrics;
  RequestLogEntry& log_entry;
  std::shared_ptr<ReplyMemory::Grant> memory;
};

// Starts to compute the answer: the response is pending. The context's references must outlive it. Throws what
// Service::submit_all throws, a refusal as an ApiError.
HttpResponse answer_call(Call& call, std::unique_ptr<Reply> reply, const AnswerContext& context);

}  // namespace reprofuse::server
