// Values as text: what {{ }} prints (Python's str), and what the filter tojson writes (Python's json.dumps).
#pragma once

#include <optional>
#include <string>

#include "text/jinja/value.hpp"

namespace reprofuse::text::jinja {

// str(): a string is itself, undefined is nothing, True, None, 1.0, ['a', 1], {'key': 'value'}.
std::string to_text(const Value& value, Budget& budget);

// repr() of a float: the shortest digits that read back as the same number.
std::string float_text(double value);

struct JsonStyle {
  std::optional<std::int64_t> indent;  // none: everything on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool ascii = false;  // write \uXXXX for everything else
  bool sort_keys = false;
};

std::string to_json(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace reprofuse::text::jinja
