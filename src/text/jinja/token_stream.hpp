// A reader over the tokens of a template, shared by the parsers of expressions and statements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/error.hpp"
#include "text/jinja/lexer.hpp"

namespace reprofuse::text::jinja {

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
