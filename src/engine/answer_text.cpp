#include "engine/answer_text.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "reprofuse/answer.hpp"

namespace reprofuse {

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kCancelled: return "cancelled";
    case FinishReason::kError: break;
  }
  return "error";
}

}  // namespace reprofuse

namespace reprofuse::engine {

AnswerText::AnswerText(const std::optional<Tokenizer>& tokenizer, std::vector<std::string> stop_strings,
                       bool keep_stop_string, bool skip_special_tokens)
    : stop_strings_(std::move(stop_strings)), keep_stop_string_(keep_stop_string) {
  if (tokenizer) detokenizer_.emplace(*tokenizer, skip_special_tokens);
}

std::string AnswerText::push(std::int32_t token) {
  if (!detokenizer_) return {};
  held_ += detokenizer_->push(token);
  if (find_stop_string()) return std::exchange(held_, {});
  const std::size_t size = certain();
  std::string text = held_.substr(0, size);
  held_.erase(0, size);
  return text;
}

std::string AnswerText::flush() {
  if (!detokenizer_ || stopped_by_) return {};
  held_ += detokenizer_->flush();
  return std::exchange(held_, {});
}

bool AnswerText::find_stop_string() {
  std::size_t first = std::string::npos;
  for (const std::string& stop : stop_strings_) {
    const std::size_t at = held_.find(stop);
    if (at >= first) continue;
    first = at;
    stopped_by_ = stop;
  }
  if (!stopped_by_) return false;
  held_.resize(first + (keep_stop_string_ ? stopped_by_->size() : 0));
  return true;
}

std::size_t AnswerText::certain() const {
  const auto may_start_at = [&](std::size_t at) {
    const std::string_view rest = std::string_view(held_).substr(at);
    return std::any_of(stop_strings_.begin(), stop_strings_.end(),
                       [&](const std::string& stop) { return std::string_view(stop).starts_with(rest); });
  };
  std::size_t at = 0;
  while (at < held_.size() && !may_start_at(at)) ++at;
  return at;
}

}  // namespace reprofuse::engine
