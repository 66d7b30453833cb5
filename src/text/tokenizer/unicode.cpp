#include "text/tokenizer/unicode.hpp"

#if REPROFUSE_HAVE_TEXT
#include <utf8proc.h>
#endif

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.hpp"

namespace reprofuse::text {
namespace {

struct Sequence {
  std::size_t length;  // of the character, or of the maximal subpart that is ill-formed
  enum class State { kWellFormed, kIllFormed, kUnfinished } state;
};

struct ByteRange {
  std::uint8_t first, last;
};

std::uint8_t byte_at(std::string_view bytes, std::size_t offset) {
  return static_cast<std::uint8_t>(bytes[offset]);
}

// The second byte's range depends on the first: table 3-7 of the Unicode standard.
ByteRange second_byte_range(std::uint8_t lead) {
  switch (lead) {
    case 0xE0: return {0xA0, 0xBF};
    case 0xED: return {0x80, 0x9F};
    case 0xF0: return {0x90, 0xBF};
    case 0xF4: return {0x80, 0x8F};
    default: return {0x80, 0xBF};
  }
}

std::size_t length_by_lead(std::uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

// What stands at the start of bytes, which are not empty.
Sequence first_sequence(std::string_view bytes) {
  const std::uint8_t lead = byte_at(bytes, 0);
  const std::size_t length = length_by_lead(lead);
  if (length == 0) return {1, Sequence::State::kIllFormed};
  ByteRange range = second_byte_range(lead);
  for (std::size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return {i, Sequence::State::kUnfinished};
    if (byte_at(bytes, i) < range.first || byte_at(bytes, i) > range.last) return {i, Sequence::State::kIllFormed};
    range = {0x80, 0xBF};
  }
  return {length, Sequence::State::kWellFormed};
}

}  // namespace

std::optional<std::size_t> find_invalid_utf8(std::string_view bytes) {
  for (std::size_t offset = 0; offset < bytes.size();) {
    const Sequence sequence = first_sequence(bytes.substr(offset));
    if (sequence.state != Sequence::State::kWellFormed) return offset;
    offset += sequence.length;
  }
  return std::nullopt;
}

std::size_t append_utf8_replacing(std::string_view bytes, std::string& text) {
  std::size_t offset = 0;
  while (offset < bytes.size()) {
    const Sequence sequence = first_sequence(bytes.substr(offset));
    if (sequence.state == Sequence::State::kUnfinished) break;
    const bool well_formed = sequence.state == Sequence::State::kWellFormed;
    text += well_formed ? bytes.substr(offset, sequence.length) : kReplacementCharacter;
    offset += sequence.length;
  }
  return offset;
}

std::string utf8_replacing(std::string_view bytes) {
  std::string text;
  if (append_utf8_replacing(bytes, text) != bytes.size()) text += kReplacementCharacter;
  return text;
}

char32_t next_code_point(std::string_view utf8, std::size_t& offset) {
  const std::uint8_t lead = byte_at(utf8, offset++);
  if (lead < 0x80) return lead;
  const int following = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
  char32_t code_point = lead & (0x3F >> following);
  for (int i = 0; i < following; ++i) code_point = code_point << 6 | (byte_at(utf8, offset++) & 0x3F);
  return code_point;
}

void append_code_point(char32_t code_point, std::string& utf8) {
  const auto continuation = [&](int shift) { return static_cast<char>(0x80 | (code_point >> shift & 0x3F)); };
  if (code_point < 0x80) {
    utf8 += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    utf8 += static_cast<char>(0xC0 | code_point >> 6);
    utf8 += continuation(0);
  } else if (code_point < 0x10000) {
    utf8 += static_cast<char>(0xE0 | code_point >> 12);
    utf8 += continuation(6);
    utf8 += continuation(0);
  } else {
    utf8 += static_cast<char>(0xF0 | code_point >> 18);
    utf8 += continuation(12);
    utf8 += continuation(6);
    utf8 += continuation(0);
  }
}

bool is_white_space(char32_t code_point) {
  switch (code_point) {
    case 0x20:
    case 0x85:
    case 0xA0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202F:
    case 0x205F:
    case 0x3000: return true;
    default: return (code_point >= 0x09 && code_point <= 0x0D) || (code_point >= 0x2000 && code_point <= 0x200A);
  }
}

std::size_t leading_white_space(std::string_view utf8) {
  std::size_t length = 0;
  for (std::size_t offset = 0; offset < utf8.size(); length = offset) {
    if (!is_white_space(next_code_point(utf8, offset))) break;
  }
  return length;
}

std::size_t trailing_white_space(std::string_view utf8) {
  std::size_t start = utf8.size();
  while (start > 0) {
    std::size_t character = start - 1;
    while (character > 0 && (byte_at(utf8, character) & 0xC0) == 0x80) --character;
    std::size_t offset = character;
    if (!is_white_space(next_code_point(utf8, offset))) break;
    start = character;
  }
  return utf8.size() - start;
}

// Normalization, by utf8proc.
#if REPROFUSE_HAVE_TEXT
namespace {

constexpr auto kComposed = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
constexpr auto kDecomposed = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);

// Below U+0300 nothing composes with what stands before it, and nothing there changes.
constexpr unsigned char kLeadOf0300 = 0xCC;

bool begins_below_0300(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 || (byte >= 0xC0 && byte < kLeadOf0300);
}

bool is_nfc_by_range(std::string_view utf8) {
  return std::all_of(utf8.begin(), utf8.end(), [](char c) { return static_cast<unsigned char>(c) < kLeadOf0300; });
}

utf8proc_propval_t combining_class(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

std::vector<utf8proc_int32_t> decompose(std::string_view utf8) {
  constexpr int kMaxDecomposition = 4;
  std::vector<utf8proc_int32_t> decomposed;
  decomposed.reserve(utf8.size());
  for (std::size_t offset = 0; offset < utf8.size();) {
    const auto code_point = static_cast<utf8proc_int32_t>(next_code_point(utf8, offset));
    utf8proc_int32_t parts[kMaxDecomposition];
    int boundary_state = 0;
    const auto count = utf8proc_decompose_char(code_point, parts, kMaxDecomposition, kDecomposed, &boundary_state);
    invariant(count > 0 && count <= kMaxDecomposition, "utf8proc's decomposition of a code point");
    decomposed.insert(decomposed.end(), parts, parts + count);
  }
  return decomposed;
}

// utf8proc sorts marks by insertion, in quadratic time for a long run of them; a merge sort has no such input.
void sort_marks(std::vector<utf8proc_int32_t>& code_points) {
  const auto is_starter = [](utf8proc_int32_t c) { return combining_class(c) == 0; };
  for (auto begin = code_points.begin(); begin != code_points.end();) {
    begin = std::find_if_not(begin, code_points.end(), is_starter);
    const auto end = std::find_if(begin, code_points.end(), is_starter);
    std::stable_sort(begin, end, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    begin = end;
  }
}

void append_nfc(std::string_view utf8, std::string& normalized) {
  if (is_nfc_by_range(utf8)) {
    normalized += utf8;
    return;
  }
  std::vector<utf8proc_int32_t> code_points = decompose(utf8);
  sort_marks(code_points);
  const auto length =
      utf8proc_normalize_utf32(code_points.data(), static_cast<utf8proc_ssize_t>(code_points.size()), kComposed);
  invariant(length >= 0, "utf8proc's composition of decomposed text");
  for (utf8proc_ssize_t i = 0; i < length; ++i) append_code_point(static_cast<char32_t>(code_points[i]), normalized);
}

}  // namespace

std::string normalize_nfc(std::string_view utf8, const std::function<void()>& poll) {
  constexpr std::size_t kPart = std::size_t{64} << 10;
  std::string normalized;
  normalized.reserve(utf8.size());
  for (std::size_t begin = 0; begin < utf8.size();) {
    std::size_t end = std::min(begin + kPart, utf8.size());
    while (end < utf8.size() && !begins_below_0300(utf8[end])) ++end;
    append_nfc(utf8.substr(begin, end - begin), normalized);
    begin = end;
    if (poll) poll();
  }
  return normalized;
}

#endif
}  // namespace reprofuse::text
