// The tests of templates: value is name(argument).
#pragma once

#include <string_view>

#include "text/jinja/runtime.hpp"

namespace reprofuse::text::jinja {

struct TestInput {
  std::string_view user;  // "test 'even'"
  const Value& value;
  const Value* argument;  // null unless the test takes one
  Runtime& runtime;
};

struct Test {
  std::string_view name;
  std::string_view user;
  bool (*apply)(const TestInput& input);
  bool takes_argument = false;
};

// Null when it is not supported.
const Test* find_test(std::string_view name);
bool apply_test(const Test& test, const Value& value, const Arguments& arguments, Runtime& runtime);

}  // namespace reprofuse::text::jinja
