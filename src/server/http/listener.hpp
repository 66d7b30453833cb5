// Accepts connections and lets Boost.Asio's threads serve them, up to limits. Where all places are taken, a connection
// that waits for a request makes room for a new one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/http/limits.hpp"
#include "server/http/message.hpp"

namespace reprofuse::server {

// Where a server listens.
struct SocketAddress {
  std::string ip;
  std::uint16_t port = 0;
  bool is_loopback = false;  // no other machine can reach it

  std::string to_string() const;  // "127.0.0.1:8000", "[::1]:8000"
};

// All that a name or a number stands for. Throws when there is none.
std::vector<SocketAddress> resolve_address(const std::string& host, int port);

class ListenerState;

class HttpListener {
 public:
  // Listens on the first of the addresses that can be had; until the start, connections wait. A port of which an
  // earlier server left only ended connections can be had; one on which another listens cannot. The handler must
  // outlive it.
  HttpListener(const std::vector<SocketAddress>& addresses, const ConnectionLimits& limits, HttpHandler& handler);
  ~HttpListener();  // closes all connections, whatever they are doing
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  static constexpr int kThreads = 4;  // each serves some of the connections

  const SocketAddress& address() const;

  struct Counts {
    std::size_t connections = 0;  // open
    std::uint64_t refused = 0;    // turned away, or closed at once, because no place was free
    std::uint64_t evicted = 0;    // closed to make room for others
    std::size_t reply_bytes = 0;  // of responses that clients have not taken yet
  };
  Counts counts() const;

  void start();                   // once
  void adopt_socket(int socket);  // for fuzz targets: a connected one, as if it had been accepted
  // No connection is accepted any more, and those that wait for a request are closed; the others go on. To be called
  // again as long as there are connections, since there may be no memory to tell each of it.
  void stop_accepting();
  bool wait_until_closed(std::chrono::milliseconds timeout);  // all of them; false: not in time

 private:
  std::unique_ptr<ListenerState> state_;
};

}  // namespace reprofuse::server
