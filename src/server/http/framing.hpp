// Where a request begins and ends: HTTP/1.1 by the letter of RFC 9112, checked on the bytes as they come and on the
// header as httplib read it. httplib passes over lines that it does not understand, and guesses; a proxy between it and
// the client may read them otherwise.
#pragma once

#include <httplib.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/message.hpp"

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
  explicit ChunkGrammar(std::uint64_t max_size) : max_size_(max_size) {}

  bool accepts(std::string_view bytes);  // the next ones; false: no chunks have them here
  bool is_too_large() const { return size_ > max_size_; }

 private:
  enum class At { kSize, kDigits, kExtension, kSizeEnd, kData, kDataEnd, kDataLineEnd, kLastEnd, kLastLineEnd, kEnd };

  bool accepts_byte(char byte);
  bool moves_if(bool is_right, At next);
  bool accepts_digit(char byte);

  std::uint64_t max_size_;
  std::uint64_t size_ = 0;  // of the chunk at hand; once above max_size_, only that
  std::uint64_t read_ = 0;  // of its data
  At at_ = At::kSize;
};

bool comes_in_chunks(const httplib::Request& request);

// Whether bytes may follow the header that are not the next request.
bool announces_body(const httplib::Request& request);

// The answer to a header by which the next request could begin in two places, or be meant for two servers.
std::optional<HttpResponse> refuse_framing(const httplib::Request& request);

// The answer to a header, framed well, whose body would be too large, or is in a form that is not read.
std::optional<HttpResponse> refuse_body(const httplib::Request& request, std::size_t max_body_bytes);

}  // namespace reprofuse::server
