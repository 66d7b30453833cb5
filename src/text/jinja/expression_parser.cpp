#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "text/jinja/evaluator.hpp"
#include "text/jinja/parser.hpp"

namespace reprofuse::text::jinja {

ExpressionPtr ExpressionParser::parse() {
  const Level level(*this);
  const int line = tokens_.line();
  ExpressionPtr value = parse_or();
  while (tokens_.take_name("if")) {
    ExpressionPtr condition = parse_or();
    ExpressionPtr otherwise = tokens_.take_name("else") ? parse() : nullptr;
    const int height = above(value, condition, otherwise);
    value = make(line, height, Conditional{std::move(condition), std::move(value), std::move(otherwise)});
  }
  return value;
}

ExpressionPtr ExpressionParser::parse_without_if() {
  return parse_tuple_of(&ExpressionParser::parse_or);
}

ExpressionPtr ExpressionParser::parse_tuple() {
  return parse_tuple_of(&ExpressionParser::parse);
}

ExpressionPtr ExpressionParser::parse_tuple_of(ExpressionPtr (ExpressionParser::*parse_item)()) {
  const int line = tokens_.line();
  ExpressionPtr first = (this->*parse_item)();
  if (!tokens_.is_operator(",")) return first;
  ExpressionList items;
  items.push_back(std::move(first));
  while (tokens_.take_operator(",")) {
    const bool ends =
        tokens_.is_operator(")") || tokens_.is(TokenKind::kStatementEnd) || tokens_.is(TokenKind::kExpressionEnd);
    if (ends) break;
    items.push_back((this->*parse_item)());
  }
  const int height = above(items);
  return make(line, height, SequenceLiteral{SequenceKind::kTuple, std::move(items)});
}

ExpressionPtr ExpressionParser::parse_or() {
  ExpressionPtr left = parse_and();
  for (int line = tokens_.line(); tokens_.take_name("or"); line = tokens_.line()) {
    ExpressionPtr right = parse_and();
    const int height = above(left, right);
    left = make(line, height, Logical{false, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_and() {
  ExpressionPtr left = parse_not();
  for (int line = tokens_.line(); tokens_.take_name("and"); line = tokens_.line()) {
    ExpressionPtr right = parse_not();
    const int height = above(left, right);
    left = make(line, height, Logical{true, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_not() {
  const Level level(*this);
  const int line = tokens_.line();
  if (!tokens_.take_name("not")) return parse_comparison();
  ExpressionPtr operand = parse_not();
  const int height = above(operand);
  return make(line, height, Unary{UnaryOperator::kNot, std::move(operand)});
}

bool ExpressionParser::take_comparator(Comparator& comparator) {
  static constexpr std::array<std::pair<std::string_view, Comparator>, 6> kOperators = {{
      {"==", Comparator::kEqual},
      {"!=", Comparator::kNotEqual},
      {"<", Comparator::kLess},
      {"<=", Comparator::kLessEqual},
      {">", Comparator::kGreater},
      {">=", Comparator::kGreaterEqual},
  }};
  for (const auto& [text, meaning] : kOperators) {
    if (!tokens_.take_operator(text)) continue;
    comparator = meaning;
    return true;
  }
  if (tokens_.take_name("in")) {
    comparator = Comparator::kIn;
    return true;
  }
  const Token& second = tokens_.peek(1);
  if (tokens_.is_name("not") && second.kind == TokenKind::kName && second.text == "in") {
    tokens_.next();
    tokens_.next();
    comparator = Comparator::kNotIn;
    return true;
  }
  return false;
}

ExpressionPtr ExpressionParser::parse_comparison() {
  const int line = tokens_.line();
  ExpressionPtr first = parse_sum();
  std::vector<std::pair<Comparator, ExpressionPtr>> rest;
  for (Comparator comparator; take_comparator(comparator);) rest.emplace_back(comparator, parse_sum());
  if (rest.empty()) return first;
  const int height = above(first, rest);
  return make(line, height, Comparison{std::move(first), std::move(rest)});
}

ExpressionPtr ExpressionParser::parse_sum() {
  ExpressionPtr left = parse_concatenation();
  while (tokens_.is_operator("+") || tokens_.is_operator("-")) {
    const Token token = tokens_.next();
    ExpressionPtr right = parse_concatenation();
    const int height = above(left, right);
    const BinaryOperator operation = token.text == "+" ? BinaryOperator::kAdd : BinaryOperator::kSubtract;
    left = make(token.line, height, Binary{operation, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_concatenation() {
  const int line = tokens_.line();
  ExpressionPtr first = parse_product();
  if (!tokens_.is_operator("~")) return first;
  ExpressionList parts;
  parts.push_back(std::move(first));
  while (tokens_.take_operator("~")) parts.push_back(parse_product());
  const int height = above(parts);
  return make(line, height, Concatenation{std::move(parts)});
}

ExpressionPtr ExpressionParser::parse_product() {
  static constexpr std::array<std::pair<std::string_view, BinaryOperator>, 4> kOperators = {{
      {"*", BinaryOperator::kMultiply},
      {"/", BinaryOperator::kDivide},
      {"//", BinaryOperator::kFloorDivide},
      {"%", BinaryOperator::kModulo},
  }};
  ExpressionPtr left = parse_power();
  for (;;) {
    const auto found = std::find_if(kOperators.begin(), kOperators.end(),
                                    [&](const auto& entry) { return tokens_.is_operator(entry.first); });
    if (found == kOperators.end()) return left;
    const int line = tokens_.next().line;
    ExpressionPtr right = parse_power();
    const int height = above(left, right);
    left = make(line, height, Binary{found->second, std::move(left), std::move(right)});
  }
}

// As in Jinja2, and unlike Python, powers group from the left.
ExpressionPtr ExpressionParser::parse_power() {
  ExpressionPtr left = parse_unary(true);
  for (int line = tokens_.line(); tokens_.take_operator("**"); line = tokens_.line()) {
    ExpressionPtr right = parse_unary(true);
    const int height = above(left, right);
    left = make(line, height, Binary{BinaryOperator::kPower, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_unary(bool with_filters) {
  const Level level(*this);
  ExpressionPtr value;
  if (tokens_.is_operator("-") || tokens_.is_operator("+")) {
    const Token token = tokens_.next();
    ExpressionPtr operand = parse_unary(false);
    const int height = above(operand);
    const UnaryOperator operation = token.text == "-" ? UnaryOperator::kMinus : UnaryOperator::kPlus;
    value = make(token.line, height, Unary{operation, std::move(operand)});
  } else {
    value = parse_primary();
  }
  value = parse_postfix(std::move(value));
  return with_filters ? parse_filters_and_tests(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::parse_primary() {
  const int line = tokens_.line();
  switch (tokens_.peek().kind) {
    case TokenKind::kName: return parse_name();
    case TokenKind::kInteger: return make(line, 1, Literal{Value(tokens_.next().integer)});
    case TokenKind::kFloat: return make(line, 1, Literal{Value(tokens_.next().number)});
    case TokenKind::kString: {
      std::string text;  // adjacent strings are one
      while (tokens_.is(TokenKind::kString)) text += tokens_.next().text;
      return make(line, 1, Literal{Value(std::move(text))});
    }
    default: break;
  }
  if (tokens_.is_operator("[")) return parse_list();
  if (tokens_.is_operator("{")) return parse_mapping();
  if (!tokens_.take_operator("(")) tokens_.fail_expecting("an expression");
  if (tokens_.take_operator(")")) return make(line, 1, SequenceLiteral{SequenceKind::kTuple, {}});
  ExpressionPtr inside = parse_tuple();
  tokens_.expect_operator(")");
  return inside;
}

ExpressionPtr ExpressionParser::parse_name() {
  const Token token = tokens_.next();
  if (token.text == "true" || token.text == "True") return make(token.line, 1, Literal{Value(true)});
  if (token.text == "false" || token.text == "False") return make(token.line, 1, Literal{Value(false)});
  if (token.text == "none" || token.text == "None") return make(token.line, 1, Literal{Value()});
  for (const std::string_view keyword : {"and", "or", "not", "if", "else", "in", "is"}) {
    if (token.text == keyword) template_error_at(token.line, "expected an expression, not '{}'", keyword);
  }
  return make(token.line, 1, Name{token.text});
}

ExpressionPtr ExpressionParser::parse_list() {
  const int line = tokens_.next().line;
  ExpressionList items;
  while (!tokens_.take_operator("]")) {
    if (!items.empty()) {
      tokens_.expect_operator(",");
      if (tokens_.take_operator("]")) break;
    }
    items.push_back(parse());
  }
  const int height = above(items);
  return make(line, height, SequenceLiteral{SequenceKind::kList, std::move(items)});
}

ExpressionPtr ExpressionParser::parse_mapping() {
  const int line = tokens_.next().line;
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> items;
  while (!tokens_.take_operator("}")) {
    if (!items.empty()) {
      tokens_.expect_operator(",");
      if (tokens_.take_operator("}")) break;
    }
    ExpressionPtr key = parse();
    tokens_.expect_operator(":");
    items.emplace_back(std::move(key), parse());
  }
  const int height = above(items);
  return make(line, height, MappingLiteral{std::move(items)});
}

ExpressionPtr ExpressionParser::parse_postfix(ExpressionPtr object) {
  for (;;) {
    if (tokens_.is_operator(".")) {
      object = parse_attribute(std::move(object));
    } else if (tokens_.is_operator("[")) {
      object = parse_subscript(std::move(object));
    } else if (tokens_.is_operator("(")) {
      object = parse_call(std::move(object));
    } else {
      return object;
    }
  }
}

ExpressionPtr ExpressionParser::parse_attribute(ExpressionPtr object) {
  const int line = tokens_.next().line;
  const int height = above(object);
  if (tokens_.is(TokenKind::kInteger)) {  // list.0 is list[0]
    ExpressionPtr key = make(line, 1, Literal{Value(tokens_.next().integer)});
    return make(line, height, Subscript{std::move(object), std::move(key)});
  }
  return make(line, height, Attribute{std::move(object), tokens_.expect_any_name("the name of an attribute")});
}

ExpressionPtr ExpressionParser::parse_subscript(ExpressionPtr object) {
  const int line = tokens_.next().line;
  const auto ends_part = [&] { return tokens_.is_operator(":") || tokens_.is_operator("]"); };
  ExpressionPtr start = ends_part() ? nullptr : parse_tuple();
  if (start && tokens_.take_operator("]")) {
    const int height = above(object, start);
    return make(line, height, Subscript{std::move(object), std::move(start)});
  }
  if (!tokens_.take_operator(":")) tokens_.fail_expecting("an index, ':' or ']'");
  ExpressionPtr stop = ends_part() ? nullptr : parse();
  ExpressionPtr step = tokens_.take_operator(":") && !ends_part() ? parse() : nullptr;
  tokens_.expect_operator("]");
  const int height = above(object, start, stop, step);
  return make(line, height, Slice{std::move(object), std::move(start), std::move(stop), std::move(step)});
}

ExpressionPtr ExpressionParser::parse_call(ExpressionPtr callee) {
  const int line = tokens_.line();
  if (!std::holds_alternative<Name>(callee->node) && !std::holds_alternative<Attribute>(callee->node)) {
    template_error_at(line, "only a name or a method can be called");
  }
  CallArguments arguments = parse_arguments();
  const int height = above(callee, arguments);
  return make(line, height, Call{std::move(callee), std::move(arguments)});
}

CallArguments ExpressionParser::parse_arguments() {
  CallArguments arguments;
  tokens_.expect_operator("(");
  for (bool first = true; !tokens_.take_operator(")"); first = false) {
    if (!first) {
      tokens_.expect_operator(",");
      if (tokens_.take_operator(")")) break;
    }
    if (tokens_.is_operator("*") || tokens_.is_operator("**")) {
      template_error_at(tokens_.line(), "'{}' before an argument is not supported", tokens_.peek().text);
    }
    const Token& second = tokens_.peek(1);
    if (tokens_.is(TokenKind::kName) && second.kind == TokenKind::kOperator && second.text == "=") {
      std::string name = tokens_.next().text;
      for (const auto& given : arguments.named) {
        if (given.first == name) template_error_at(tokens_.line(), "argument '{}' is given twice", name);
      }
      tokens_.next();
      arguments.named.emplace_back(std::move(name), parse());
    } else if (arguments.named.empty()) {
      arguments.positional.push_back(parse());
    } else {
      template_error_at(tokens_.line(), "an argument without a name follows one with a name");
    }
  }
  return arguments;
}

ExpressionPtr ExpressionParser::parse_filters_and_tests(ExpressionPtr operand) {
  for (;;) {
    if (tokens_.take_operator("|")) {
      operand = parse_filter(std::move(operand));
    } else if (tokens_.take_name("is")) {
      operand = parse_test(std::move(operand));
    } else if (tokens_.is_operator("(")) {
      template_error_at(tokens_.line(), "only a name or a method can be called");
    } else {
      return operand;
    }
  }
}

ExpressionPtr ExpressionParser::parse_filter(ExpressionPtr input) {
  const int line = tokens_.line();
  const std::string name = tokens_.expect_any_name("the name of a filter");
  const Filter* filter = find_filter(name);
  if (filter == nullptr) template_error_at(line, "filter '{}' is not supported", name);
  CallArguments arguments;
  if (tokens_.is_operator("(")) arguments = parse_arguments();
  const int height = above(input, arguments);
  return make(line, height, FilterCall{filter, std::move(input), std::move(arguments)});
}

ExpressionPtr ExpressionParser::parse_test(ExpressionPtr operand) {
  const int line = tokens_.line();
  const bool negated = tokens_.take_name("not");
  const std::string name = tokens_.expect_any_name("the name of a test");
  const Test* test = find_test(name);
  if (test == nullptr) template_error_at(line, "test '{}' is not supported", name);
  CallArguments arguments;
  if (tokens_.is_operator("(")) {
    arguments = parse_arguments();
  } else if (test->takes_argument) {  // x is divisibleby 3
    arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  const int height = above(operand, arguments);
  return make(line, height, TestCall{test, negated, std::move(operand), std::move(arguments)});
}

}  // namespace reprofuse::text::jinja
