// Places and turns of API keys, at one address and beyond it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "server/http_listener_case.hpp"

namespace reprofuse::server {
namespace {

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
  EXPECT_TRUE(contains(response_to(1), "of the reserve")) << "without a key it may ask what monitoring may";
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

TEST_F(HttpListenerTest, AnAnswerToAKeyGivesWayOnlyToAClientWithFewerPlaces) {
  start([](ConnectionLimits& limits) {
    limits.connections = 2;
    limits.connections_per_client = 2;
  });
  const auto first = unread(2, "/large", "Authorization: a\r\n"), second = unread(3, "/large", "Authorization: b\r\n");
  EXPECT_TRUE(contains(response_to(4), "of the reserve")) << "nobody leaves at once";
  const auto is_served = [&] {
    EXPECT_FALSE(contains(response_to(3), "as usual")) << "whoever has a place already took one from a key";
    return contains(response_to(4), "as usual");
  };
  EXPECT_TRUE(soon(is_served));
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

}  // namespace
}  // namespace reprofuse::server
