#include "server/http/connection_listener.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>
#include <system_error>
#include <utility>

#include "base/check.hpp"

namespace reprofuse::server {
namespace {

constexpr int kBacklog = 1024;  // connections that wait to be accepted; the system may allow fewer

const sockaddr_in& as_ipv4(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr_in&>(address.storage);
}

const sockaddr_in6& as_ipv6(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr_in6&>(address.storage);
}

// -1 with errno when it cannot be had.
int try_to_listen(const SocketAddress& address) {
  const int family = address.storage.ss_family;
  const int listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) return -1;
  const int yes = 1;
  const int no = 0;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (family == AF_INET6) setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address.storage), address.bytes) == 0 &&
      listen(listener, kBacklog) == 0)
    return listener;
  const int reason = errno;
  close(listener);
  errno = reason;
  return -1;
}

}  // namespace

bool SocketAddress::is_loopback() const {
  constexpr std::uint32_t kFirstByteOfLoopback = 127;
  if (storage.ss_family == AF_INET) return ntohl(as_ipv4(*this).sin_addr.s_addr) >> 24 == kFirstByteOfLoopback;
  const in6_addr& address = as_ipv6(*this).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&address)) return address.s6_addr[12] == kFirstByteOfLoopback;
  return IN6_IS_ADDR_LOOPBACK(&address);
}

int SocketAddress::port() const {
  return ntohs(storage.ss_family == AF_INET ? as_ipv4(*this).sin_port : as_ipv6(*this).sin6_port);
}

std::string SocketAddress::to_string() const {
  char host[NI_MAXHOST] = {};
  const int status =
      getnameinfo(reinterpret_cast<const sockaddr*>(&storage), bytes, host, sizeof(host), nullptr, 0, NI_NUMERICHOST);
  invariant(status == 0, "a bound socket has an address that can be written");
  return storage.ss_family == AF_INET6 ? fmt::format("[{}]:{}", host, port()) : fmt::format("{}:{}", host, port());
}

std::vector<SocketAddress> resolve_address(const std::string& host, int port) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int status = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  require(status == 0, "host '{}' has no address: {}", host, gai_strerror(status));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    SocketAddress& address = addresses.emplace_back();
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.bytes = entry->ai_addrlen;
  }
  return addresses;
}

int listen_on(const std::vector<SocketAddress>& addresses, SocketAddress& bound) {
  for (const SocketAddress& address : addresses) {
    const int listener = try_to_listen(address);
    if (listener < 0) continue;
    bound.bytes = sizeof(bound.storage);
    getsockname(listener, reinterpret_cast<sockaddr*>(&bound.storage), &bound.bytes);
    return listener;
  }
  const int reason = errno;
  fail(ErrorCode::kUnsupported, "{} cannot be listened on: {}{}", addresses.back().to_string(),
       std::generic_category().message(reason),
       reason == EADDRINUSE ? "; another program listens there, and --port takes another port (0: any free one)" : "");
}

namespace {

constexpr std::size_t kMaxLeaving = 1024;
constexpr std::chrono::milliseconds kLeavingTime{1'000};
constexpr std::chrono::milliseconds kRest{20};  // when the system has no descriptor or memory for another connection

// Descriptors for every connection, those that leave and what a process needs besides.
void allow_descriptors(std::size_t connections) {
  constexpr rlim_t kOthers = 128;
  const rlim_t least = connections + kOthers;
  rlimit limit = {};
  require(getrlimit(RLIMIT_NOFILE, &limit) == 0, "the limit of open files cannot be read");
  require(limit.rlim_max == RLIM_INFINITY || limit.rlim_max >= least,
          "{} connections need {} open files, and the hard limit (ulimit -Hn) is {}", connections, least,
          limit.rlim_max);
  const rlim_t wanted = std::min<rlim_t>(least + kMaxLeaving, limit.rlim_max);
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  require(setrlimit(RLIMIT_NOFILE, &limit) == 0, "the limit of open files cannot be raised to {}", wanted);
}

}  // namespace

Flag::Flag() : descriptor_(eventfd(0, EFD_CLOEXEC)) {
  require(descriptor_ >= 0, "no descriptor is left for an event: {}", std::generic_category().message(errno));
}

Flag::~Flag() {
  close(descriptor_);
}

void Flag::raise() {
  const std::uint64_t one = 1;
  invariant(write(descriptor_, &one, sizeof(one)) == sizeof(one), "an event can be raised");
}

bool Flag::is_raised() const {
  pollfd entry = {.fd = descriptor_, .events = POLLIN, .revents = 0};
  return poll(&entry, 1, 0) == 1;
}

ConnectionListener::ConnectionListener(Options options, Serve serve)
    : options_(std::move(options)), serve_(std::move(serve)) {
  allow_descriptors(options_.max_connections);
  listener_ = listen_on(options_.addresses, address_);
}

void ConnectionListener::start_accepting() {
  acceptor_ = std::thread([this] { accept_loop(); });
}

ConnectionListener::~ConnectionListener() {
  stop_accepting();
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, socket] : sockets_) shutdown(socket, SHUT_RDWR);
  }
  {
    std::unique_lock lock(mutex_);
    closed_.wait(lock, [&] { return all_finished(); });
  }
  join_finished();
  if (listener_ >= 0) close(listener_);  // it was never started
}

std::size_t ConnectionListener::connections() const {
  const std::lock_guard lock(mutex_);
  return sockets_.size();
}

std::uint64_t ConnectionListener::refused() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}

void ConnectionListener::stop_accepting() {
  if (!acceptor_.joinable()) return;
  stop_.raise();
  acceptor_.join();
}

bool ConnectionListener::wait_until_closed(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  return closed_.wait_for(lock, patience, [&] { return all_finished(); });
}

void ConnectionListener::accept_loop() {
  std::vector<pollfd> entries;
  while (!stop_.is_raised()) {
    entries = {{.fd = listener_, .events = POLLIN, .revents = 0},
               {.fd = stop_.descriptor(), .events = POLLIN, .revents = 0}};
    for (const Leaving& leaving : leaving_) entries.push_back({.fd = leaving.socket, .events = POLLIN, .revents = 0});
    const int forever = -1;
    poll(entries.data(), entries.size(), leaving_.empty() ? forever : static_cast<int>(kLeavingTime.count()));
    take_from_leaving(std::span(entries).subspan(2));
    if ((entries[0].revents & POLLIN) != 0) accept_one();
    join_finished();
  }
  close(std::exchange(listener_, -1));
  for (const Leaving& leaving : leaving_) close(leaving.socket);
}

void ConnectionListener::accept_one() {
  const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (socket >= 0) {
    if (!start(socket)) turn_away(socket);
  } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
    std::this_thread::sleep_for(kRest);
  }
}

bool ConnectionListener::start(int socket) {
  const std::lock_guard lock(mutex_);
  if (sockets_.size() >= options_.max_connections) return false;
  const std::uint64_t id = next_id_++;
  try {
    threads_[id] = std::thread([this, id, socket] {
      {
        ConnectionStream stream(socket, options_.limits);
        serve_(stream, stop_);
        const std::lock_guard done(mutex_);
        sockets_.erase(id);  // before the descriptor is closed: it could belong to another connection after that
      }
      const std::lock_guard done(mutex_);
      finished_.push_back(id);
      closed_.notify_all();
    });
  } catch (const std::system_error&) {  // the system has no thread left
    threads_.erase(id);
    return false;
  }
  sockets_[id] = socket;
  return true;
}

// Never waits: what the client does not take at once, it does not get.
void ConnectionListener::turn_away(int socket) {
  send(socket, options_.full_response.data(), options_.full_response.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  shutdown(socket, SHUT_WR);
  leaving_.push_back({socket, Clock::now() + kLeavingTime});
  if (leaving_.size() > kMaxLeaving) {
    close(leaving_.front().socket);
    leaving_.pop_front();
  }
  const std::lock_guard lock(mutex_);
  ++refused_;
}

void ConnectionListener::take_from_leaving(std::span<const pollfd> entries) {
  const auto now = Clock::now();
  std::deque<Leaving> staying;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Leaving& leaving = leaving_[i];
    std::array<char, 4096> dropped;
    const bool is_ready = entries[i].revents != 0;
    const bool has_left = now >= leaving.deadline ||
                          (is_ready && recv(leaving.socket, dropped.data(), dropped.size(), MSG_DONTWAIT) <= 0);
    if (has_left)
      close(leaving.socket);
    else
      staying.push_back(leaving);
  }
  leaving_ = std::move(staying);
}

void ConnectionListener::join_finished() {
  std::vector<std::thread> ended;
  {
    const std::lock_guard lock(mutex_);
    for (const std::uint64_t id : finished_) ended.push_back(std::move(threads_.extract(id).mapped()));
    finished_.clear();
  }
  for (std::thread& thread : ended) thread.join();
}

}  // namespace reprofuse::server
