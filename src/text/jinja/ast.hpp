// The syntax tree of a template. Its height is bounded by Limits::kSyntaxDepth, so that walking it needs no care.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/value.hpp"

namespace reprofuse::text::jinja {

struct Filter;  // evaluator.hpp
struct Test;    // evaluator.hpp

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;  // null where an optional part is left out
using ExpressionList = std::vector<ExpressionPtr>;

struct CallArguments {
  ExpressionList positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
};

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct SequenceLiteral {
  SequenceKind kind;
  ExpressionList items;
};
struct MappingLiteral {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> items;
};
enum class UnaryOperator { kNot, kMinus, kPlus };
struct Unary {
  UnaryOperator operation;
  ExpressionPtr operand;
};
enum class BinaryOperator { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
struct Binary {
  BinaryOperator operation;
  ExpressionPtr left;
  ExpressionPtr right;
};
struct Concatenation {  // a ~ b ~ c
  ExpressionList parts;
};
struct Logical {  // `and`, `or`: the value of the operand that decides
  bool is_and;
  ExpressionPtr left;
  ExpressionPtr right;
};
enum class Comparator { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };
struct Comparison {  // a < b < c, as in Python
  ExpressionPtr first;
  std::vector<std::pair<Comparator, ExpressionPtr>> rest;
};
struct Conditional {  // a if condition else b
  ExpressionPtr condition;
  ExpressionPtr then;
  ExpressionPtr otherwise;  // null: undefined
};
struct Attribute {  // object.name
  ExpressionPtr object;
  std::string name;
};
struct Subscript {  // object[key]
  ExpressionPtr object;
  ExpressionPtr key;
};
struct Slice {  // object[start:stop:step]
  ExpressionPtr object;
  ExpressionPtr start;
  ExpressionPtr stop;
  ExpressionPtr step;
};
struct Call {  // name(...) or object.method(...)
  ExpressionPtr callee;
  CallArguments arguments;
};
struct FilterCall {  // input | filter(...)
  const Filter* filter;
  ExpressionPtr input;  // null in {% set x | filter %}, where it is the block
  CallArguments arguments;
};
struct TestCall {  // operand is test(...)
  const Test* test;
  bool negated;
  ExpressionPtr operand;
  CallArguments arguments;
};

struct Expression {
  int line;
  int height;  // of the tree below, itself included
  std::variant<Literal, Name, SequenceLiteral, MappingLiteral, Unary, Binary, Concatenation, Logical, Comparison,
               Conditional, Attribute, Subscript, Slice, Call, FilterCall, TestCall>
      node;
};

struct Statement;
using Block = std::vector<Statement>;

struct Text {
  std::string text;
};
struct Print {
  ExpressionPtr value;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Block>> branches;  // if and elif
  Block otherwise;
};
struct For {
  std::vector<std::string> targets;
  bool unpacks;  // `for a, b in`; also `for a, in`
  ExpressionPtr items;
  ExpressionPtr condition;  // null: none
  Block body;
  Block otherwise;
};
struct Set {
  std::vector<std::string> targets;
  bool unpacks;
  ExpressionPtr value;
};
struct SetAttribute {  // {% set namespace.attribute = value %}
  std::string name;
  std::string attribute;
  ExpressionPtr value;
};
struct SetBlock {  // {% set name | filter %}...{% endset %}
  std::string name;
  ExpressionList filters;  // FilterCalls without input, in the order of application
  Block body;
};
struct Macro {
  std::string name;
  std::vector<std::pair<std::string, ExpressionPtr>> parameters;  // with their defaults, null where there is none
  Block body;
};
struct Scoped {  // {% generation %}: marks what the model wrote, for training; prints its body
  Block body;
};
struct Break {};
struct Continue {};

struct Statement {
  int line;
  std::variant<Text, Print, If, For, Set, SetAttribute, SetBlock, std::unique_ptr<const Macro>, Scoped, Break, Continue>
      node;
};

// From a template's source to its syntax tree. Throws TemplateError: for bad syntax, and for a statement, filter or
// test that is not supported.
Block parse(std::string_view source);

// Which variables a template asks for: the names that it reads where it may not have set them itself, in any
// conversation, without those of functions. It may be one too many, where a macro reads what the template sets before
// it calls the macro; it is never one too few.
std::set<std::string> free_names(const Block& block);

}  // namespace reprofuse::text::jinja
