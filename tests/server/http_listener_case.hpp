// A listener over a handler that responds as slowly, and as much, as a test wants.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "server/http/listener.hpp"
#include "server/server_test_support.hpp"

namespace reprofuse::server {

inline constexpr std::size_t kLarge = std::size_t{16}
                                      << 20;  // more than the system keeps for a client that does not read

// The header Authorization is the name of a key. A POST has its response after open_gate(), and so has /waiting, which
// must wait by itself.
class GatedHandler final : public HttpHandler {
 public:
  void wait_for_gate() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    opened_.wait(lock, [&] { return is_open_; });
  }
  int waiting() const {
    const std::lock_guard lock(mutex_);
    return waiting_;
  }
  void open_gate() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    opened_.notify_all();
  }
  std::vector<std::string> order() const {  // of those who asked by POST
    const std::lock_guard lock(mutex_);
    return order_;
  }
  std::size_t named() const {  // POSTs whose client was asked for
    const std::lock_guard lock(mutex_);
    return named_;
  }
  std::vector<RequestLogEntry> logged_requests() const {
    const std::lock_guard lock(mutex_);
    return logged_;
  }

  // A thread that reads requests is held up by /held, and finds no memory for /unaffordable.
  std::optional<HttpResponse> respond_before_body(const HttpRequest& request) override {
    if (request.path == "/held") wait_for_gate();
    if (request.path == "/unaffordable") throw std::bad_alloc();
    return std::nullopt;
  }
  std::string client_of(const HttpRequest& request) const override {
    const std::lock_guard lock(mutex_);
    if (request.method == "POST") ++named_;
    return request.header("authorization").value_or(request.address);
  }
  bool has_keys() const override { return has_keys_; }
  void expect_keys() { has_keys_ = true; }
  HttpResponse respond(const HttpRequest& request, ReadGuard& /*guard*/, RequestLogEntry& /*entry*/) override {
    HttpResponse response;
    response.body = request.path.starts_with("/large") ? std::string(kLarge, 'a')
                    : request.for_monitoring           ? "of the reserve"
                                                       : "as usual";
    if (request.path == "/waiting") {
      response.pending = std::make_shared<WaitingResponse>(*this);
      return response;
    }
    std::unique_lock lock(mutex_);
    if (request.method != "POST") return response;
    order_.push_back(request.header("authorization").value_or(""));
    opened_.wait(lock, [&] { return is_open_; });
    return response;
  }
  void decorate(const HttpRequest& /*request*/, HttpResponse& /*response*/) override {}
  bool keeps_connections() const override { return true; }
  void log_request(const RequestLogEntry& entry) noexcept override {
    const std::lock_guard lock(mutex_);
    logged_.push_back(entry);
  }

 private:
  class WaitingResponse final : public PendingResponse {
   public:
    explicit WaitingResponse(GatedHandler& handler) : handler_(handler) {}
    void on_update(std::function<void()> /*call*/) override {}
    State advance(std::string& /*events*/, std::size_t /*enough*/, bool may_wait) override {
      if (!may_wait) return State::kMustWait;
      handler_.wait_for_gate();
      return ++waits_ < kWaits ? State::kMustWait : State::kComplete;
    }
    HttpResponse response() override {
      HttpResponse response;
      response.body = "waited";
      return response;
    }
    void note_departure() override {}

   private:
    static constexpr int kWaits = 200;  // one after the other, as the choices of a request that each have a receipt

    GatedHandler& handler_;
    int waits_ = 0;
  };

  mutable std::mutex mutex_;
  std::condition_variable opened_;
  int waiting_ = 0;
  mutable std::size_t named_ = 0;
  bool is_open_ = false;
  std::atomic<bool> has_keys_ = false;
  std::vector<std::string> order_;
  std::vector<RequestLogEntry> logged_;
};

inline std::string get_text(const std::string& path, const std::string& more = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + more + "\r\n";
}

class HttpListenerTest : public testing::Test {
 protected:
  void start(const std::function<void(ConnectionLimits&)>& change) {
    ConnectionLimits limits;
    limits.idle = limits.header = limits.body = limits.write = 10 * kPatience;
    change(limits);
    listener_ = std::make_unique<HttpListener>(resolve_address("127.0.0.1", 0), limits, handler_);
    listener_->start();
  }
  ~HttpListenerTest() override { handler_.open_gate(); }

  int port() const { return listener_->address().port; }

  // One whose response has begun, and which reads none of it.
  std::unique_ptr<RawClient> unread(std::uint32_t from, const std::string& path, const std::string& more = "") const {
    auto client = std::make_unique<RawClient>(port(), from);
    client->send(get_text(path, more));
    EXPECT_TRUE(client->can_read(kPatience));
    return client;
  }

  std::string response_to(std::uint32_t from) const {
    const RawClient client(port(), from);
    client.send(get_text("/", "Connection: close\r\n"));
    return client.read();
  }

  GatedHandler handler_;
  std::unique_ptr<HttpListener> listener_;
};

}  // namespace reprofuse::server
