#include <algorithm>
#include <array>
#include <cstdint>

#include "base/check.hpp"
#include "text/tokenizer/pretokenizer_pattern.hpp"

namespace reprofuse::text {
namespace {

bool is_ascii_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_hex_digit(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& place) : pattern_(pattern), place_(place) {}

  std::string translate() {
    while (!at_end()) translate_one();
    return std::move(out_);
  }

 private:
  bool at_end() const { return at_ == pattern_.size(); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0'; }
  char take() {
    if (at_end()) reject("it ends too early");
    return pattern_[at_++];
  }
  bool take_if(std::string_view expected) {
    if (!pattern_.substr(at_).starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }

  [[noreturn]] void reject(std::string_view why) const {
    fail(ErrorCode::kInvalidArgument, "{}: the pattern '{}' is not supported: {}, at byte {}", place_, pattern_, why,
         at_);
  }

  void translate_one() {
    const char c = take();
    switch (c) {
      case '\\': translate_escape(); return;
      case '[': translate_class(); return;
      case '(': translate_group(); return;
      case '{': translate_brace(); return;
      case '.':
      case '^':
      case '$': reject(fmt::format("'{}' outside brackets", c));
      case ']':
      case '}':
        out_ += '\\';
        out_ += c;
        return;
      default: out_ += c; return;
    }
  }

  void translate_group() {
    if (peek() == '*') reject("'(*'");
    if (peek() != '?') {
      out_ += '(';
      return;
    }
    static constexpr std::array<std::string_view, 7> kKnown = {"?:", "?=", "?!", "?<=", "?<!", "?>", "?i:"};
    const auto known = std::find_if(kKnown.begin(), kKnown.end(), [&](auto prefix) { return take_if(prefix); });
    if (known == kKnown.end()) reject("this kind of group");
    out_ += '(';
    out_ += *known;
  }

  // {n}, {n,}, {,m} and {n,m} repeat; any other brace stands for itself.
  void translate_brace() {
    const std::size_t end = pattern_.find('}', at_);
    const std::string_view body = end == pattern_.npos ? "" : pattern_.substr(at_, end - at_);
    const std::size_t comma = body.find(',');
    const auto all_digits = [](std::string_view s) { return std::all_of(s.begin(), s.end(), is_digit); };
    const bool repeats =
        comma == body.npos ? !body.empty() && all_digits(body)
                           : body.size() > 1 && all_digits(body.substr(0, comma)) && all_digits(body.substr(comma + 1));
    if (!repeats) {
      out_ += "\\{";
      return;
    }
    at_ = end + 1;
    if (peek() == '+' || peek() == '?' || peek() == '*') reject("'+', '?' or '*' after a repetition in braces");
    out_ += fmt::format("{{{}{}}}", comma == 0 ? "0" : "", body);
  }

  void translate_class() {
    out_ += '[';
    if (take_if("^")) out_ += '^';
    if (peek() == ']') reject("an empty set, or ']' at the start of a set");
    for (char c = take(); c != ']'; c = take()) {
      if (c == '[') reject("'[' inside a set");
      if (c == '&' && peek() == '&') reject("'&&' inside a set");
      if (c == '\\') {
        translate_escape();
      } else {
        out_ += c;
      }
    }
    out_ += ']';
  }

  // Escapes mean the same inside a set and outside; those that do not are not among them.
  void translate_escape() {
    const char c = take();
    switch (c) {
      case 's': out_ += "\\p{White_Space}"; return;
      case 'S': out_ += "\\P{White_Space}"; return;
      case 'd': out_ += "\\p{Nd}"; return;
      case 'D': out_ += "\\P{Nd}"; return;
      case 't': out_ += "\\x{09}"; return;
      case 'n': out_ += "\\x{0A}"; return;
      case 'v': out_ += "\\x{0B}"; return;
      case 'f': out_ += "\\x{0C}"; return;
      case 'r': out_ += "\\x{0D}"; return;
      case 'p':
      case 'P': translate_property(c); return;
      case 'x':
      case 'u': translate_code_point(c); return;
      default: break;
    }
    if (is_ascii_letter(c) || is_digit(c)) reject(fmt::format("'\\{}'", c));
    if (static_cast<unsigned char>(c) < 0x80) out_ += '\\';
    out_ += c;
  }

  // One or two letters name a general category; anything longer is taken for a script, as Oniguruma's \p{Han}.
  void translate_property(char kind) {
    const std::size_t end = pattern_.find('}', at_);
    if (peek() != '{' || end == pattern_.npos) reject("a property without braces");
    const std::string_view name = pattern_.substr(at_ + 1, end - at_ - 1);
    if (name.empty() || !std::all_of(name.begin(), name.end(), [](char c) { return is_ascii_letter(c) || c == '_'; })) {
      reject("this property");
    }
    out_ += fmt::format("\\{}{{{}{}}}", kind, name.size() <= 2 ? "" : "sc:", name);
    at_ = end + 1;
  }

  // \x{H...}, \xHH and \uHHHH.
  void translate_code_point(char kind) {
    const bool braces = kind == 'x' && take_if("{");
    std::size_t length = kind == 'x' ? 2 : 4;
    if (braces) length = std::min(pattern_.find('}', at_), pattern_.size()) - at_;
    const std::string_view digits = pattern_.substr(at_, length);
    if (digits.empty() || digits.size() < length || !std::all_of(digits.begin(), digits.end(), is_hex_digit)) {
      reject("a code point that is not hexadecimal");
    }
    at_ += length;
    if (braces && !take_if("}")) reject("a code point without an end");
    // Two digits name a byte to Oniguruma and a code point to PCRE2; they are the same below 0x80.
    if (kind == 'x' && !braces && digits[0] > '7') reject("a byte above \\x7F");
    out_ += fmt::format("\\x{{{}}}", digits);
  }

  std::string_view pattern_;
  const std::string& place_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string to_pcre2(std::string_view oniguruma, const std::string& place) {
  return Translator(oniguruma, place).translate();
}

}  // namespace reprofuse::text
