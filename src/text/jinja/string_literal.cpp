#include "text/jinja/string_literal.hpp"

#include <cstddef>

#include "text/jinja/error.hpp"
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

  void append_number(char letter, std::size_t fewest, std::size_t most, int base) {
    char32_t code_point = 0;
    std::size_t count = 0;
    for (; count < most && at_ < quoted_.size() && digit_value(quoted_[at_]) < base; ++count) {
      code_point = code_point * static_cast<char32_t>(base) + static_cast<char32_t>(digit_value(quoted_[at_++]));
    }
    if (count < fewest) template_error_at(line_, "the escape \\{} in a string needs {} digits", letter, fewest);
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

}  // namespace

std::string unescape(std::string_view quoted, int line) {
  return Unescaper(quoted, line).run();
}

}  // namespace reprofuse::text::jinja
