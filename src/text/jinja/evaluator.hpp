// What runs a template: the functions, methods, filters, tests and operators that it can use, how arguments reach them,
// and the evaluator that walks the syntax tree.
#pragma once

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/date.hpp"
#include "text/jinja/ast.hpp"
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

using Variables = std::map<std::string, Value, std::less<>>;

// Statements write text, expressions give values.
class Evaluator {
 public:
  Evaluator(Runtime& runtime, Variables variables) : runtime_(runtime) { scopes_.push_back(std::move(variables)); }

  std::string render(const Block& block);

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class Scope;

  // Statements. Each returns how the block around it goes on.
  Flow run(const Block& block);
  Flow run(const Statement& statement);
  Flow execute(const Text& statement);
  Flow execute(const Print& statement);
  Flow execute(const If& statement);
  Flow execute(const For& statement);
  Flow execute(const Set& statement);
  Flow execute(const SetAttribute& statement);
  Flow execute(const SetBlock& statement);
  Flow execute(const std::unique_ptr<const Macro>& statement);
  Flow execute(const Scoped& statement);
  Flow execute(const Break&) { return Flow::kBreak; }
  Flow execute(const Continue&) { return Flow::kContinue; }
  std::vector<Value> items_of(const For& statement);
  void assign(const std::vector<std::string>& targets, bool unpacks, const Value& value);
  std::string capture(const Block& block);
  Value call_macro(const Macro& macro, const Arguments& arguments);
  void bind_parameters(const Macro& macro, const Arguments& arguments);
  void write(std::string_view text);

  // Expressions.
  Value evaluate(const Expression& expression);
  Value compute(const Literal& node);
  Value compute(const Name& node);
  Value compute(const SequenceLiteral& node);
  Value compute(const MappingLiteral& node);
  Value compute(const Unary& node);
  Value compute(const Binary& node);
  Value compute(const Concatenation& node);
  Value compute(const Logical& node);
  Value compute(const Comparison& node);
  Value compute(const Conditional& node);
  Value compute(const Attribute& node);
  Value compute(const Subscript& node);
  Value compute(const Slice& node);
  Value compute(const Call& node);
  Value compute(const FilterCall& node);
  Value compute(const TestCall& node);
  Value call_named(const Name& callee, const Arguments& arguments);
  Arguments evaluate(const CallArguments& arguments);
  const Value* find_variable(std::string_view name) const;

  Runtime& runtime_;
  std::vector<Variables> scopes_;  // the template's own first, the innermost last
  std::size_t visible_from_ = 0;   // inside a macro: its first scope; only the template's own is visible before
  std::string* output_ = nullptr;
};

}  // namespace reprofuse::text::jinja
