#include "server/stream_feed.hpp"

#include <algorithm>
#include <utility>

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

std::optional<News> AnswerFeed::next(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!open_.empty()) {
    if (auto news = take_any()) return news;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (!bell_->wait(std::max(left, std::chrono::milliseconds(0)))) break;
  }
  return std::nullopt;
}

std::optional<News> AnswerFeed::take_any() {
  for (std::size_t i = 0; i < open_.size(); ++i) {
    turn_ = (turn_ + 1) % open_.size();
    if (auto news = take(turn_)) return news;
  }
  return std::nullopt;
}

std::optional<News> AnswerFeed::take(std::size_t index) {
  const std::size_t prompt = open_[index];
  std::optional<engine::Update> update = answers_[prompt]->next(std::chrono::milliseconds(0));
  if (!update) return std::nullopt;
  timer_.add(prompt, *update);
  if (answers_[prompt]->finished()) {
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(index));
    turn_ = 0;
  }
  return News{prompt, std::move(*update)};
}

}  // namespace reprofuse::server
