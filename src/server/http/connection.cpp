#include "server/http/connection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <random>
#include <string_view>
#include <utility>

#include "server/api/error.hpp"
#include "server/http/framing.hpp"

namespace reprofuse::server {
namespace {

constexpr int kRequestsPerConnection = 10'000;
constexpr std::array kHeadersForRoutes = {"authorization", "host", "origin", "access-control-request-method",
                                          "access-control-request-headers"};

// For a line of the log: nothing that a terminal would obey, and nothing long.
std::string printable(std::string text) {
  constexpr std::size_t kMaxShown = 100;
  if (text.size() > kMaxShown) text.replace(kMaxShown, std::string::npos, "...");
  std::replace_if(
      text.begin(), text.end(), [](unsigned char letter) { return letter <= ' ' || letter > '~'; }, '?');
  return text;
}

// The client's X-Request-Id, if it is one that can be written anywhere, else a new one.
std::string request_id_of(const std::string& given) {
  constexpr std::size_t kMaxLength = 128;
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:";
  const bool is_plain = given.find_first_not_of(kAllowed) == std::string::npos;
  if (!given.empty() && given.size() <= kMaxLength && is_plain) return given;
  std::random_device random;  // of the system: ids of two servers differ as well
  const auto half = [&random] { return std::uint64_t{random()} << 32 | random(); };
  return fmt::format("{:016x}{:016x}", half(), half());
}

class ChunkSink final : public EventSink {
 public:
  ChunkSink(httplib::DataSink& sink, const Client& client) : sink_(sink), client_(client) {}
  bool send(std::string_view text) override { return !client_.gone() && sink_.write(text.data(), text.size()); }

 private:
  httplib::DataSink& sink_;
  const Client& client_;
};

}  // namespace

HttpResponse http_error(int status, const std::string& message, const std::string& code) {
  const std::string type = status >= 500 ? "server_error" : "invalid_request_error";
  HttpResponse response;
  response.status = status;
  response.body = error_body(ApiError(status, type, message, std::nullopt, code));
  return response;
}

std::string raw_response(const HttpResponse& response) {
  // The reason may be left empty; no client goes by it.
  std::string text = fmt::format("HTTP/1.1 {} \r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n",
                                 response.status, response.content_type, response.body.size());
  for (const auto& [name, value] : response.headers) text += fmt::format("{}: {}\r\n", name, value);
  return text + "\r\n" + response.body;
}

HttpConnection::HttpConnection(ConnectionStream& stream, HttpHandler& handler, const ConnectionLimits& limits)
    : stream_(stream), handler_(handler), limits_(limits) {
  svr_sock_ = stream.socket();  // httplib breaks streams off when there is none
  set_keep_alive_timeout(std::chrono::duration_cast<std::chrono::seconds>(limits.idle).count());
  set_keep_alive_max_count(kRequestsPerConnection);
  set_expect_100_continue_handler([this](const httplib::Request&, httplib::Response& to) {
    if (!refusal_) return 100;
    write_to(to, *refusal_);
    return refusal_->status;
  });
  set_pre_routing_handler([this](const httplib::Request&, httplib::Response& to) {
    if (!refusal_ && request_.method == "POST") return HandlerResponse::Unhandled;  // its body comes next
    write_to(to, refusal_ ? *refusal_ : ask());
    return HandlerResponse::Handled;
  });
  Post("/.*", [this](const httplib::Request&, httplib::Response& to, const httplib::ContentReader& reader) {
    read_and_answer(reader, to);
  });
  set_error_handler(HandlerWithResponse([this](const httplib::Request&, httplib::Response& to) {
    if (to.body.empty()) write_to(to, broken_header(to.status));
    return HandlerResponse::Handled;
  }));
  set_post_routing_handler([this](const httplib::Request&, httplib::Response& to) { end_header(to); });
}

void HttpConnection::serve(const Flag& stop) noexcept {
  try {
    for (int served = 0; served < kRequestsPerConnection && stream_.wait_for_request(stop.descriptor()); ++served)
      if (!serve_one()) return stream_.end();
  } catch (const std::exception& error) {  // no memory: the connection ends, the server goes on
    record_.note = error.what();
    handler_.finished(record_);
  }
}

bool HttpConnection::serve_one() {
  request_ = {};
  record_ = {};
  record_.begin = Clock::now();
  refusal_.reset();
  has_header_ = is_http10_ = in_chunks_ = body_too_large_ = false;
  ends_connection_ = true;
  bool is_last = false;
  const bool is_written =
      process_request(stream_, false, is_last, [this](httplib::Request& request) { take_header(request); });
  if (record_.status == 0) {  // not even a first line
    if (stream_.failure() == ReadFailure::kGone) return false;
    const HttpResponse answer = broken_header(400);
    const std::string text = raw_response(answer);
    stream_.write(text.data(), text.size());
    record_.status = answer.status;
  }
  record_.time = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - record_.begin);
  if (!is_written && record_.note.empty()) record_.note = "the client left before the end of the answer";
  handler_.finished(record_);
  return is_written && !is_last && !ends_connection_;
}

void HttpConnection::take_header(httplib::Request& request) {
  has_header_ = true;
  ends_connection_ = announces_body(request) || !handler_.keeps_connections();
  is_http10_ = request.version == "HTTP/1.0";
  request_.method = request.method == "HEAD" ? "GET" : request.method;
  request_.path = request.path;
  request_.id = request_id_of(request.get_header_value("X-Request-Id"));
  for (const char* name : kHeadersForRoutes)
    if (request.has_header(name)) request_.headers[name] = request.get_header_value(name);
  record_.id = request_.id;
  record_.method = request.method;
  record_.path = printable(request_.path);
  // Answers are sent whole and as they are: a compressor would hold back what a stream should show.
  request.ranges.clear();
  request.headers.erase("Range");
  request.headers.erase("Accept-Encoding");
  refusal_ = refuse_framing(request);
  if (refusal_) ends_connection_ = true;  // where the next request begins is not known
  if (!refusal_) refusal_ = handler_.refuse(request_);
  if (!refusal_) refusal_ = refuse_body(request, limits_.body_bytes);
  in_chunks_ = comes_in_chunks(request);
  stream_.begin_body(in_chunks_);
}

bool HttpConnection::read_body(const httplib::ContentReader& reader) {
  return reader([&](const char* data, std::size_t size) {
    body_too_large_ = request_.body.size() + size > limits_.body_bytes;
    if (!body_too_large_) request_.body.append(data, size);
    return !body_too_large_;
  });
}

void HttpConnection::read_and_answer(const httplib::ContentReader& reader, httplib::Response& to) {
  if (!read_body(reader)) {
    write_to(to, unread_body());
    return;
  }
  ends_connection_ = in_chunks_ || !handler_.keeps_connections();
  HttpResponse response = ask();
  request_.body = {};  // of no use to a stream, which may be long
  write_to(to, std::move(response));
}

HttpResponse HttpConnection::ask() {
  try {
    return handler_.answer(request_, *this, record_);
  } catch (const std::exception& error) {
    record_.note = error.what();
    return http_error(500, fmt::format("the server failed: {}", error.what()), "internal_error");
  }
}

HttpResponse HttpConnection::unread_body() const {
  if (stream_.failure() == ReadFailure::kTooLate)
    return http_error(408, fmt::format("the body did not come within {} ms", limits_.body.count()), "timeout");
  if (stream_.failure() == ReadFailure::kGone) return http_error(400, "the body is not complete", "bad_framing");
  if (stream_.failure() == ReadFailure::kTooLarge || body_too_large_)
    return http_error(413, fmt::format("the body has more than {} bytes", limits_.body_bytes), "body_too_large");
  return http_error(400, "the body is not in chunks as RFC 9112 has them", "bad_framing");
}

HttpResponse HttpConnection::broken_header(int status) const {
  switch (stream_.failure()) {
    case ReadFailure::kTooLate:
      return http_error(408, fmt::format("the header did not come within {} ms", limits_.header.count()), "timeout");
    case ReadFailure::kTooLarge:
      return http_error(431, fmt::format("the header has more than {} bytes", limits_.header_bytes),
                        "header_too_large");
    case ReadFailure::kMalformed:
      return http_error(400, "a line of the header is not as RFC 9112 has it: name, colon, value, CR and LF",
                        "bad_framing");
    default: break;
  }
  if (status == 414) return http_error(414, "the address in the request is too long", "uri_too_long");
  return http_error(400, "the request is not HTTP/1.1 as RFC 9112 has it", "bad_request");
}

void HttpConnection::write_to(httplib::Response& to, HttpResponse response) {
  if (has_header_) handler_.decorate(request_, response);
  to.status = response.status;
  for (const auto& [name, value] : response.headers) to.set_header(name, value);
  if (!response.stream) {
    to.body = std::move(response.body);
    if (!to.body.empty()) to.set_header("Content-Type", response.content_type);
    return;
  }
  const auto provide = [this, stream = std::move(response.stream)](std::size_t, httplib::DataSink& sink) {
    ChunkSink events(sink, *this);
    try {
      if (!stream(events)) return false;
    } catch (const std::exception& error) {
      record_.note = error.what();
      return false;
    }
    sink.done();
    return true;
  };
  if (is_http10_) {  // knows no chunks: the end of the connection is the end of the stream
    ends_connection_ = true;
    to.set_content_provider(response.content_type, provide);
  } else {
    to.set_chunked_content_provider(response.content_type, provide);
  }
}

// Last, when httplib has added its own headers.
void HttpConnection::end_header(httplib::Response& to) {
  record_.status = to.status;
  to.headers.erase("Accept-Ranges");
  if (to.status == 204) to.headers.erase("Content-Length");
  if (!ends_connection_) return;
  to.headers.erase("Keep-Alive");
  to.headers.erase("Connection");
  to.set_header("Connection", "close");
}

}  // namespace reprofuse::server
