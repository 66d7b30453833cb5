// Where a server listens.
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

namespace reprofuse::server {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t bytes = 0;

  bool is_loopback() const;  // no other machine can reach it
  int port() const;
  std::string to_string() const;  // "127.0.0.1:8000", "[::1]:8000"
};

// All that a name or a number stands for. Throws when there is none.
std::vector<SocketAddress> resolve_address(const std::string& host, int port);

// A socket that listens on the first of them that can be had; the one that it got is `bound`. Port 0 is any free one.
// A port of which an earlier server left only ended connections can be had; one on which another listens cannot.
int listen_on(const std::vector<SocketAddress>& addresses, SocketAddress& bound);

}  // namespace reprofuse::server
