#include "server/api/json_writer.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "text/tokenizer/unicode.hpp"

namespace reprofuse::server {
namespace {

void append_escaped(unsigned char letter, std::string& text) {
  switch (letter) {
    case '"': text += "\\\""; return;
    case '\\': text += "\\\\"; return;
    case '\b': text += "\\b"; return;
    case '\f': text += "\\f"; return;
    case '\n': text += "\\n"; return;
    case '\r': text += "\\r"; return;
    case '\t': text += "\\t"; return;
    default: fmt::format_to(std::back_inserter(text), "\\u{:04x}", letter);
  }
}

}  // namespace

void JsonWriter::begin_value() {
  if (needs_comma_) text_ += ',';
  needs_comma_ = true;
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  begin_value();
  text_ += json;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view key) {
  string(key);
  text_ += ':';
  needs_comma_ = false;
  return *this;
}

// By the function that dump() calls: std::to_chars gives some values other digits.
JsonWriter& JsonWriter::number(double value) {
  if (!std::isfinite(value)) return raw("null");
  std::array<char, 64> digits = {};
  const char* end = nlohmann::detail::to_chars(digits.data(), digits.data() + digits.size(), value);
  return raw({digits.data(), static_cast<std::size_t>(end - digits.data())});
}

JsonWriter& JsonWriter::string(std::string_view text) {
  if (text::find_invalid_utf8(text)) return string(text::utf8_replacing(text));
  begin_value();
  text_ += '"';
  std::size_t plain = 0;  // where what needs no escape begins
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto letter = static_cast<unsigned char>(text[i]);
    if (letter >= ' ' && letter != '"' && letter != '\\') continue;
    text_ += text.substr(plain, i - plain);
    append_escaped(letter, text_);
    plain = i + 1;
  }
  text_ += text.substr(plain);
  text_ += '"';
  return *this;
}

}  // namespace reprofuse::server
