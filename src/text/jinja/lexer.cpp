#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <utility>

#include "text/jinja/parser.hpp"
#include "text/jinja/strings.hpp"
#include "text/jinja/value.hpp"
#include "text/tokenizer/unicode.hpp"

namespace reprofuse::text::jinja {
namespace {

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 16;
}

class Unescaper {
 public:
  Unescaper(std::string_view quoted, int line) : quoted_(quoted), line_(line) {}

  std::string run() {
    while (at_ < quoted_.size()) {
      const char c = quoted_[at_++];
      if (c == '\\') {
        replace_escape(quoted_[at_++]);  // a backslash is never the last: it would have escaped the quote
      } else {
        text_ += c;
      }
    }
    return std::move(text_);
  }

 private:
  void replace_escape(char letter) {
    static constexpr std::string_view kLetters = "\\'\"abfnrtv";
    static constexpr std::string_view kCharacters = "\\'\"\a\b\f\n\r\t\v";
    if (const std::size_t place = kLetters.find(letter); place != std::string_view::npos) {
      text_ += kCharacters[place];
    } else if (letter == 'x' || letter == 'u' || letter == 'U') {
      const std::size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
      append_number(letter, digits, digits, 16);
    } else if (digit_value(letter) < 8) {
      --at_;
      append_number(letter, 1, 3, 8);
    } else if (letter == 'N') {
      template_error_at(line_, "the escape \\N in a string is not supported");
    } else if (letter != '\n') {  // an escaped line end continues the string
      text_ += '\\';
      text_ += letter;
    }
  }

  void append_number(char letter, std::size_t min_digits, std::size_t max_digits, int base) {
    char32_t code_point = 0;
    std::size_t count = 0;
    for (; count < max_digits && at_ < quoted_.size() && digit_value(quoted_[at_]) < base; ++count) {
      code_point = code_point * static_cast<char32_t>(base) + static_cast<char32_t>(digit_value(quoted_[at_++]));
    }
    if (count < min_digits) template_error_at(line_, "the escape \\{} in a string needs {} digits", letter, min_digits);
    if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point <= 0xDFFF)) {
      template_error_at(line_, "the escape \\{} in a string stands for no character", letter);
    }
    append_code_point(code_point, text_);
  }

  std::string_view quoted_;
  int line_;
  std::size_t at_ = 0;
  std::string text_;
};

// Python's escapes of a string literal; `quoted` is what stands between the quotes. An unknown escape stays as written.
std::string unescape(std::string_view quoted, int line) {
  return Unescaper(quoted, line).run();
}

constexpr std::string_view kNothing;

bool is_name_start(char c) {
  return is_letter(c) || c == '_';
}
bool is_name_part(char c) {
  return is_name_start(c) || is_digit(c);
}

// Jinja2 makes every line end a "\n" and drops the last one.
std::string normalize_lines(std::string_view source) {
  std::string lines;
  lines.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      lines += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      lines += source[i];
    }
  }
  if (!lines.empty() && lines.back() == '\n') lines.pop_back();
  return lines;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      const std::size_t tag = next_tag();
      lex_text(tag);
      if (tag == std::string_view::npos) break;
      const char kind = source_[tag + 1];
      open_tag();
      if (kind == '#') {
        skip_comment();
      } else {
        lex_tag(kind == '{' ? "}}" : "%}", kind == '{' ? TokenKind::kExpressionEnd : TokenKind::kStatementEnd);
      }
    }
    add(TokenKind::kEnd, kNothing);
    return std::move(tokens_);
  }

 private:
  std::size_t next_tag() const {
    for (std::size_t at = source_.find('{', at_); at != std::string_view::npos; at = source_.find('{', at + 1)) {
      const std::string_view tag = source_.substr(at, 2);
      if (tag == "{{" || tag == "{%" || tag == "{#") return at;
    }
    return std::string_view::npos;
  }

  // The text up to `tag`, without what the tag's marks (- and +) and lstrip_blocks take from its end.
  void lex_text(std::size_t tag) {
    std::string_view text = source_.substr(at_, tag == std::string_view::npos ? tag : tag - at_);
    const std::string_view whole = text;
    if (tag != std::string_view::npos) {
      const char mark = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
      if (mark == '-') {
        text = strip_space(text, StripEnds::kRight);
      } else if (mark != '+' && source_[tag + 1] != '{') {
        const std::size_t line_start = text.rfind('\n') + 1;  // 0 when there is none
        const bool starts_line = line_start > 0 || at_ == 0 || source_[at_ - 1] == '\n';
        if (starts_line && strip_space(text.substr(line_start)).empty()) text = text.substr(0, line_start);
      }
    }
    if (!text.empty()) add(TokenKind::kText, text);
    advance(whole.size());
  }

  void open_tag() {
    tag_line_ = line_;
    const char kind = source_[at_ + 1];
    if (kind == '{') add(TokenKind::kExpressionBegin, "{{");
    if (kind == '%') add(TokenKind::kStatementBegin, "{%");
    advance(2);
    if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) advance(1);
  }

  void skip_comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) template_error_at(tag_line_, "the comment has no end '#}}'");
    const char mark = end > at_ ? source_[end - 1] : '\0';
    advance(end - at_ + 2);
    close_tag(mark, true);
  }

  // After the closing braces: "-" takes all white space, and a statement or comment takes a line end.
  void close_tag(char mark, bool takes_line_end) {
    if (mark == '-') {
      const std::string_view rest = source_.substr(at_);
      advance(rest.size() - strip_space(rest, StripEnds::kLeft).size());
    } else if (takes_line_end && mark != '+' && at_ < source_.size() && source_[at_] == '\n') {
      advance(1);
    }
  }

  void lex_tag(std::string_view end, TokenKind end_kind) {
    std::string open;  // brackets that wait for their partners
    for (;;) {
      while (at_ < source_.size() && is_space(code_point_at(source_, at_))) advance(code_point_length(source_[at_]));
      if (at_ == source_.size()) template_error_at(tag_line_, "the tag has no end '{}'", end);
      if (open.empty() && ends_tag(end, end_kind)) return;
      const char c = source_[at_];
      if (is_name_start(c)) {
        lex_name();
      } else if (is_digit(c)) {
        lex_number();
      } else if (c == '\'' || c == '"') {
        lex_string();
      } else {
        lex_operator(open);
      }
    }
  }

  bool ends_tag(std::string_view end, TokenKind end_kind) {
    const std::string_view rest = source_.substr(at_);
    const bool statement = end_kind == TokenKind::kStatementEnd;
    const char mark = rest.front();
    const bool marked = mark == '-' || (mark == '+' && statement);
    if (rest.substr(marked ? 1 : 0, 2) != end) return false;
    add(end_kind, end);
    advance(end.size() + (marked ? 1 : 0));
    close_tag(marked ? mark : '\0', statement);
    return true;
  }

  void lex_name() {
    std::size_t end = at_;
    while (end < source_.size() && is_name_part(source_[end])) ++end;
    add(TokenKind::kName, source_.substr(at_, end - at_));
    advance(end - at_);
  }

  void lex_number() {
    const bool after_dot =
        !tokens_.empty() && tokens_.back().kind == TokenKind::kOperator && tokens_.back().text == ".";
    std::size_t end = digits_from(at_);
    bool is_float = false;
    if (!after_dot && end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      end = digits_from(end + 1);
      is_float = true;
    }
    if (!after_dot && end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      std::size_t exponent = end + 1;
      if (exponent < source_.size() && (source_[exponent] == '-' || source_[exponent] == '+')) ++exponent;
      if (exponent < source_.size() && is_digit(source_[exponent])) {
        end = digits_from(exponent);
        is_float = true;
      }
    }
    const std::string_view digits = source_.substr(at_, end - at_);
    const bool leading_zero =
        !is_float && digits.front() == '0' && digits.find_first_not_of('0') != std::string_view::npos;
    if (leading_zero || (end < source_.size() && is_name_part(source_[end]))) {
      template_error_at(line_, "the number beginning with '{}' is not supported", digits);
    }
    add(is_float ? TokenKind::kFloat : TokenKind::kInteger, digits);
    Token& token = tokens_.back();
    const char* last = digits.data() + digits.size();
    const auto result = is_float ? std::from_chars(digits.data(), last, token.number)
                                 : std::from_chars(digits.data(), last, token.integer);
    if (result.ec != std::errc()) template_error_at(line_, "the number '{}' is out of range", digits);
    advance(digits.size());
  }

  std::size_t digits_from(std::size_t at) const {
    while (at < source_.size() && is_digit(source_[at])) ++at;
    return at;
  }

  void lex_string() {
    const char quote = source_[at_];
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) template_error_at(line_, "the string beginning here has no end");
    add(TokenKind::kString, unescape(source_.substr(at_ + 1, end - at_ - 1), line_));
    advance(end + 1 - at_);
  }

  void lex_operator(std::string& open) {
    static constexpr std::array<std::string_view, 6> kTwo = {"==", "!=", "<=", ">=", "//", "**"};
    static constexpr std::string_view kOne = "+-*/%~<>=.,:|()[]{}";
    const std::string_view rest = source_.substr(at_);
    const auto two = std::find(kTwo.begin(), kTwo.end(), rest.substr(0, 2));
    const std::string_view text = two != kTwo.end() ? *two : rest.substr(0, 1);
    const char c = text.front();
    if (text.size() == 1 && kOne.find(c) == std::string_view::npos) {
      template_error_at(line_, "unexpected character '{}'", rest.substr(0, code_point_length(c)));
    }
    if (c == '(' || c == '[' || c == '{') open += c;
    if (c == ')' || c == ']' || c == '}') {
      const char partner = c == ')' ? '(' : c == ']' ? '[' : '{';
      if (open.empty() || open.back() != partner) template_error_at(line_, "unexpected '{}'", c);
      open.pop_back();
    }
    add(TokenKind::kOperator, text);
    advance(text.size());
  }

  void add(TokenKind kind, std::string_view text) { tokens_.push_back({kind, line_, std::string(text)}); }

  void advance(std::size_t bytes) {
    const std::string_view passed = source_.substr(at_, bytes);
    line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
    at_ += passed.size();
  }

  std::string_view source_;
  std::size_t at_ = 0;
  int line_ = 1;
  int tag_line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  if (const auto invalid = find_invalid_utf8(source)) {
    const std::string_view before = source.substr(0, *invalid);
    template_error_at(1 + static_cast<int>(std::count(before.begin(), before.end(), '\n')), "not valid UTF-8");
  }
  const std::string lines = normalize_lines(source);
  return Lexer(lines).run();
}

}  // namespace reprofuse::text::jinja
