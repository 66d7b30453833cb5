#include "text/jinja/markers.hpp"

#include <utility>

#include "text/jinja/strings.hpp"
#include "text/tokenizer/unicode.hpp"

namespace reprofuse::text::jinja {
namespace {

constexpr char32_t kFirst = 0x10F000;  // for private use, as all of plane 16
constexpr std::size_t kMaxMarkers = 2048;
constexpr std::size_t kBytes = 4;  // of one

// The number of the marker that stands at an offset of well-formed UTF-8, or kMaxMarkers.
std::size_t marker_at(std::string_view text, std::size_t at) {
  if (static_cast<unsigned char>(text[at]) != 0xF4) return kMaxMarkers;
  const char32_t code_point = code_point_at(text, at);
  return code_point >= kFirst && code_point < kFirst + kMaxMarkers ? code_point - kFirst : kMaxMarkers;
}

}  // namespace

bool Markers::occur_in(std::string_view text) {
  for (std::size_t at = text.find('\xF4'); at != std::string_view::npos; at = text.find('\xF4', at + 1))
    if (marker_at(text, at) != kMaxMarkers) return true;
  return false;
}

std::string Markers::mark(std::string_view text, std::span<const TextSpan> tokens) {
  if (occur_in(text)) template_error("a character from U+10F000 to U+10F7FF stands for special tokens");
  std::string marked;
  std::size_t done = 0;
  for (const TextSpan& token : tokens) {
    const std::string spelling(text.substr(token.begin, token.end - token.begin));
    const auto [number, is_new] = numbers_.emplace(spelling, spellings_.size());
    if (is_new) spellings_.push_back(spelling);
    if (spellings_.size() > kMaxMarkers) template_error("more than {} special tokens", kMaxMarkers);
    marked += text.substr(done, token.begin - done);
    append_code_point(kFirst + static_cast<char32_t>(number->second), marked);
    done = token.end;
  }
  return marked.append(text.substr(done));
}

Value Markers::spelled(const Value& value) const {
  if (const std::string* text = value.string()) return occur_in(*text) ? Value(unmark(*text).text) : value;
  const Sequence* list = value.sequence();
  if (list == nullptr || (list->kind != SequenceKind::kList && list->kind != SequenceKind::kTuple)) return value;
  std::vector<Value> items;
  items.reserve(list->items.size());
  for (const Value& item : list->items) items.push_back(item.string() != nullptr ? spelled(item) : item);
  return Value::sequence(std::move(items), list->kind);
}

Markers::Unmarked Markers::unmark(std::string_view text) const {
  Unmarked result;
  const auto append_plain = [&](std::string_view part) {
    if (part.empty()) return;
    result.plain.push_back({result.text.size(), result.text.size() + part.size()});
    result.text += part;
  };
  std::size_t done = 0;
  for (std::size_t at = text.find('\xF4'); at != std::string_view::npos; at = text.find('\xF4', at + 1)) {
    const std::size_t number = marker_at(text, at);
    if (number >= spellings_.size()) continue;
    append_plain(text.substr(done, at - done));
    result.text += spellings_[number];
    done = at + kBytes;
  }
  append_plain(text.substr(done));
  return result;
}

}  // namespace reprofuse::text::jinja
