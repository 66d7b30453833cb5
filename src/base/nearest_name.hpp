// For errors about a name that is not known: the one that may have been meant.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprofuse {

// Letters to be put in, left out or replaced to get from one to the other.
inline std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// The first of the names that are nearest, in quotes: "; did you mean '--shapes'?". Empty where each is `far` letters
// away or more.
template <typename Names>
std::string suggest_name(std::string_view typed, const Names& names, std::size_t far = 3) {
  std::string suggestion;
  for (const std::string& name : names) {
    // As far already, by length alone: long names take no time.
    if (std::max(typed.size(), name.size()) - std::min(typed.size(), name.size()) >= far) continue;
    if (const std::size_t distance = edit_distance(typed, name); distance < far) {
      far = distance;
      suggestion = "; did you mean '" + name + "'?";
    }
  }
  return suggestion;
}

}  // namespace reprofuse
