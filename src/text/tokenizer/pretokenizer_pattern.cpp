#include "text/tokenizer/pretokenizer_pattern.hpp"

#include <pcre2.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <new>

#include "base/check.hpp"

namespace reprofuse::text {
namespace {

// What one match may take. A run of white space is walked back over once, a step for each character, so the limit on
// steps grows with the text; patterns that need more than this are those that explode.
constexpr std::uint64_t kStepsForAnyText = 1'000'000;
constexpr std::uint64_t kStepsForEachByte = 8;
constexpr std::uint32_t kHeapKiB = 64 * 1024;
constexpr std::size_t kLongestPattern = 16384;

std::uint32_t step_limit(std::size_t text_bytes) {
  const std::uint64_t steps = kStepsForAnyText + kStepsForEachByte * text_bytes;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(steps, std::numeric_limits<std::uint32_t>::max()));
}

std::string message_of(int code) {
  PCRE2_UCHAR message[256];
  return pcre2_get_error_message(code, message, sizeof message) < 0 ? fmt::format("PCRE2 error {}", code)
                                                                    : reinterpret_cast<const char*>(message);
}

}  // namespace

Pattern::Scratch::Scratch()
    : data_(pcre2_match_data_create(1, nullptr), [](pcre2_match_data* data) { pcre2_match_data_free(data); }),
      limits_(pcre2_match_context_create(nullptr),
              [](pcre2_match_context* limits) { pcre2_match_context_free(limits); }) {
  if (!data_ || !limits_) throw std::bad_alloc();
  pcre2_set_heap_limit(limits_.get(), kHeapKiB);
}

// No just-in-time compiler: it passes over the limit on memory, has a stack of its own that a long text can exhaust,
// and needs memory that is both writable and executable.
Pattern::Pattern(std::string_view oniguruma, std::string place) : place_(std::move(place)) {
  require(oniguruma.size() <= kLongestPattern, "{}: a pattern of {} bytes is too long; at most {} are supported",
          place_, oniguruma.size(), kLongestPattern);
  const std::string pattern = to_pcre2(oniguruma, place_);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP,
                                   &error, &offset, nullptr);
  require(code != nullptr, "{}: the pattern '{}' is not supported: {}", place_, oniguruma, message_of(error));
  code_ = std::shared_ptr<pcre2_code>(code, [](pcre2_code* c) { pcre2_code_free(c); });
}

void Pattern::split(std::string_view text, std::size_t base, Scratch& scratch, std::vector<std::size_t>& ends) const {
  pcre2_set_match_limit(scratch.limits_.get(), step_limit(text.size()));
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  std::size_t end_of_last = 0;
  const auto end_part = [&](std::size_t end) {
    if (end > end_of_last) ends.push_back(base + end);
    end_of_last = std::max(end_of_last, end);
  };
  for (std::size_t start = 0; start < text.size();) {
    // The caller has checked the text; PCRE2 would check all of it again for each match.
    const int result = pcre2_match(code_.get(), subject, text.size(), start, PCRE2_NO_UTF_CHECK, scratch.data_.get(),
                                   scratch.limits_.get());
    if (result == PCRE2_ERROR_NOMATCH) break;
    require(result >= 0, "{}: the pattern fails on a text of {} bytes: {}", place_, text.size(), message_of(result));
    const PCRE2_SIZE* match = pcre2_get_ovector_pointer(scratch.data_.get());
    end_part(match[0]);
    end_part(match[1]);
    start = match[1];
    if (match[1] > match[0]) continue;
    // An empty match cuts, too; the search goes on after the next character.
    do ++start;
    while (start < text.size() && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80);
  }
  end_part(text.size());
}

}  // namespace reprofuse::text
