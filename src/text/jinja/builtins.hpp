// What templates can use: functions, methods, filters, tests and operators; and how arguments reach them.
#pragma once

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_template.hpp"
#include "text/jinja/ast.hpp"
#include "text/jinja/limits.hpp"
#include "text/jinja/value.hpp"

namespace reprofuse::text::jinja {

class Markers;

struct Runtime {
  Budget budget;
  DateTime now;                      // the only clock a template can read
  std::deque<Namespace> namespaces;  // stable addresses
  const Markers* markers = nullptr;  // of the template, if it has any
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

// A function that every template can call: Jinja2's, and those that Hugging Face adds.
struct Function {
  std::string_view name;
  Value (*call)(const Arguments& arguments, Runtime& runtime);
};

// Null when it is not supported.
const Function* find_function(std::string_view name);

// Arguments of a method or filter of a string that looks for the first of them, without the template's markers, which
// what it is given does not have.
Arguments spell_what_is_looked_for(const Value& object, const Arguments& arguments, const Runtime& runtime);

// The methods of Python's strings and mappings that templates call.
Value call_method(const Value& object, std::string_view name, const Arguments& arguments, Runtime& runtime);

// A test: value is name(argument).
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

// A filter: value | name(arguments).
struct FilterInput {
  std::string_view user;  // "filter 'join'"
  const Value& value;
  const Arguments& arguments;
  Runtime& runtime;
};

struct Filter {
  std::string_view name;
  std::string_view user;
  Value (*apply)(const FilterInput& input);
  bool takes_undefined = false;
};

// Null when it is not supported.
const Filter* find_filter(std::string_view name);
Value apply_filter(const Filter& filter, const Value& value, const Arguments& arguments, Runtime& runtime);

// Those of text are in filters.cpp ...
namespace filters {
Value capitalize(const FilterInput& input);
Value indent(const FilterInput& input);
Value lower(const FilterInput& input);
Value replace(const FilterInput& input);
Value title(const FilterInput& input);
Value trim(const FilterInput& input);
Value upper(const FilterInput& input);
// ... and those of sequences in sequence_filters.cpp.
Value first(const FilterInput& input);
Value join(const FilterInput& input);
Value last(const FilterInput& input);
Value map(const FilterInput& input);
Value reject(const FilterInput& input);
Value rejectattr(const FilterInput& input);
Value reverse(const FilterInput& input);
Value select(const FilterInput& input);
Value selectattr(const FilterInput& input);
Value sort(const FilterInput& input);
Value unique(const FilterInput& input);
}  // namespace filters

// Python's operators on template values. What Python refuses is a TemplateError; so is what only Python could do.

bool equal(const Value& a, const Value& b, Budget& budget);
bool less(const Value& a, const Value& b, Budget& budget);  // of numbers or of strings
bool compare(Comparator comparator, const Value& a, const Value& b, Budget& budget);
bool contains(const Value& container, const Value& item, Budget& budget);

Value arithmetic(BinaryOperator operation, const Value& a, const Value& b, Budget& budget);
Value negate(const Value& value);

// object.name and object[key]; nothing where Jinja2 gives an undefined value.
std::optional<Value> get_attribute(const Value& object, std::string_view name);
std::optional<Value> get_item(const Value& object, const Value& key, Budget& budget);

struct SliceBounds {
  std::optional<std::int64_t> start;
  std::optional<std::int64_t> stop;
  std::int64_t step = 1;
};
Value slice(const Value& object, const SliceBounds& bounds, Budget& budget);

}  // namespace reprofuse::text::jinja
