// Places and turns of connections, with a handler that answers as slowly, and as much, as a test wants.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/http/listener.hpp"
#include "server/server_test_support.hpp"

namespace reprofuse::server {
namespace {

constexpr std::size_t kLarge = std::size_t{16} << 20;  // more than the system keeps for a client that does not read

// The header Authorization is the name of a key. A POST is answered after open_gate(), and so is /waiting, where it
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
  std::vector<RequestRecord> finished_requests() const {
    const std::lock_guard lock(mutex_);
    return finished_;
  }

  // A thread that reads requests is held up by /held.
  std::optional<HttpResponse> answer_before_body(const HttpRequest& request) override {
    if (request.path == "/held") wait_for_gate();
    return std::nullopt;
  }
  std::string client_of(const HttpRequest& request) const override {
    const std::lock_guard lock(mutex_);
    if (request.method == "POST") ++named_;
    return request.header("authorization").value_or(request.address);
  }
  bool has_keys() const override { return has_keys_; }
  void expect_keys() { has_keys_ = true; }
  HttpResponse answer(const HttpRequest& request, ReadGuard& /*guard*/, RequestRecord& /*record*/) override {
    HttpResponse response;
    response.body = request.path.starts_with("/large") ? std::string(kLarge, 'a')
                    : request.in_reserve               ? "of the reserve"
                                                       : "as usual";
    if (request.path == "/waiting") {
      response.pending = std::make_shared<WaitingAnswer>(*this);
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
  void finished(const RequestRecord& record) noexcept override {
    const std::lock_guard lock(mutex_);
    finished_.push_back(record);
  }

 private:
  class WaitingAnswer final : public PendingAnswer {
   public:
    explicit WaitingAnswer(GatedHandler& handler) : handler_(handler) {}
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
  std::vector<RequestRecord> finished_;
};

std::string get_text(const std::string& path, const std::string& more = "") {
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

  // One whose answer has begun, and which reads none of it.
  std::unique_ptr<RawClient> unread(std::uint32_t from, const std::string& path, const std::string& more = "") const {
    auto client = std::make_unique<RawClient>(port(), from);
    client->send(get_text(path, more));
    EXPECT_TRUE(client->can_read(kPatience));
    return client;
  }

  std::string answer_to(std::uint32_t from) const {
    const RawClient client(port(), from);
    client.send(get_text("/", "Connection: close\r\n"));
    return client.read();
  }

  GatedHandler handler_;
  std::unique_ptr<HttpListener> listener_;
};

TEST_F(HttpListenerTest, AnAnswerThatNobodyReadsMakesRoom) {
  start([](ConnectionLimits& limits) {
    limits.grace = milliseconds(0);
    limits.connections = 4;
    limits.connections_per_client = 3;
  });
  const auto of_one = unread(3, "/large/one");
  const auto of_two = unread(4, "/large/two"), of_two_later = unread(4, "/large/two");
  const auto with_key = unread(2, "/large/key", "Authorization: a\r\n");
  EXPECT_TRUE(soon([&] { return contains(answer_to(1), "as usual"); }));
  const auto evicted = [&] {
    std::string paths;
    for (const RequestRecord& record : handler_.finished_requests()) paths += record.path == "/" ? "" : record.path;
    return paths;
  };
  ASSERT_TRUE(soon([&] { return !evicted().empty(); }));
  EXPECT_EQ(evicted(), "/large/two") << "whoever has most places is first";
}

TEST_F(HttpListenerTest, AnswersThatNobodyReadsHaveABoundForEachClientAndForAll) {
  start([](ConnectionLimits& limits) { limits.reply_bytes = 8 * kLarge; });
  const auto status_of = [&](const std::string& key) {
    const RawClient client(port());
    client.send(get_text("/large", "Connection: close\r\nAuthorization: " + key + "\r\n"));
    const std::string text = client.read();
    return contains(text, "\"out_of_memory\"") ? 503 : text.size() > kLarge ? 200 : 0;
  };
  std::vector<std::unique_ptr<RawClient>> unread_ones;
  const auto leave_unread = [&](const std::string& key, int count) {
    for (int i = 0; i < count; ++i) unread_ones.push_back(unread(1, "/large", "Authorization: " + key + "\r\n"));
  };
  leave_unread("a", 4);
  EXPECT_EQ(status_of("a"), 503) << "half of all there is";
  leave_unread("b", 2);
  EXPECT_EQ(status_of("b"), 503) << "half of what the first has left";
  EXPECT_EQ(status_of("c"), 200) << "there is always some for who comes next";
  EXPECT_TRUE(contains(answer_to(1), "as usual")) << "what is small is not counted";
  EXPECT_TRUE(soon([&] { return listener_->counts().reply_bytes == 6 * kLarge; }));  // the last one's memory has gone
  unread_ones.clear();
  EXPECT_TRUE(soon([&] { return listener_->counts().reply_bytes == 0; }));
  EXPECT_EQ(status_of("a"), 200);
}

TEST_F(HttpListenerTest, AnswersThatWaitForADiskHoldUpNobodyElse) {
  start([](ConnectionLimits&) {});
  std::vector<std::unique_ptr<RawClient>> waiting;
  for (std::uint32_t i = 0; i < 12; ++i) {  // more than there are threads
    waiting.push_back(std::make_unique<RawClient>(port(), 2 + i));
    waiting.back()->send(get_text("/waiting", "Connection: close\r\n"));
  }
  EXPECT_TRUE(soon([&] { return handler_.waiting() == 1; }));
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(contains(answer_to(1), "as usual"));
  waiting.back()->close();  // nobody waits for this one any more
  waiting.pop_back();
  handler_.open_gate();
  for (const auto& client : waiting) EXPECT_TRUE(contains(client->read(), "waited"));
  EXPECT_TRUE(soon([&] { return listener_->counts().connections == 0; }));
}

TEST_F(HttpListenerTest, OneKeyLeavesPlacesOfItsAddressToOthers) {
  start([](ConnectionLimits& limits) { limits.connections_per_client = 8; });
  std::vector<std::unique_ptr<RawClient>> busy;
  const auto is_refused = [&](const std::string& key, std::uint32_t from = 1) {
    const std::string authorization = key.empty() ? "" : "Authorization: " + key + "\r\n";
    const std::size_t asked = handler_.named();
    busy.push_back(std::make_unique<RawClient>(port(), from));
    busy.back()->send(post_text("/", "{}", authorization + "Connection: close\r\n"));
    EXPECT_TRUE(soon([&] { return handler_.named() > asked; }));
    if (!busy.back()->can_read(milliseconds(100))) return false;  // it waits for the gate
    const std::string text = busy.back()->read();
    busy.pop_back();
    EXPECT_TRUE(contains(text, "429 ") && contains(text, "\"client_limit\"")) << text;
    return true;
  };
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(is_refused("a"));
  EXPECT_TRUE(is_refused("a")) << "half of all there are";
  EXPECT_FALSE(is_refused("a", 2)) << "another address has places of its own";
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(is_refused("b"));
  EXPECT_TRUE(is_refused("b")) << "half of what the first has left";
  EXPECT_FALSE(is_refused("")) << "an address has no key, and one limit";
  handler_.open_gate();
  for (const auto& client : busy) EXPECT_TRUE(contains(client->read(), "as usual"));
  for (int i = 0; i < 8; ++i) {  // what was answered is no longer counted
    const RawClient client(port());
    client.send(post_text("/", "{}", "Authorization: a\r\nConnection: close\r\n"));
    EXPECT_TRUE(contains(client.read(), "as usual"));
  }
}

TEST_F(HttpListenerTest, AFullAddressStillServesKeysThatHavePlacesLeft) {
  handler_.expect_keys();
  start([](ConnectionLimits& limits) {
    limits.connections_per_client = 2;
    limits.grace = milliseconds(500);
  });
  const RawClient silent(port()), also_silent(port());  // all places of the address, for as long as nobody may evict
  const RawClient with_key(port());
  with_key.send(post_text("/", "{}", "Authorization: a\r\n"));
  ASSERT_TRUE(soon([&] { return handler_.order().size() == 1; })) << "it is served";
  const RawClient once_more(port());
  once_more.send(post_text("/", "{}", "Authorization: a\r\n"));
  EXPECT_TRUE(contains(once_more.read(), "\"client_limit\"")) << "half of two";
  EXPECT_TRUE(contains(answer_to(1), "of the reserve")) << "who has no key may watch the server";
  const RawClient slow(port());
  slow.send("POST / HTTP/1.1\r\n");
  EXPECT_TRUE(contains(slow.read(), "the header did not come within 500 ms"));
  handler_.open_gate();
  EXPECT_TRUE(contains(with_key.read(), "Connection: close")) << "it is for one request";
}

TEST_F(HttpListenerTest, SilentConnectionsBeyondTheirAddressMakeRoom) {
  handler_.expect_keys();
  start([](ConnectionLimits& limits) {
    limits.connections = 32;
    limits.connections_per_client = 2;
    limits.grace = 10 * kPatience;
  });
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 48; ++i) silent.push_back(std::make_unique<RawClient>(port()));
  const RawClient with_key(port());
  with_key.send(post_text("/", "{}", "Authorization: a\r\n"));
  EXPECT_TRUE(soon([&] { return handler_.order().size() == 1; }));
  EXPECT_TRUE(silent[2]->can_read(kPatience)) << "the first beyond the address was closed";
  EXPECT_TRUE(soon([&] { return listener_->counts().connections <= 2 + 32; })) << "as many as there are places";
  EXPECT_GE(listener_->counts().evicted, 14U);
}

TEST_F(HttpListenerTest, AConnectionBeyondItsAddressStaysWhereItsHeaderWasNotReadYet) {
  handler_.expect_keys();
  start([](ConnectionLimits& limits) {
    limits.connections = 8;
    limits.connections_per_client = 1;
    limits.grace = 10 * kPatience;
  });
  const RawClient of_the_address(port(), 1);
  std::vector<std::unique_ptr<RawClient>> held;  // by every thread that reads
  for (std::uint32_t from = 2; handler_.waiting() < HttpListener::kThreads; ++from) {
    held.push_back(std::make_unique<RawClient>(port(), from));
    held.back()->send(get_text("/held"));
    ASSERT_TRUE(soon([&] { return handler_.waiting() == static_cast<int>(held.size()); }));
  }
  std::vector<std::unique_ptr<RawClient>> with_key;  // twice as many as may wait
  for (int i = 0; i < 16; ++i) {
    with_key.push_back(std::make_unique<RawClient>(port(), 1));
    with_key.back()->send(get_text("/", "Connection: close\r\nAuthorization: " + std::to_string(i) + "\r\n"));
  }
  ASSERT_TRUE(soon([&] { return listener_->counts().connections >= 1 + held.size() + 8; }));
  handler_.open_gate();
  for (const auto& client : with_key) EXPECT_TRUE(contains(client->read(), "200 OK"));
  EXPECT_EQ(listener_->counts().evicted, 0U) << "to be asked to leave is not to leave";
}

TEST_F(HttpListenerTest, ConnectionsBeyondAnAddressThatHaveNoPlaceOfAKeyKeepNoKeyOut) {
  handler_.expect_keys();
  start([](ConnectionLimits& limits) {
    limits.connections = 16;  // and two for keys beyond an address
    limits.connections_per_client = 1;
    limits.grace = 10 * kPatience;
  });
  const RawClient of_the_address(port(), 1);
  std::vector<std::unique_ptr<RawClient>> unserved;  // as are those that are told why they are refused
  for (int i = 0; i < 4; ++i) unserved.push_back(unread(1, "/large", ""));
  const RawClient with_key(port(), 1);
  with_key.send(post_text("/", "{}", "Authorization: a\r\n"));
  ASSERT_TRUE(soon([&] { return handler_.order().size() == 1; })) << "it is served";
  handler_.open_gate();
  EXPECT_TRUE(contains(with_key.read(), "as usual"));
}

TEST_F(HttpListenerTest, AKeyWhoseHeaderIsReadWhileItsConnectionIsAskedToGoStays) {
  handler_.expect_keys();
  start([](ConnectionLimits& limits) {
    limits.connections = 8;
    limits.connections_per_client = 1;
    limits.grace = 10 * kPatience;
  });
  const RawClient of_the_address(port(), 1), with_key(port(), 1);
  const std::string request = post_text("/held", "{}", "Authorization: a\r\n");
  with_key.send(request.substr(0, request.size() - 2));
  ASSERT_TRUE(soon([&] { return handler_.waiting() == 1; })) << "its header is being looked at";
  std::vector<std::unique_ptr<RawClient>> silent;  // as many as may wait; the first that waits is asked to go
  for (int i = 0; i < 8; ++i) silent.push_back(std::make_unique<RawClient>(port(), 1));
  ASSERT_TRUE(soon([&] { return listener_->counts().connections == 2 + silent.size(); }));
  handler_.open_gate();
  with_key.send(request.substr(request.size() - 2));
  EXPECT_TRUE(contains(with_key.read(), "as usual"));
}

TEST_F(HttpListenerTest, OfThoseThatWereAnsweredOnlySomeMayStay) {
  start([](ConnectionLimits& limits) {
    limits.leaving = 2;
    limits.linger = 10 * kPatience;
  });
  std::vector<std::unique_ptr<RawClient>> answered;  // who do not close
  for (int i = 0; i < 6; ++i) {
    answered.push_back(std::make_unique<RawClient>(port()));
    answered.back()->send(get_text("/", "Connection: close\r\n"));
    EXPECT_TRUE(contains(answered.back()->read(), "as usual"));
  }
  EXPECT_TRUE(soon([&] { return listener_->counts().connections <= 2; }));
}

TEST_F(HttpListenerTest, AnAnswerToAKeyGivesWayOnlyToAClientWithFewerPlaces) {
  start([](ConnectionLimits& limits) {
    limits.connections = 2;
    limits.connections_per_client = 2;
  });
  const auto first = unread(2, "/large", "Authorization: a\r\n"), second = unread(3, "/large", "Authorization: b\r\n");
  EXPECT_TRUE(contains(answer_to(4), "of the reserve")) << "nobody leaves at once";
  const auto is_served = [&] {
    EXPECT_FALSE(contains(answer_to(3), "as usual")) << "who has a place already took one from a key";
    return contains(answer_to(4), "as usual");
  };
  EXPECT_TRUE(soon(is_served));
}

TEST_F(HttpListenerTest, APlaceOfTheReserveIsNoOther) {
  start([](ConnectionLimits& limits) { limits.connections = limits.connections_per_client = 1; });
  RawClient busy(port());
  busy.send(post_text("/", "{}"));
  ASSERT_TRUE(soon([&] { return handler_.order().size() == 1; }));
  const RawClient silent(port()), also_silent(port());
  const auto makes_room = [&] {
    const std::string answer = answer_to(1);
    EXPECT_FALSE(contains(answer, "as usual")) << "more connections than there may be";
    return silent.can_read(milliseconds(0));
  };
  EXPECT_TRUE(soon(makes_room));
  EXPECT_TRUE(contains(silent.read(), "others need the place"));
}

TEST_F(HttpListenerTest, OneAddressCannotTakeTheReserve) {
  start([](ConnectionLimits& limits) { limits.connections = limits.connections_per_client = 1; });
  std::vector<std::unique_ptr<RawClient>> busy;
  for (const std::uint32_t from : {1, 2, 2}) {
    busy.push_back(std::make_unique<RawClient>(port(), from));
    busy.back()->send(post_text("/", "{}"));
    ASSERT_TRUE(soon([&] { return handler_.named() == busy.size(); }));
  }
  EXPECT_TRUE(contains(answer_to(2), "too_many_connections"));
  EXPECT_TRUE(contains(answer_to(3), "of the reserve"));
}

// Where the body of the key "one" is read, when two threads are busy, six bodies of another key wait, and it comes
// last.
std::ptrdiff_t place_of_one() {
  GatedHandler handler;
  ConnectionLimits limits;
  limits.idle = limits.header = limits.body = limits.write = 10 * kPatience;
  HttpListener listener(resolve_address("127.0.0.1", 0), limits, handler);
  listener.start();
  std::vector<std::unique_ptr<RawClient>> clients;
  const auto ask = [&](const std::string& key) {
    clients.push_back(std::make_unique<RawClient>(listener.address().port));
    clients.back()->send(post_text("/", "{}", "Authorization: " + key + "\r\n"));
    EXPECT_TRUE(soon([&] { return handler.named() == clients.size(); }));
  };
  for (int i = 0; i < 2; ++i) ask("busy");
  EXPECT_TRUE(soon([&] { return handler.order().size() == 2; }));
  for (int i = 0; i < 6; ++i) ask("many");
  ask("one");
  handler.open_gate();
  EXPECT_TRUE(soon([&] { return handler.order().size() == clients.size(); }));
  const std::vector<std::string> order = handler.order();
  return std::find(order.begin(), order.end(), "one") - order.begin();
}

// Now and then the gate opens before the last body waits; by the address that all have in common it is always last.
TEST_F(HttpListenerTest, KeysTakeTurnsAtReadingBodies) {
  constexpr int kTries = 50;
  std::ptrdiff_t place = place_of_one();
  for (int i = 1; i < kTries && place > 4; ++i) place = place_of_one();
  EXPECT_LE(place, 4) << "behind those of another key";
}

TEST_F(HttpListenerTest, AClientThatReadsNothingIsGivenUp) {
  start([](ConnectionLimits& limits) { limits.write = milliseconds(300); });
  const auto client = unread(1, "/large");
  ASSERT_TRUE(soon([&] { return handler_.finished_requests().size() == 1; }));
  EXPECT_EQ(handler_.finished_requests()[0].note, "the client left before the end of the answer");
}

TEST_F(HttpListenerTest, AClientThatReadsALittleNowAndThenIsGivenUp) {
  start([](ConnectionLimits& limits) {
    limits.write = milliseconds(3'000);
    limits.least_rate = kLarge;
  });
  const auto client = unread(1, "/large");
  const auto is_finished = [&] {  // never so slow as to have taken nothing for long, which is another limit
    client->take(std::size_t{128} << 10);
    std::this_thread::sleep_for(milliseconds(50));
    return handler_.finished_requests().size() == 1;
  };
  ASSERT_TRUE(soon(is_finished));
  EXPECT_EQ(handler_.finished_requests()[0].note, "the client left before the end of the answer");
}

}  // namespace
}  // namespace reprofuse::server
