// What tells the special tokens that a template writes from the same spelling in what it is given.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprofuse/tokenizer.hpp"
#include "text/jinja/value.hpp"

namespace reprofuse::text::jinja {

// Characters that stand for the special tokens that a template itself writes, so that they can be told from the same
// spelling in what it is given: a text that was rendered with them has no other special tokens.
class Markers {
 public:
  // They are for private use; a text that has one cannot be rendered with them.
  static bool occur_in(std::string_view text);

  // The text with a marker in place of each of these parts of it.
  std::string mark(std::string_view text, std::span<const TextSpan> tokens);

  // A string, or those in a list, as they are spelled.
  Value spelled(const Value& value) const;

  // The text as it is spelled, and what of it lies between markers.
  struct Unmarked {
    std::string text;
    std::vector<TextSpan> plain;
  };
  Unmarked unmark(std::string_view text) const;

 private:
  std::vector<std::string> spellings_;
  std::map<std::string, std::size_t, std::less<>> numbers_;  // of spellings
};

}  // namespace reprofuse::text::jinja
