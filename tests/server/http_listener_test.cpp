// Places and turns of connections, and clients that read little or nothing of their answers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/http_listener_case.hpp"

namespace reprofuse::server {
namespace {

TEST_F(HttpListenerTest, AnAnswerThatNobodyReadsMakesRoom) {
  start([](ConnectionLimits& limits) {
    limits.grace = milliseconds(0);
    limits.connections = 4;
    limits.connections_per_client = 3;
  });
  const auto of_one = unread(3, "/large/one");
  const auto of_two = unread(4, "/large/two"), of_two_later = unread(4, "/large/two");
  const auto with_key = unread(2, "/large/key", "Authorization: a\r\n");
  EXPECT_TRUE(soon([&] { return contains(response_to(1), "as usual"); }));
  const auto evicted = [&] {
    std::string paths;
    for (const RequestLogEntry& entry : handler_.logged_requests()) paths += entry.path == "/" ? "" : entry.path;
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
  EXPECT_EQ(status_of("c"), 200) << "there is always some for whoever comes next";
  EXPECT_TRUE(contains(response_to(1), "as usual")) << "what is small is not counted";
  EXPECT_TRUE(soon([&] { return listener_->counts().reply_bytes == 6 * kLarge; }));  // the last one's memory has gone
  unread_ones.clear();
  EXPECT_TRUE(soon([&] { return listener_->counts().reply_bytes == 0; }));
  EXPECT_EQ(status_of("a"), 200);
}

TEST_F(HttpListenerTest, WithoutMemoryTheResponseIsThatOfAnyOtherError) {
  start([](ConnectionLimits&) {});
  const RawClient client(port());
  client.send(get_text("/unaffordable"));
  const std::string text = client.read();
  const ApiError error(503, "server_error", "there is no memory for this request now", std::nullopt, "out_of_memory");
  const std::string body = error_body(error);
  EXPECT_TRUE(text.starts_with("HTTP/1.1 503 Service Unavailable\r\n")) << text;
  EXPECT_TRUE(contains(text, fmt::format("Content-Length: {}\r\n", body.size()))) << text;
  EXPECT_TRUE(text.ends_with("\r\n\r\n" + body)) << text;
  EXPECT_EQ(out_of_memory_error().body, body);
}

TEST_F(HttpListenerTest, AnswersThatWaitForADiskHoldUpNobodyElse) {
  start([](ConnectionLimits&) {});
  std::vector<std::unique_ptr<RawClient>> waiting;
  for (std::uint32_t i = 0; i < 12; ++i) {  // more than there are threads
    waiting.push_back(std::make_unique<RawClient>(port(), 2 + i));
    waiting.back()->send(get_text("/waiting", "Connection: close\r\n"));
  }
  EXPECT_TRUE(soon([&] { return handler_.waiting() == 1; }));
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(contains(response_to(1), "as usual"));
  waiting.back()->close();  // nobody waits for this one any more
  waiting.pop_back();
  handler_.open_gate();
  for (const auto& client : waiting) EXPECT_TRUE(contains(client->read(), "waited"));
  EXPECT_TRUE(soon([&] { return listener_->counts().connections == 0; }));
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

TEST_F(HttpListenerTest, APlaceOfTheReserveIsNoOther) {
  start([](ConnectionLimits& limits) { limits.connections = limits.connections_per_client = 1; });
  RawClient busy(port());
  busy.send(post_text("/", "{}"));
  ASSERT_TRUE(soon([&] { return handler_.order().size() == 1; }));
  const RawClient silent(port()), also_silent(port());
  const auto makes_room = [&] {
    const std::string answer = response_to(1);
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
  EXPECT_TRUE(contains(response_to(2), "too_many_connections"));
  EXPECT_TRUE(contains(response_to(3), "of the reserve"));
}

TEST_F(HttpListenerTest, AClientThatReadsNothingIsGivenUp) {
  start([](ConnectionLimits& limits) { limits.write = milliseconds(300); });
  const auto client = unread(1, "/large");
  ASSERT_TRUE(soon([&] { return handler_.logged_requests().size() == 1; }));
  EXPECT_EQ(handler_.logged_requests()[0].note, "the client left before the end of the answer");
}

TEST_F(HttpListenerTest, AClientThatReadsALittleNowAndThenIsGivenUp) {
  start([](ConnectionLimits& limits) {
    limits.write = milliseconds(3'000);
    limits.min_rate = kLarge;
  });
  const auto client = unread(1, "/large");
  const auto is_finished = [&] {  // never so slow as to have taken nothing for long, which is another limit
    client->take(std::size_t{128} << 10);
    std::this_thread::sleep_for(milliseconds(50));
    return handler_.logged_requests().size() == 1;
  };
  ASSERT_TRUE(soon(is_finished));
  EXPECT_EQ(handler_.logged_requests()[0].note, "the client left before the end of the answer");
}

}  // namespace
}  // namespace reprofuse::server
