#include "server/http/connection.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/verb.hpp>
#include <cctype>
#include <exception>
#include <new>
#include <random>
#include <string_view>
#include <utility>

namespace reprofuse::server {
namespace {

namespace net = boost::asio;
namespace http = boost::beast::http;
using std::chrono::milliseconds;

constexpr int kRequestsPerConnection = 10'000;
constexpr std::size_t kReadBytes = 16384;
constexpr http::field kHeadersForRoutes[] = {http::field::authorization, http::field::host, http::field::origin,
                                             http::field::access_control_request_method,
                                             http::field::access_control_request_headers};

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

}  // namespace

Connection::Connection(Socket socket, Origin origin, const ConnectionContext& context, WakeupList& wakeups)
    : counted_(context.living),
      socket_(std::move(socket)),
      origin_(std::move(origin)),
      context_(context),
      wakeups_(wakeups),
      memory_(context.memory),
      place_of_key_(context.key_places) {
  ErrorCode ignored;
  socket_.set_option(net::ip::tcp::no_delay(true), ignored);  // a token should not wait for the next one
  socket_.non_blocking(true, ignored);
  since_ = Clock::now().time_since_epoch().count();
  move_to(Phase::kIdle, time_for_header());
}

// Responds without allocating memory.
void Connection::failed(const std::exception& error) noexcept {
  constexpr std::string_view kResponse =
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: {}\r\nRetry-After: 1\r\n"
      "Connection: close\r\n\r\n{}";
  if (!is_logged_ && log_entry_.status == 0) {
    log_entry_.status = 503;
    std::array<char, kResponse.size() + kOutOfMemoryBody.size()> bytes = {};  // both {} leave room for a length
    const auto end =
        fmt::format_to_n(bytes.data(), bytes.size(), kResponse, kOutOfMemoryBody.size(), kOutOfMemoryBody).out;
    ::send(socket_.native_handle(), bytes.data(), static_cast<std::size_t>(end - bytes.data()),
           MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  try {
    log_entry_.note = error.what();
  } catch (const std::bad_alloc&) {  // the status says enough
  }
  break_off();
}

void Connection::move_to(Phase phase, std::optional<milliseconds> timeout) {
  const auto now = Clock::now();
  if (phase_ != phase) since_ = now.time_since_epoch().count();
  deadline_ = timeout ? (now + *timeout).time_since_epoch().count() : Clock::duration::max().count();
  phase_ = phase;
}

milliseconds Connection::time_for_header() const {
  return origin_.admission == Admission::kBeyondAddress ? context_.limits.grace : context_.limits.header;
}

bool Connection::client_gone() {
  pollfd entry = {.fd = socket_.native_handle(), .events = POLLRDHUP, .revents = 0};
  return ::poll(&entry, 1, 0) > 0 && (entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

bool Connection::has_unread() {
  boost::system::error_code error;
  return socket_.available(error) > 0 && !error;
}

void Connection::start() {
  post([](Connection& self) {
    if (self.origin_.admission == Admission::kTurnedAway)
      self.refuse(too_many_connections_error());
    else
      self.await_request();
  });
}

void Connection::poll() {
  if (phase_ == Phase::kResponding || Clock::now().time_since_epoch().count() >= deadline_)
    post([](Connection& self) { self.check(); });
}

void Connection::drain() {
  post([](Connection& self) {
    self.is_draining_ = true;
    if (self.phase_ == Phase::kIdle && self.buffer_.size() == 0) self.close();
  });
}

void Connection::make_room() {
  makes_room_ = true;
  try {
    post([](Connection& self) { self.give_place(); });
  } catch (...) {
    makes_room_ = false;
    throw;
  }
}

void Connection::give_place() {
  if (phase_ == Phase::kLeaving) return;
  if (phase_ == Phase::kIdle && has_served()) return close();
  if (origin_.admission == Admission::kBeyondAddress && place_of_key_.is_held()) {  // its header has come meanwhile
    makes_room_ = false;
    return;
  }
  if (phase_ < Phase::kBody &&
      origin_.admission == Admission::kBeyondAddress)  // not before what was read has been looked at
    return post([](Connection& self) { self.leave_if_silent(); });
  if (phase_ != Phase::kResponding)
    return refuse(http_error(503, "others need the place of a connection that is slow", "too_many_connections"));
  if (unread_since() > Clock::now()) {  // a request has come meanwhile, or the client has read
    makes_room_ = false;
    return;
  }
  log_entry_.note = "others needed the place of an answer that nobody read";
  client_left();
}

// Closes without a response, since there may be very many such connections. One that has sent bytes which this thread
// has not read yet was not slow, and stays.
void Connection::leave_if_silent() {
  if (phase_ < Phase::kBody && !has_unread()) return close();
  makes_room_ = false;
}

void Connection::abort() {
  post([](Connection& self) {
    self.stop_ = self.is_aborted_ = true;
    if (!self.is_asking_ && !self.is_waiting_) self.client_left();
  });
}

void Connection::check() {
  if (is_asking_) {
    if (has_response_) return take_response();  // which could not be posted
    if (is_draining_ || client_gone()) stop_ = true;
  } else if (is_waiting_) {
    if (has_waited_) return take_waited();  // which could not be posted
    if (client_gone()) stop_ = true;
  } else if (Clock::now().time_since_epoch().count() >= deadline_) {
    late();
  } else if (pending_ && client_gone()) {
    client_left();
  } else if (pending_) {
    advance();  // updates that there was no memory to announce
  }
}

void Connection::late() {
  const ConnectionLimits& limits = context_.limits;
  switch (phase_) {
    case Phase::kHeader:
      return refuse(
          http_error(408, fmt::format("the header did not come within {} ms", time_for_header().count()), "timeout"));
    case Phase::kBody:
      return refuse(http_error(408, fmt::format("the body did not come within {} ms", limits.body.count()), "timeout"));
    case Phase::kResponding: return client_left();
    default: return close();
  }
}

// Reading.

void Connection::await_request() {
  const bool is_first = requests_ == 0;
  parser_.reset();
  memory_.clear();
  place_of_key_.clear();
  request_ = {};
  log_entry_ = {};
  scan_ = {};
  scanned_ = body_read_ = 0;
  has_header_ = is_head_ = is_http10_ = is_stream_ = false;
  ends_ = true;
  move_to(Phase::kIdle, is_first ? time_for_header() : context_.limits.idle);
  if (is_draining_ && buffer_.size() == 0) return close();
  take_bytes();
}

void Connection::read_more() {
  if (is_reading_) return;
  is_reading_ = true;
  socket_.async_read_some(buffer_.prepare(kReadBytes),
                          [self = shared_from_this()](const ErrorCode& error, std::size_t bytes) {
                            self->is_reading_ = false;
                            self->guard([&] { self->received(error, bytes); });
                          });
}

void Connection::received(const ErrorCode& error, std::size_t bytes) {
  if (!error) {
    buffer_.commit(bytes);
    return take_bytes();
  }
  if (phase_ == Phase::kResponding) return;  // check() will see that the client has left
  if (phase_ == Phase::kBody) return refuse(http_error(400, "the body is not complete", "bad_framing"));
  if (phase_ == Phase::kHeader && scan_.has_line())
    return refuse(http_error(400, "the request is not HTTP/1.1 as RFC 9112 has it", "bad_request"));
  is_logged_ = true;  // less than one line has come: nothing to log
  close();
}

void Connection::take_bytes() {
  const auto bytes = [&] { return std::string_view(static_cast<const char*>(buffer_.data().data()), buffer_.size()); };
  if (phase_ == Phase::kIdle) {
    if (bytes() == "\r") return read_more();
    if (bytes().starts_with("\r\n")) buffer_.consume(2);  // once, as RFC 9112 has it: clients of old sent one too many
    if (bytes().empty()) return read_more();
    log_entry_.begin = Clock::now();
    is_logged_ = false;
    move_to(Phase::kHeader, time_for_header());
  }
  switch (phase_) {
    case Phase::kHeader: return take_header();
    case Phase::kBody: return take_body();
    case Phase::kLeaving: buffer_.clear(); return read_more();
    default: return;
  }
}

void Connection::take_header() {
  const auto* begin = static_cast<const char*>(buffer_.data().data());
  const std::optional<std::size_t> taken = scan_.take({begin + scanned_, buffer_.size() - scanned_});
  scanned_ += taken.value_or(0);
  if (scanned_ > context_.limits.header_bytes)
    return refuse(http_error(431, fmt::format("the header has more than {} bytes", context_.limits.header_bytes),
                             "header_too_large"));
  if (!taken)
    return refuse(http_error(400,
                             "a line of the header is not as RFC 9112 has it: name, colon, value, CR and LF, without "
                             "control characters",
                             "bad_framing"));
  if (!scan_.is_complete()) return read_more();
  read_header();
}

void Connection::read_header() {
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(context_.limits.header_bytes + 1));
  parser_->body_limit(UINT64_MAX);  // whoever may not ask should learn that first
  ErrorCode error;
  parser_->put(net::buffer(buffer_.data(), scanned_), error);
  buffer_.consume(scanned_);
  if (error == http::error::bad_content_length || error == http::error::bad_transfer_encoding)
    return refuse(http_error(
        400, "a request has one Content-Length, a whole number, or one Transfer-Encoding, not both", "bad_framing"));
  if (error || !parser_->is_header_done())
    return refuse(http_error(400, "the request is not HTTP/1.1 as RFC 9112 has it", "bad_request"));
  if (std::optional<HttpResponse> refusal = begin_request()) return send_response(std::move(*refusal));
  if (request_.method != "POST") return ask();
  begin_body();
}

std::optional<HttpResponse> Connection::begin_request() {
  const Parser::value_type& header = parser_->get();
  const auto text = [](auto view) { return std::string(view.data(), view.size()); };
  is_head_ = header.method() == http::verb::head;
  is_http10_ = header.version() < 11;
  request_.method = is_head_ ? "GET" : text(header.method_string());
  request_.id = request_id_of(text(header["X-Request-Id"]));
  request_.address = origin_.address;
  request_.for_monitoring = origin_.admission == Admission::kReserve;
  for (const http::field name : kHeadersForRoutes) {
    std::string key = text(http::to_string(name));
    std::transform(key.begin(), key.end(), key.begin(), [](unsigned char c) { return std::tolower(c); });
    if (header.count(name) > 0) request_.headers[key] = text(header[name]);
  }
  std::optional<std::string> host;
  const bool has_path = read_target(text(header.target()), request_.path, host);
  if (host) request_.headers["host"] = *host;
  has_header_ = true;
  log_entry_.id = request_.id;
  log_entry_.method = printable(text(header.method_string()));
  log_entry_.path = printable(request_.path);
  if (auto refusal = refuse_framing(header)) return refusal;  // where the next request begins is not known
  if (!has_path) return http_error(400, "the request's target is no address of a server of HTTP", "bad_request");
  ends_ = announces_body(header) || !parser_->keep_alive() || ++requests_ >= kRequestsPerConnection ||
          origin_.admission != Admission::kNormal || is_draining_ || !context_.handler.keeps_connections();
  if (auto refusal = context_.handler.respond_before_body(request_)) return refusal;
  client_ = context_.handler.client_of(request_);
  const bool has_key = client_ != request_.address;
  if (has_key) has_key_ = true;
  const bool needs_place = has_key && request_.method == "POST";
  if (needs_place && !place_of_key_.take(origin_.address, client_)) {
    ends_ = true;
    return http_error(429, "this key has half of the connections that other keys leave at this address",
                      "client_limit");
  }
  // Without a place of its key it may ask only what monitoring may.
  if (origin_.admission == Admission::kBeyondAddress && !needs_place) {
    request_.for_monitoring = true;
    if (auto refusal = context_.handler.respond_before_body(request_)) return refusal;
  }
  request_.reply_memory = std::make_shared<ReplyMemory::Grant>(context_.replies, client_);
  return refuse_body(header, context_.limits.body_bytes);
}

void Connection::begin_body() {
  parser_->body_limit(context_.limits.body_bytes);
  parser_->eager(true);
  parser_->get().body().memory = &memory_;
  if (expects_continue(parser_->get()) && buffer_.size() == 0)
    return send("HTTP/1.1 100 Continue\r\n\r\n", "", &Connection::await_body);
  await_body();
}

void Connection::await_body() {
  move_to(Phase::kBody, context_.limits.body);
  take_body();
}

void Connection::take_body() {
  ErrorCode error;
  if (!parser_->is_done() && buffer_.size() > 0) {
    const std::size_t taken = parser_->put(buffer_.data(), error);
    buffer_.consume(taken);
    body_read_ += taken;
  }
  if (error && error != http::error::need_more) return refuse(unread_body(error));
  // The body's own bytes are counted by the parser; this bounds the framing of one in chunks.
  if (body_read_ + buffer_.size() > 2 * context_.limits.body_bytes + context_.limits.header_bytes)
    return refuse(unread_body(http::error::body_limit));
  // Of chunks, the parser leaves the line before one until it is complete, and so the trailer.
  if (!parser_->is_done() && buffer_.size() > context_.limits.header_bytes)
    return refuse(http_error(
        431, fmt::format("the trailer, or a chunk's first line, has more than {} bytes", context_.limits.header_bytes),
        "header_too_large"));
  if (!parser_->is_done()) return read_more();
  const Parser::value_type& header = parser_->get();
  ends_ = has_chunks(header) ||  // whose end a proxy may see elsewhere
          !parser_->keep_alive() || requests_ >= kRequestsPerConnection || origin_.admission != Admission::kNormal ||
          is_draining_ || !context_.handler.keeps_connections();
  request_.body = std::move(parser_->get().body().text);
  ask();
}

HttpResponse Connection::unread_body(const ErrorCode& error) const {
  if (error == http::error::buffer_overflow) return out_of_memory_error();
  if (error == http::error::body_limit)
    return http_error(413, fmt::format("the body has more than {} bytes", context_.limits.body_bytes),
                      "body_too_large");
  return http_error(400, "the body is not in chunks as RFC 9112 has them", "bad_framing");
}

}  // namespace reprofuse::server
