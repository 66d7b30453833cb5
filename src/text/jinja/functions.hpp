// The functions that every template can call: Jinja2's, and those that Hugging Face adds.
#pragma once

#include <string_view>

#include "text/jinja/runtime.hpp"

namespace reprofuse::text::jinja {

struct Function {
  std::string_view name;
  Value (*call)(const Arguments& arguments, Runtime& runtime);
};

// Null when it is not supported.
const Function* find_function(std::string_view name);

}  // namespace reprofuse::text::jinja
