// Shared by the tests of the server: one with the bundled model on a free port, and clients that may misbehave.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/server.hpp"
#include "support/messages.hpp"

namespace reprofuse::server {

using Json = nlohmann::ordered_json;
using std::chrono::milliseconds;

// How long a test waits for what should come at once; it matters only where nothing comes, as it does where the server
// is broken on purpose. Hence a variable for those who do that often, in milliseconds.
inline const milliseconds kPatience{
    std::getenv("REPROFUSE_TEST_PATIENCE") != nullptr ? std::atoi(std::getenv("REPROFUSE_TEST_PATIENCE")) : 120'000};

// Loading takes most of a test's time, so what does not matter is small.
inline std::shared_ptr<ServedModel> load_model(const std::function<void(ServedModelOptions&)>& change = {}) {
  ServedModelOptions options;
  options.folder = REPROFUSE_BUNDLED_MODEL;
  options.kv_bytes = std::int64_t{64} << 20;
  options.version = "0.0.0";
  if (change) change(options);
  return std::make_shared<ServedModel>(Context::cpu(kDefaultNumerics, std::nullopt, 1), options, Progress());
}

// A server, and what it wrote to its log.
class TestServer {
 public:
  explicit TestServer(const std::function<void(ServerOptions&)>& change = {}) : server_(options(change), log()) {}

  Server& operator*() { return server_; }
  Server* operator->() { return &server_; }
  int port() const { return server_.address().port; }

  httplib::Client client() const {
    httplib::Client client("127.0.0.1", port());
    client.set_read_timeout(kPatience);
    return client;
  }

  std::vector<RequestLogEntry> log_entries() const {
    const std::lock_guard lock(mutex_);
    return log_entries_;
  }

 private:
  // A machine may be so busy that a client is slow for no fault of its own. So the server waits longer than any test,
  // and if it waits where it should not, the client's patience ends first.
  static ServerOptions options(const std::function<void(ServerOptions&)>& change) {
    ServerOptions options;
    options.port = 0;
    options.version = "0.0.0";
    options.limits.idle = options.limits.header = options.limits.body = options.limits.write = 10 * kPatience;
    if (change) change(options);
    return options;
  }

  RequestLog log() {
    return [this](const RequestLogEntry& entry) {
      const std::lock_guard lock(mutex_);
      log_entries_.push_back(entry);
    };
  }

  mutable std::mutex mutex_;
  std::vector<RequestLogEntry> log_entries_;
  Server server_;  // last: its threads write the entries
};

// A client that sends what it likes, when it likes.
class RawClient {
 public:
  static constexpr const char* kNothingMore = "[nothing more came in time]";

  // `from` is the last number of its own address, 127.0.0.x.
  explicit RawClient(int port, std::uint32_t from = 1) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl((INADDR_LOOPBACK & ~0xFFU) | from);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  void send(const std::string& text) const { ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL); }
  void end_sending() const { shutdown(socket_, SHUT_WR); }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }

  // Something has come, or the server has closed.
  bool can_read(milliseconds timeout) const {
    pollfd entry = {.fd = socket_, .events = POLLIN, .revents = 0};
    return poll(&entry, 1, static_cast<int>(timeout.count())) > 0;
  }

  // At most so many bytes, once some are there. None: the server has closed.
  std::size_t take(std::size_t bytes) const {
    std::string buffer(bytes, '\0');
    const ssize_t received = can_read(kPatience) ? recv(socket_, buffer.data(), bytes, 0) : -1;
    return received > 0 ? static_cast<std::size_t>(received) : 0;
  }

  // What comes until `end` does, or the server closes.
  std::string read(const std::string& end = "") const {
    std::string text;
    char buffer[4096];
    while (end.empty() || text.find(end) == std::string::npos) {
      if (!can_read(kPatience)) return text + kNothingMore;
      const ssize_t received = recv(socket_, buffer, sizeof(buffer), 0);
      if (received <= 0) break;
      text.append(buffer, static_cast<std::size_t>(received));
    }
    return text;
  }

 private:
  int socket_;
  bool connected_ = false;
};

inline std::string post_text(const std::string& path, const std::string& body, const std::string& more = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + more +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

inline httplib::Result post(httplib::Client& client, const std::string& path, const Json& body,
                            const httplib::Headers& headers = {}) {
  return client.Post(path, headers, body.dump(), "application/json");
}

inline std::string error_code(const httplib::Result& result) {
  if (!result) return "no answer: " + httplib::to_string(result.error());
  const Json body = Json::parse(result->body, nullptr, false);
  return body.is_object() && body.contains("error") ? body["error"]["code"].dump() : "not an error: " + result->body;
}

// Whether it comes true while a test can wait for it.
inline bool soon(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

// An answer that takes far longer than any test: many choices of full length.
inline Json endless_completion(bool stream) {
  return {{"prompt", "Tom"}, {"max_tokens", 900}, {"n", 64}, {"ignore_eos", true}, {"stream", stream}};
}

}  // namespace reprofuse::server
