#include "server/stream_feed.hpp"

#include <algorithm>
#include <utility>

namespace reprofuse::server {

AnswerFeed::AnswerFeed(engine::Service& service, std::vector<engine::Request> requests, Metrics& metrics,
                       std::chrono::steady_clock::time_point begin)
    : timer_(metrics, begin, requests.size()) {
  for (const engine::Request& request : requests) service.engine().check(request);  // before any of them starts
  for (engine::Request& request : requests) {
    const int choices = request.choices;
    answers_.push_back(service.submit(std::move(request)));
    timer_.expect(open_.size(), choices);
    open_.push_back(open_.size());
  }
}

std::optional<News> AnswerFeed::next(std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kNow{0};
  constexpr std::chrono::milliseconds kWhileOthersMayCome{2};
  for (std::size_t i = 0; i < open_.size(); ++i) {
    turn_ = (turn_ + 1) % open_.size();
    if (auto news = take(turn_, kNow)) return news;
  }
  if (open_.empty()) return std::nullopt;
  return take(turn_, open_.size() == 1 ? patience : std::min(patience, kWhileOthersMayCome));
}

std::optional<News> AnswerFeed::take(std::size_t index, std::chrono::milliseconds patience) {
  const std::size_t prompt = open_[index];
  std::optional<engine::Update> update = answers_[prompt]->next(patience);
  if (!update) return std::nullopt;
  timer_.add(prompt, *update);
  if (answers_[prompt]->finished()) {
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(index));
    turn_ = 0;
  }
  return News{prompt, std::move(*update)};
}

}  // namespace reprofuse::server
