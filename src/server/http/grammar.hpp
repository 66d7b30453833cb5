// HTTP/1.1 by the letter of RFC 9112, checked on the bytes as they come. httplib passes over lines that it does not
// understand, and whoever stands between it and the client may understand them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace reprofuse::server {

// The lines of a request's header, up to the empty one. What the request line says is left to httplib.
class HeaderGrammar {
 public:
  bool accepts(std::string_view bytes);  // the next ones; false: no header has them here

 private:
  bool accepts_line() const;  // line_, without its end

  std::string line_;  // so far
  bool is_first_ = true;
  bool has_ended_ = false;
};

// A body in chunks, without trailers. Extensions are passed over, as httplib does.
class ChunkGrammar {
 public:
  // A chunk with a larger size is not refused, but said to be too large.
  explicit ChunkGrammar(std::uint64_t largest) : largest_(largest) {}

  bool accepts(std::string_view bytes);  // the next ones; false: no chunks have them here
  bool is_too_large() const { return size_ > largest_; }

 private:
  enum class At { kSize, kDigits, kExtension, kSizeEnd, kData, kDataEnd, kDataLineEnd, kLastEnd, kLastLineEnd, kEnd };

  bool accepts_byte(char byte);
  bool moves_if(bool is_right, At next);
  bool accepts_digit(char byte);

  std::uint64_t largest_;
  std::uint64_t size_ = 0;  // of the chunk at hand; once above largest_, only that
  std::uint64_t read_ = 0;  // of its data
  At at_ = At::kSize;
};

}  // namespace reprofuse::server
