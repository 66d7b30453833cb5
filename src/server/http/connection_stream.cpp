#include "server/http/connection_stream.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace reprofuse::server {
namespace {

constexpr std::chrono::milliseconds kLinger{2'000};

// Like poll(), for one socket and until a point in time; a signal does not end it. What happened, 0 when nothing did.
int wait_for(int socket, int events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd entry = {.fd = socket, .events = static_cast<short>(events), .revents = 0};
    const int ready = poll(&entry, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (ready >= 0) return entry.revents;
    if (errno != EINTR) return POLLERR;
  }
}

void name_of(const sockaddr_storage& address, socklen_t bytes, std::string& ip, int& port) {
  char host[NI_MAXHOST] = {};
  char service[NI_MAXSERV] = {};
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (getnameinfo(generic, bytes, host, sizeof(host), service, sizeof(service), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return;
  ip = host;
  port = static_cast<int>(std::strtol(service, nullptr, 10));
}

}  // namespace

ConnectionStream::ConnectionStream(int socket, const ConnectionLimits& limits) : socket_(socket), limits_(limits) {
  const int yes = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));  // a token should not wait for the next one
}

ConnectionStream::~ConnectionStream() {
  close(socket_);
}

bool ConnectionStream::wait_for_request(int stop) {
  const auto patience = first_request_ ? limits_.header : limits_.idle;
  first_request_ = false;
  if (begin_ == end_) {
    pollfd entries[] = {{.fd = socket_, .events = POLLIN, .revents = 0}, {.fd = stop, .events = POLLIN, .revents = 0}};
    int ready = 0;
    do {
      ready = poll(entries, 2, static_cast<int>(patience.count()));
    } while (ready < 0 && errno == EINTR);
    if (ready <= 0 || entries[0].revents == 0) return false;
  }
  failure_ = ReadFailure::kNone;
  deadline_ = Clock::now() + limits_.header;
  allowance_ = limits_.header_bytes;
  grammar_.emplace<HeaderGrammar>();
  return true;
}

void ConnectionStream::begin_body(bool in_chunks) {
  deadline_ = Clock::now() + limits_.body;
  // The body's own bytes are counted where they are gathered; this bounds the framing of a chunked one.
  allowance_ = 2 * limits_.body_bytes + limits_.header_bytes;
  grammar_.emplace<std::monostate>();
  if (in_chunks) grammar_.emplace<ChunkGrammar>(limits_.body_bytes);
}

bool ConnectionStream::client_gone() const {
  return (wait_for(socket_, POLLRDHUP, Clock::now()) & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void ConnectionStream::end() {
  shutdown(socket_, SHUT_WR);
  const auto until = Clock::now() + kLinger;
  while (Clock::now() < until && wait_for(socket_, POLLIN, until) != 0)
    if (recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT) <= 0) break;
}

bool ConnectionStream::is_readable() const {
  return begin_ < end_ || wait_for(socket_, POLLIN, deadline_) != 0;
}

bool ConnectionStream::is_writable() const {
  return (wait_for(socket_, POLLOUT, Clock::now() + limits_.write) & POLLOUT) != 0 && !client_gone();
}

bool ConnectionStream::fill() {
  for (;;) {
    if (wait_for(socket_, POLLIN, deadline_) == 0 || Clock::now() >= deadline_) {
      failure_ = ReadFailure::kTooLate;
      return false;
    }
    const ssize_t received = recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (received > 0) {
      begin_ = 0;
      end_ = static_cast<std::size_t>(received);
      return true;
    }
    if (received < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    failure_ = ReadFailure::kGone;
    return false;
  }
}

ssize_t ConnectionStream::read(char* to, std::size_t size) {
  if (failure_ != ReadFailure::kNone) return -1;
  if (allowance_ == 0) {
    failure_ = ReadFailure::kTooLarge;
    return -1;
  }
  if (begin_ == end_ && !fill()) return -1;
  const std::size_t taken = std::min({size, end_ - begin_, allowance_});
  check({buffer_.data() + begin_, taken});
  if (failure_ != ReadFailure::kNone) return -1;
  std::memcpy(to, buffer_.data() + begin_, taken);
  begin_ += taken;
  allowance_ -= taken;
  return static_cast<ssize_t>(taken);
}

void ConnectionStream::check(std::string_view bytes) {
  auto* header = std::get_if<HeaderGrammar>(&grammar_);
  auto* chunks = std::get_if<ChunkGrammar>(&grammar_);
  if ((header != nullptr && !header->accepts(bytes)) || (chunks != nullptr && !chunks->accepts(bytes)))
    failure_ = ReadFailure::kMalformed;
  else if (chunks != nullptr && chunks->is_too_large())
    failure_ = ReadFailure::kTooLarge;
}

ssize_t ConnectionStream::write(const char* data, std::size_t size) {
  for (;;) {
    const ssize_t sent = send(socket_, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return sent;
    if (errno == EINTR) continue;
    if (errno != EAGAIN || (wait_for(socket_, POLLOUT, Clock::now() + limits_.write) & POLLOUT) == 0) return -1;
  }
}

void ConnectionStream::get_remote_ip_and_port(std::string& ip, int& port) const {
  sockaddr_storage address = {};
  socklen_t bytes = sizeof(address);
  if (getpeername(socket_, reinterpret_cast<sockaddr*>(&address), &bytes) == 0) name_of(address, bytes, ip, port);
}

void ConnectionStream::get_local_ip_and_port(std::string& ip, int& port) const {
  sockaddr_storage address = {};
  socklen_t bytes = sizeof(address);
  if (getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &bytes) == 0) name_of(address, bytes, ip, port);
}

}  // namespace reprofuse::server
