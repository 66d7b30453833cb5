#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "base/check.hpp"
#include "text/tokenizer/unicode.hpp"

namespace reprofuse::text {
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

}  // namespace reprofuse::text
