// The news of all prompts of one call, as they come.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "engine/service.hpp"
#include "server/metrics.hpp"

namespace reprofuse::server {

struct News {
  std::size_t prompt;
  engine::Update update;
};

// Dropping it cancels what has not ended.
class AnswerFeed {
 public:
  // Submits the requests, all or none. Throws what Service::submit_all throws.
  AnswerFeed(engine::Service& service, std::vector<engine::Request> requests, Metrics& metrics,
             std::chrono::steady_clock::time_point begin);

  // None: nothing came in time, or everything has ended.
  std::optional<News> next(std::chrono::milliseconds patience);

 private:
  std::optional<News> take_any();               // what is there already,
  std::optional<News> take(std::size_t index);  // of one of the open prompts

  RequestTimer timer_;
  std::shared_ptr<engine::AnswerBell> bell_ = std::make_shared<engine::AnswerBell>();  // of all answers
  std::vector<std::unique_ptr<engine::Answers>> answers_;
  std::vector<std::size_t> open_;  // prompts whose answers have not all ended
  std::size_t turn_ = 0;           // which of them is looked at first
};

}  // namespace reprofuse::server
