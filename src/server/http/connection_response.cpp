// What a connection does with a request that it has read: asks the handler, and sends what comes.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/status.hpp>
#include <exception>
#include <new>
#include <utility>

#include "server/http/connection.hpp"

namespace reprofuse::server {
namespace {

namespace net = boost::asio;
namespace http = boost::beast::http;

constexpr std::size_t kEnoughEvents = std::size_t{64} << 10;  // in one write
constexpr std::size_t kSmallBody = std::size_t{64} << 10;
constexpr int kClientClosedRequest = 499;  // nginx's number for what HTTP has none for

}  // namespace

void Connection::ask() {
  move_to(Phase::kResponding, std::nullopt);
  stop_ = has_response_ = false;
  is_asking_ = true;
  if (request_.method != "POST") return ask_handler();
  TurnQueue& readers = request_.body.size() <= kSmallBody ? context_.readers : context_.large_readers;
  readers.add(client_, [self = shared_from_this()] { self->ask_handler(); });
}

void Connection::ask_handler() noexcept {
  try {
    try {
      asked_ = context_.handler.respond(request_, *this, log_entry_);
    } catch (const std::bad_alloc&) {
      asked_ = out_of_memory_error();
      log_entry_.note = "out_of_memory";
    } catch (const std::exception& error) {
      log_entry_.note = error.what();
      asked_ = http_error(500, fmt::format("the server failed: {}", error.what()), "internal_error");
    }
  } catch (const std::exception&) {
    asked_.reset();
  }
  has_response_ = true;
  try {
    post([](Connection& self) { self.take_response(); });
  } catch (const std::exception&) {  // check() will look for it
  }
}

void Connection::claim_memory(std::size_t bytes) {
  if (stop_) throw ApiError(503, "server_error", "nobody waits for this answer any more", std::nullopt, "stopped");
  if (!memory_.grow(bytes)) throw std::bad_alloc();
}

void Connection::take_response() {
  if (!is_asking_ || !has_response_.exchange(false)) return;  // it was taken, and this call is late
  is_asking_ = false;
  parser_.reset();
  request_.body = {};
  memory_.clear();
  if (!asked_) return failed(std::bad_alloc());
  HttpResponse response = std::move(*asked_);
  asked_.reset();
  if (is_aborted_ || (response.pending && client_gone())) {
    pending_ = std::move(response.pending);
    return client_left();
  }
  send_response(std::move(response));
}

void Connection::send_response(HttpResponse response) {
  move_to(Phase::kResponding, std::nullopt);
  if (response.pending) {
    pending_ = std::move(response.pending);
    is_stream_ = response.is_stream;
    pending_->on_update([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->announce_update();
    });
    if (!is_stream_) return advance();
    ends_ = ends_ || is_http10_;  // without chunked coding: the end of the connection is the end of the stream
  }
  const std::size_t counted = response.body.size() > kSmallBody ? response.body.size() : 0;
  if (!is_stream_ && request_.reply_memory && !request_.reply_memory->resize(counted)) {
    log_entry_.note = "out_of_memory";
    response = out_of_memory_error();
  }
  if (has_header_) context_.handler.decorate(request_, response);
  log_entry_.status = response.status;
  std::string head = head_of(response);
  if (is_stream_) {
    send(std::move(head), "", &Connection::advance);
    return advance();  // what came before on_update()
  }
  send(std::move(head), is_head_ ? "" : std::move(response.body), &Connection::response_sent);
}

void Connection::refuse(HttpResponse response) {
  ends_ = true;
  send_response(std::move(response));
}

std::string Connection::head_of(const HttpResponse& response) const {
  const auto reason = http::obsolete_reason(http::int_to_status(static_cast<unsigned>(response.status)));
  std::string text = fmt::format("HTTP/1.1 {} {}\r\n", response.status, std::string(reason.data(), reason.size()));
  if (is_stream_ && !is_http10_) text += "Transfer-Encoding: chunked\r\n";
  if (is_stream_ || !response.body.empty()) text += fmt::format("Content-Type: {}\r\n", response.content_type);
  if (!is_stream_ && response.status != 204) text += fmt::format("Content-Length: {}\r\n", response.body.size());
  for (const auto& [name, value] : response.headers) text += fmt::format("{}: {}\r\n", name, value);
  if (ends_) return text + "Connection: close\r\n\r\n";
  return text + (is_http10_ ? "Connection: keep-alive\r\n\r\n" : "\r\n");
}

// Writes what the socket takes at once. If that is a whole part of a stream, the next update will send the next part;
// else `next` is called when the client has taken the rest.
void Connection::send(std::string head, std::string body, Next next) {
  out_ = {std::move(head), std::move(body)};
  const std::array<net::const_buffer, 2> all = {net::buffer(out_[0]), net::buffer(out_[1])};
  if (!pending_) unread_since_ = Clock::now().time_since_epoch().count();
  ErrorCode ignored;  // the next attempt meets it again
  const std::size_t sent = socket_.write_some(all, ignored);
  if (sent == net::buffer_size(all) && next == &Connection::advance) return;
  is_writing_ = true;
  const std::array<net::const_buffer, 2> rest = {all[0] + sent, all[1] + (sent - std::min(sent, all[0].size()))};
  const ConnectionLimits& limits = context_.limits;
  const std::chrono::seconds at_min_rate(net::buffer_size(rest) / limits.min_rate);
  const auto go_on = [self = shared_from_this(), &limits, end = Clock::now() + limits.write + at_min_rate](
                         const ErrorCode& error, std::size_t) {
    self->deadline_ = std::min(Clock::now() + limits.write, end).time_since_epoch().count();
    return error ? std::size_t{0} : kEnoughEvents;
  };
  net::async_write(socket_, rest, go_on, [self = shared_from_this(), next](const ErrorCode& error, std::size_t) {
    self->is_writing_ = false;
    self->out_ = {};
    self->unread_since_ = Clock::duration::max().count();
    self->guard([&] {
      self->deadline_ = Clock::duration::max().count();
      error ? self->client_left() : ((*self).*next)();
    });
  });
}

void Connection::announce_update() noexcept {
  if (has_update_.exchange(true)) return;
  try {
    wakeups_.add(shared_from_this());
  } catch (const std::exception&) {  // check() will look for it
    has_update_ = false;
  }
}

void Connection::wake() noexcept {
  has_update_ = false;
  guard([&] { advance(); });
}

void Connection::advance() {
  if (!pending_ || is_writing_ || is_waiting_) return;
  std::string events;
  const PendingResponse::State state = pending_->advance(events, kEnoughEvents, false);
  take_progress(state, std::move(events));
}

void Connection::take_progress(PendingResponse::State state, std::string events) {
  const bool is_complete = state == PendingResponse::State::kComplete;
  if (state == PendingResponse::State::kMustWait && events.empty()) return wait_elsewhere();
  if (!is_stream_) {
    if (!is_complete) return;
    HttpResponse response = pending_->response();
    pending_.reset();
    return send_response(std::move(response));
  }
  if (!is_complete && events.empty()) return;
  if (is_complete) pending_.reset();
  // There may be more.
  if (events.size() >= kEnoughEvents || state == PendingResponse::State::kMustWait) announce_update();
  std::string size;
  if (!is_http10_ && !events.empty()) {
    size = fmt::format("{:x}\r\n", events.size());
    events += "\r\n";
  }
  if (!is_http10_ && is_complete) events += "0\r\n\r\n";
  send(std::move(size), std::move(events), is_complete ? &Connection::response_sent : &Connection::advance);
}

// Clients take turns there, too: one whose responses wait again and again holds up nobody but itself.
void Connection::wait_elsewhere() {
  stop_ = has_waited_ = false;
  is_waiting_ = true;
  context_.waiters.add(client_, [self = shared_from_this()] { self->advance_waiting(); });
}

void Connection::advance_waiting() noexcept {
  waited_failure_ = nullptr;
  try {
    if (!stop_) waited_ = pending_->advance(waited_events_, kEnoughEvents, true);  // else nobody waits for it any more
  } catch (const std::exception&) {
    waited_failure_ = std::current_exception();
  }
  has_waited_ = true;
  try {
    post([](Connection& self) { self.take_waited(); });
  } catch (const std::exception&) {  // check() will look for it
  }
}

void Connection::take_waited() {
  if (!is_waiting_ || !has_waited_.exchange(false)) return;  // it was taken, and this call is late
  is_waiting_ = false;
  std::string events = std::exchange(waited_events_, {});
  if (stop_ || is_aborted_ || client_gone()) return client_left();
  if (waited_failure_) std::rethrow_exception(waited_failure_);
  take_progress(waited_, std::move(events));
  advance();  // what came meanwhile
}

void Connection::response_sent() {
  log_request();
  if (ends_ || is_draining_) return leave();
  await_request();
}

void Connection::break_off() noexcept {
  log_request();
  close();
}

// Closing a socket that still has something to read makes the system throw away what the client has not taken yet. So
// the response is ended, and what the client is still sending is taken and dropped, for a short while, if not too many
// do.
void Connection::leave() {
  if (phase_ == Phase::kLeaving) return;
  ErrorCode ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  buffer_.clear();
  parser_.reset();
  place_of_key_.clear();
  move_to(Phase::kLeaving, context_.limits.linger);
  if (++context_.leaving > context_.limits.leaving) return close();
  read_more();
}

void Connection::client_left() {
  if (pending_) pending_->note_departure();
  if (log_entry_.note.empty()) log_entry_.note = "the client left before the end of the answer";
  if (log_entry_.status == 0) log_entry_.status = kClientClosedRequest;
  break_off();
}

void Connection::log_request() noexcept {
  if (std::exchange(is_logged_, true)) return;
  log_entry_.time = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - log_entry_.begin);
  context_.handler.log_request(log_entry_);
}

void Connection::close() noexcept {
  const Phase was = phase_.exchange(Phase::kClosed);
  if (was == Phase::kClosed) return;
  if (was == Phase::kLeaving) --context_.leaving;
  pending_.reset();
  parser_.reset();
  place_of_key_.clear();
  ErrorCode ignored;
  socket_.close(ignored);
  context_.closed(origin_.id);
}

}  // namespace reprofuse::server
