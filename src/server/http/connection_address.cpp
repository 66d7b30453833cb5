#include "server/http/connection_address.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

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

}  // namespace reprofuse::server
