// From a template's source to tokens (lexer.cpp), and from tokens to expressions (expression_parser.cpp) and statements
// (parser.cpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "text/jinja/ast.hpp"
#include "text/jinja/value.hpp"

namespace reprofuse::text::jinja {

enum class TokenKind {
  kText,             // outside of all tags; white space is already trimmed
  kExpressionBegin,  // {{
  kExpressionEnd,
  kStatementBegin,  // {%
  kStatementEnd,
  kName,
  kString,  // escapes are already replaced
  kInteger,
  kFloat,
  kOperator,  // punctuation too
  kEnd,
};

struct Token {
  TokenKind kind;
  int line;
  std::string text;
  std::int64_t integer = 0;
  double number = 0;
};

// Cuts a template into text and tokens, as Jinja2 does with trim_blocks and lstrip_blocks. The last token is kEnd.
// Throws TemplateError.
std::vector<Token> tokenize(std::string_view source);

// A reader over the tokens of a template, shared by the parsers of expressions and statements.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& peek(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  int line() const { return peek().line; }

  Token next() {
    Token token = peek();
    if (at_ + 1 < tokens_.size()) ++at_;  // the end stays the end
    return token;
  }

  bool is(TokenKind kind) const { return peek().kind == kind; }
  bool is_operator(std::string_view text) const { return is(TokenKind::kOperator) && peek().text == text; }
  bool is_name(std::string_view text) const { return is(TokenKind::kName) && peek().text == text; }

  bool take_operator(std::string_view text) { return is_operator(text) && (next(), true); }
  bool take_name(std::string_view text) { return is_name(text) && (next(), true); }

  void expect_operator(std::string_view text) {
    if (!take_operator(text)) fail_expecting(text);
  }
  void expect_name(std::string_view text) {
    if (!take_name(text)) fail_expecting(text);
  }
  std::string expect_any_name(std::string_view what) {
    if (!is(TokenKind::kName)) fail_expecting(what);
    return next().text;
  }
  void expect(TokenKind kind, std::string_view what) {
    if (!is(kind)) fail_expecting(what);
    next();
  }

  [[noreturn]] void fail_expecting(std::string_view what) const {
    const Token& token = peek();
    const bool end = token.kind == TokenKind::kEnd;
    template_error_at(token.line, "expected {}, not {}", what,
                      end ? "the end of the template" : "'" + token.text + "'");
  }

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

inline int height_of(const ExpressionPtr& expression) {
  return expression ? expression->height : 0;
}

inline int height_of(const ExpressionList& list) {
  int height = 0;
  for (const ExpressionPtr& item : list) height = std::max(height, height_of(item));
  return height;
}

template <typename First>
int height_of(const std::vector<std::pair<First, ExpressionPtr>>& pairs) {
  int height = 0;
  for (const auto& [first, second] : pairs) {
    height = std::max(height, height_of(second));
    if constexpr (std::is_same_v<First, ExpressionPtr>) height = std::max(height, height_of(first));
  }
  return height;
}

inline int height_of(const CallArguments& arguments) {
  return std::max(height_of(arguments.positional), height_of(arguments.named));
}

// The height of a node above these.
template <typename... Children>
int above(const Children&... children) {
  return 1 + std::max({height_of(children)...});
}

// Jinja2's grammar of expressions: operators, and what they are applied to. The private functions stand from the
// loosest binding to the tightest.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  ExpressionPtr parse();                            // with `if` and `else`
  ExpressionPtr parse_tuple();                      // "a, b" is a tuple without parentheses
  ExpressionPtr parse_without_if();                 // as in `for x in ... if ...`
  ExpressionPtr parse_filter(ExpressionPtr input);  // at the name

 private:
  class Level {  // bounds the recursion of the parser itself
   public:
    explicit Level(ExpressionParser& parser) : parser_(parser) {
      parser_.check_depth(parser_.tokens_.line(), ++parser_.depth_);
    }
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    ExpressionParser& parser_;
  };

  ExpressionPtr parse_tuple_of(ExpressionPtr (ExpressionParser::*parse_item)());
  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_comparison();
  bool take_comparator(Comparator& comparator);
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concatenation();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool with_filters);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_name();
  ExpressionPtr parse_list();
  ExpressionPtr parse_mapping();
  ExpressionPtr parse_postfix(ExpressionPtr object);
  ExpressionPtr parse_attribute(ExpressionPtr object);
  ExpressionPtr parse_subscript(ExpressionPtr object);
  ExpressionPtr parse_call(ExpressionPtr callee);
  ExpressionPtr parse_filters_and_tests(ExpressionPtr operand);
  ExpressionPtr parse_test(ExpressionPtr operand);
  CallArguments parse_arguments();

  static void check_depth(int line, int depth) {
    if (depth <= Limits::kSyntaxDepth) return;
    template_error_at(line, "the expression is nested more than {} levels deep", Limits::kSyntaxDepth);
  }

  template <typename Node>
  static ExpressionPtr make(int line, int height, Node node) {
    check_depth(line, height);
    return std::make_unique<const Expression>(Expression{line, height, std::move(node)});
  }

  TokenStream& tokens_;
  int depth_ = 0;
};

}  // namespace reprofuse::text::jinja
