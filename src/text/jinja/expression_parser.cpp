#include "text/jinja/expression_parser.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

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

}  // namespace reprofuse::text::jinja
