// Walks a syntax tree: statements write text, expressions give values.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.hpp"
#include "text/jinja/builtins.hpp"

namespace reprofuse::text::jinja {

using Variables = std::map<std::string, Value, std::less<>>;

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
