// Cuts a template into text and tokens, as Jinja2 does with trim_blocks and lstrip_blocks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/limits.hpp"

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

// The last token is kEnd. Throws TemplateError.
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

}  // namespace reprofuse::text::jinja
