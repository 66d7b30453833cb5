// Accepts connections and gives each a thread, up to a limit; one more gets a 503 at once and is closed.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "server/http/connection_stream.hpp"

namespace reprofuse::server {

// Where a server listens.

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

// A descriptor that can be read from the moment on that something was raised, by any number of threads.
class Flag {
 public:
  Flag();
  ~Flag();
  Flag(const Flag&) = delete;
  Flag& operator=(const Flag&) = delete;

  void raise();
  bool is_raised() const;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

class ConnectionListener {
 public:
  // Serves one connection until it ends, on a thread of its own. It gives up between requests when the flag is raised.
  using Serve = std::function<void(ConnectionStream& stream, const Flag& stop)>;

  struct Options {
    std::vector<SocketAddress> addresses;
    std::size_t max_connections;
    ConnectionLimits limits;
    std::string full_response;  // what one connection too many is sent, with HTTP's header
  };

  ConnectionListener(Options options, Serve serve);  // binds; until the start, connections wait
  ~ConnectionListener();                             // closes all connections, whatever they are doing
  ConnectionListener(const ConnectionListener&) = delete;
  ConnectionListener& operator=(const ConnectionListener&) = delete;

  const SocketAddress& address() const { return address_; }
  std::size_t connections() const;
  std::uint64_t refused() const;

  void start_accepting();  // once
  // No connection is accepted any more, and those that wait for a request are closed; the others go on.
  void stop_accepting();
  bool wait_until_closed(std::chrono::milliseconds patience);  // all of them; false: not in time

 private:
  // A connection too many, until what it sent has been taken: see ConnectionStream::end.
  struct Leaving {
    int socket;
    Clock::time_point deadline;
  };

  void accept_loop();
  void accept_one();
  bool start(int socket);  // false: there are too many
  void turn_away(int socket);
  void take_from_leaving(std::span<const pollfd> entries);  // one for each that leaves
  bool all_finished() const { return threads_.size() == finished_.size(); }
  void join_finished();

  Options options_;
  Serve serve_;
  SocketAddress address_;
  int listener_;
  Flag stop_;
  std::deque<Leaving> leaving_;  // of the acceptor alone

  mutable std::mutex mutex_;
  std::condition_variable closed_;
  std::uint64_t next_id_ = 0;
  std::uint64_t refused_ = 0;
  std::map<std::uint64_t, int> sockets_;  // of connections being served
  std::map<std::uint64_t, std::thread> threads_;
  std::vector<std::uint64_t> finished_;  // threads to be joined
  std::thread acceptor_;
};

}  // namespace reprofuse::server
