// A client's socket as httplib reads and writes it: whatever a client sends has a deadline and a limit, and whatever it
// is sent, too.
#pragma once

#include <httplib.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

#include "server/http/framing.hpp"

namespace reprofuse::server {

using Clock = std::chrono::steady_clock;

struct ConnectionLimits {
  std::chrono::milliseconds idle{75'000};    // without a request
  std::chrono::milliseconds header{10'000};  // for the whole of a request's header, however slowly it comes
  std::chrono::milliseconds body{30'000};    // the same for its body
  std::chrono::milliseconds write{30'000};   // in which the client takes nothing of what it asked for
  std::size_t header_bytes = std::size_t{32} << 10;
  std::size_t body_bytes = std::size_t{16} << 20;
};

// Why a read came to nothing.
enum class ReadFailure { kNone, kTooLate, kTooLarge, kMalformed, kGone };

class ConnectionStream final : public httplib::Stream {
 public:
  ConnectionStream(int socket, const ConnectionLimits& limits);  // the socket is its own from now on
  ~ConnectionStream() override;
  ConnectionStream(const ConnectionStream&) = delete;
  ConnectionStream& operator=(const ConnectionStream&) = delete;

  // Until the first byte of a request is there. False: none came in time, the client has left, or `stop`, a descriptor,
  // can be read.
  bool wait_for_request(int stop);
  void begin_body(bool in_chunks);  // what is read from now on
  ReadFailure failure() const { return failure_; }

  // The client has closed its side, or all of it. One that closes its side alone is taken to have left: nobody can tell
  // it from one that was killed.
  bool client_gone() const;

  // Closing a socket that still has something to read makes the system throw away what the client has not taken yet. So
  // the answer is ended, and what the client is still sending is taken and dropped, for a short while.
  void end();

  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char* to, std::size_t size) override;
  ssize_t write(const char* data, std::size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return socket_; }

 private:
  bool fill();                         // the buffer, with at least one byte
  void check(std::string_view bytes);  // that the client sent

  int socket_;
  const ConnectionLimits& limits_;
  bool first_request_ = true;
  ReadFailure failure_ = ReadFailure::kNone;
  Clock::time_point deadline_;
  std::size_t allowance_ = 0;                                          // bytes that may still be read
  std::variant<std::monostate, HeaderGrammar, ChunkGrammar> grammar_;  // of what is read now
  std::array<char, 16384> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // what of the buffer has not been read
};

}  // namespace reprofuse::server
