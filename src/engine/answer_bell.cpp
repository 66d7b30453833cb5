// What a reader of answers is told: that there is something, and how much memory it takes.
#include <utility>

#include "engine/service.hpp"

namespace reprofuse::engine {
namespace {

std::size_t bytes_of(const std::optional<Likelihood>& likelihood) {
  return likelihood ? likelihood->top.size() * sizeof(TokenLogprob) : 0;
}

}  // namespace

std::size_t bytes_of(const Update& update) {
  std::size_t bytes = sizeof(Update);
  for (const PromptToken& token : update.prompt) bytes += sizeof token + bytes_of(token.likelihood);
  for (const AnswerToken& token : update.tokens)
    bytes += sizeof token + token.text.size() + token.digest.size() + bytes_of(token.likelihood);
  if (update.end) bytes += update.end->text.size();
  return bytes;
}

void AnswerBell::ring() {
  const std::lock_guard lock(mutex_);
  has_rung_ = true;
  rung_.notify_all();
  if (call_) call_();
}

void AnswerBell::call_on_ring(std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  call_ = std::move(call);
}

bool AnswerBell::wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  rung_.wait_for(lock, timeout, [&] { return has_rung_; });
  return std::exchange(has_rung_, false);
}

}  // namespace reprofuse::engine
