#include "engine/prompt_lookup.hpp"

#include <algorithm>

namespace reprofuse::engine {

std::span<const std::int32_t> guess_next(std::span<const std::int32_t> text, std::int64_t count) {
  for (const std::size_t length : {3, 2}) {
    if (text.size() <= length) continue;
    const auto ending = text.last(length);
    const auto before = text.first(text.size() - 1);  // so that something follows what is found
    const auto found = std::find_end(before.begin(), before.end(), ending.begin(), ending.end());
    if (found == before.end()) continue;
    const auto next = text.subspan(static_cast<std::size_t>(found - before.begin()) + length);
    return next.first(std::min(next.size(), static_cast<std::size_t>(count)));
  }
  return {};
}

}  // namespace reprofuse::engine
