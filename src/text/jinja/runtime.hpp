// What one rendering shares among all that it calls, and how arguments reach functions, filters, tests and methods.
#pragma once

#include <deque>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_template_date.hpp"
#include "text/jinja/limits.hpp"
#include "text/jinja/value.hpp"

namespace reprofuse::text::jinja {

struct Runtime {
  Budget budget;
  DateTime now;                      // the only clock a template can read
  std::deque<Namespace> namespaces;  // stable addresses
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Matches arguments, which it refers to, with the names of parameters; the first `required` must be given.
class Parameters {
 public:
  Parameters(std::string_view user, const Arguments& given, std::initializer_list<std::string_view> names,
             std::size_t required = 0);
  Parameters(std::string_view, Arguments&&, std::initializer_list<std::string_view>, std::size_t = 0) = delete;

  bool has(std::size_t i) const { return values_[i] != nullptr; }
  const Value& operator[](std::size_t i) const { return *values_[i]; }

  // With what applies when the argument is not given, or is none.
  std::string_view string_or(std::size_t i, std::string_view otherwise) const;
  std::int64_t integer_or(std::size_t i, std::int64_t otherwise) const;
  bool truth_or(std::size_t i, bool otherwise) const;

 private:
  std::string_view user_;
  std::vector<const Value*> values_;
};

}  // namespace reprofuse::text::jinja
