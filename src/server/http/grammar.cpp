#include "server/http/grammar.hpp"

#include <algorithm>
#include <cctype>

namespace reprofuse::server {
namespace {

bool is_token_letter(char byte) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  const bool is_ascii = static_cast<unsigned char>(byte) < 0x80;
  return is_ascii && (std::isalnum(static_cast<unsigned char>(byte)) != 0 || kMarks.find(byte) != std::string::npos);
}

bool equal_but_for_case(std::string_view name, std::string_view small) {
  return std::equal(name.begin(), name.end(), small.begin(), small.end(),
                    [](unsigned char a, char b) { return std::tolower(a) == b; });
}

int hex_digit(char byte) {
  if (byte >= '0' && byte <= '9') return byte - '0';
  if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
  return byte >= 'A' && byte <= 'F' ? byte - 'A' + 10 : -1;
}

}  // namespace

bool HeaderGrammar::accepts(std::string_view bytes) {
  for (const char byte : bytes) {
    if (has_ended_) return true;
    const bool follows_return = !line_.empty() && line_.back() == '\r';
    if (byte == '\0' || follows_return != (byte == '\n'))
      return false;  // a line ends with CRLF, and has neither inside
    if (byte != '\n') {
      line_ += byte;
      continue;
    }
    line_.pop_back();
    if (!is_first_ && !accepts_line()) return false;
    has_ended_ = !is_first_ && line_.empty();
    is_first_ = false;
    line_.clear();
  }
  return true;
}

bool HeaderGrammar::accepts_line() const {
  if (line_.empty()) return true;
  const std::string_view name = std::string_view(line_).substr(0, line_.find(':'));
  if (name.empty() || name.size() == line_.size() || !std::all_of(name.begin(), name.end(), is_token_letter))
    return false;
  // httplib reads "%63hunked" as "chunked", and nobody else does.
  const bool tells_length = equal_but_for_case(name, "content-length") || equal_but_for_case(name, "transfer-encoding");
  return !tells_length || line_.find('%') == std::string::npos;
}

bool ChunkGrammar::accepts(std::string_view bytes) {
  while (!bytes.empty()) {
    if (at_ == At::kData) {
      const auto taken = static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), size_ - read_));
      read_ += taken;
      bytes.remove_prefix(taken);
      if (read_ == size_) at_ = At::kDataEnd;
      continue;
    }
    if (!accepts_byte(bytes.front())) return false;
    bytes.remove_prefix(1);
  }
  return true;
}

bool ChunkGrammar::accepts_byte(char byte) {
  switch (at_) {
    case At::kSize: size_ = read_ = 0; return accepts_digit(byte);
    case At::kDigits:
      if (byte == ';') return moves_if(true, At::kExtension);
      return byte == '\r' ? moves_if(true, At::kSizeEnd) : accepts_digit(byte);
    case At::kExtension: return byte == '\r' ? moves_if(true, At::kSizeEnd) : byte != '\n' && byte != '\0';
    case At::kSizeEnd: return moves_if(byte == '\n', size_ == 0 ? At::kLastEnd : At::kData);
    case At::kDataEnd: return moves_if(byte == '\r', At::kDataLineEnd);
    case At::kDataLineEnd: return moves_if(byte == '\n', At::kSize);
    case At::kLastEnd: return moves_if(byte == '\r', At::kLastLineEnd);
    case At::kLastLineEnd: return moves_if(byte == '\n', At::kEnd);
    case At::kData:
    case At::kEnd: break;
  }
  return true;
}

bool ChunkGrammar::moves_if(bool is_right, At next) {
  if (is_right) at_ = next;
  return is_right;
}

bool ChunkGrammar::accepts_digit(char byte) {
  const int digit = hex_digit(byte);
  if (digit < 0) return false;
  if (!is_too_large()) size_ = size_ * 16 + static_cast<std::uint64_t>(digit);
  at_ = At::kDigits;
  return true;
}

}  // namespace reprofuse::server
