// Where a request begins and ends, and for whom it is: what RFC 9112 asks for beyond what Boost.Beast's parser checks.
// A proxy between a client and us may read a sloppy header in another way than we do.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/optional/optional.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/limits.hpp"
#include "server/http/message.hpp"

namespace reprofuse::server {

using RequestHeader = boost::beast::http::request_header<>;

// The bytes of a header as they come, up to the empty line. Lines end with CR and LF, which are nowhere else, none
// begins with white space, and there is no control character.
class HeaderScan {
 public:
  // How many of the bytes belong to the header; none: one of them cannot be in any.
  std::optional<std::size_t> take(std::string_view bytes);
  bool is_complete() const { return is_complete_; }
  bool has_line() const { return lines_ > 0; }

 private:
  char last_ = '\n';
  std::size_t lines_ = 0, in_line_ = 0;
  bool is_complete_ = false;
};

// The response to a header by which the next request could begin in two places, or be meant for two servers.
std::optional<HttpResponse> refuse_framing(const RequestHeader& header);

// The response to a header, framed well, whose body would be too large, or is in a form that is not read.
std::optional<HttpResponse> refuse_body(const RequestHeader& header, std::size_t max_body_bytes);

bool has_chunks(const RequestHeader& header);
bool announces_body(const RequestHeader& header);  // bytes may follow that are not the next request
bool expects_continue(const RequestHeader& header);

// The path of "/path?query" or "http://host/path?query", without escapes, and the host if it is there. False: neither.
bool read_target(std::string_view target, std::string& path, std::optional<std::string>& host);

// A body that Beast's parser fills, within the memory that there is.
struct CountedBody {
  struct value_type {
    std::string text;
    MemoryBudget::Grant* memory = nullptr;
  };
  class reader {
   public:
    template <bool isRequest, class Fields>
    reader(boost::beast::http::header<isRequest, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>&, boost::beast::error_code& error) { error = {}; }
    void finish(boost::beast::error_code& error) { error = {}; }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, boost::beast::error_code& error) {
      const std::size_t bytes = boost::asio::buffer_size(buffers);
      const bool has_room = body_.memory->grow(bytes);
      error = has_room ? boost::beast::error_code() : make_error_code(boost::beast::http::error::buffer_overflow);
      if (!has_room) return 0;
      const std::size_t begin = body_.text.size();
      body_.text.resize(begin + bytes);
      return boost::asio::buffer_copy(boost::asio::buffer(body_.text.data() + begin, bytes), buffers);
    }

   private:
    value_type& body_;
  };
};

}  // namespace reprofuse::server
