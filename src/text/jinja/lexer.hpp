// Cuts a template into text and tokens, as Jinja2 does with trim_blocks and lstrip_blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace reprofuse::text::jinja
