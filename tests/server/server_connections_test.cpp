// The server as clients meet it that leave, read too slowly, send nonsense or come in crowds.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "server/server_test_support.hpp"

namespace reprofuse::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr milliseconds kShort{600};

const std::vector<std::string> kUnfinishedRequests = {
    "GET /heal",
    "GET /health HTTP/1.1\r\nHost: ",
    "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
    "100\r\n\r\n{",
};

class ServerConnections : public testing::Test {
 protected:
  ServerConnections() { server_->serve_model(model_); }

  std::int64_t under_way() const {
    const engine::EngineStats stats = model_->service().stats();
    return stats.running + stats.waiting;
  }

  // Sends the endless request, waits until the engine has it, lets the client do `leave`, and expects the
  // engine to be idle soon after.
  void expect_given_up(bool stream, const std::function<void(RawClient&)>& leave) {
    const std::int64_t tokens_before = model_->service().stats().generated_tokens;
    const std::size_t entries_before = server_.log_entries().size();
    RawClient client(server_.port());
    client.send(post_text("/v1/completions", endless_completion(stream).dump()));
    ASSERT_TRUE(soon([&] { return under_way() == 64; }));
    leave(client);
    EXPECT_TRUE(soon([&] { return under_way() == 0; })) << under_way() << " are still under way";
    EXPECT_LT(model_->service().stats().generated_tokens - tokens_before, 64 * 900) << "they ended by themselves";
    ASSERT_TRUE(soon([&] { return server_.log_entries().size() > entries_before; }));
    EXPECT_EQ(server_.log_entries().back().note, "the client left");
  }

  std::string answer_to(const std::string& request) const {
    RawClient client(server_.port());
    client.send(request);
    return client.read();
  }

  std::shared_ptr<ServedModel> model_ = load_model();
  TestServer server_{[](ServerOptions& options) {
    options.limits.connections = 4;
    options.limits.connections_per_client = 4;
    options.limits.body_bytes = 10'000;
  }};
};

class ImpatientServer : public testing::Test {
 protected:
  // One that sent this at once. If the machine was too busy for that, the server has rightly hung up.
  std::unique_ptr<RawClient> client_that_sent(const std::string& text) const {
    std::unique_ptr<RawClient> client;
    const auto sends_at_once = [&] {
      const auto begin = Clock::now();
      client = std::make_unique<RawClient>(server_.port());
      client->send(text);
      return Clock::now() - begin < kShort;
    };
    EXPECT_TRUE(soon(sends_at_once)) << "this machine is too busy to connect and send in " << kShort.count() << " ms";
    return client;
  }

  TestServer server_{[](ServerOptions& options) {
    options.limits.header = kShort;
    options.limits.body = kShort;
    options.limits.idle = kShort;
  }};
};

TEST_F(ServerConnections, AClientThatLeavesIsGivenUp) {
  expect_given_up(false, [](RawClient& client) { client.close(); });
}

TEST_F(ServerConnections, AClientThatLeavesItsStreamIsGivenUp) {
  expect_given_up(true, [](RawClient& client) {
    EXPECT_TRUE(contains(client.read("data: "), "200 OK"));
    client.close();
  });
}

TEST_F(ServerConnections, AClientThatClosesItsSideIsGivenUp) {
  expect_given_up(false, [](RawClient& client) { client.end_sending(); });
  expect_given_up(true, [](RawClient& client) { client.end_sending(); });
}

TEST_F(ServerConnections, ASlowRequestHoldsUpNobody) {
  std::vector<std::unique_ptr<RawClient>> slow;
  for (const std::string& request : kUnfinishedRequests) {
    slow.push_back(std::make_unique<RawClient>(server_.port()));
    slow.back()->send(request);
  }
  const std::string quick = answer_to("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(contains(quick, "200 OK")) << quick;
  for (const auto& client : slow) EXPECT_FALSE(client->can_read(milliseconds(0))) << client->read();
}

TEST_F(ImpatientServer, ASlowRequestIsEnded) {
  server_->serve_model(load_model());
  std::vector<std::unique_ptr<RawClient>> slow;
  for (const std::string& request : kUnfinishedRequests) slow.push_back(client_that_sent(request));
  for (const auto& client : slow) {
    const std::string answer = client->read();
    EXPECT_EQ(answer.find("HTTP/1.1 408"), 0U) << answer;
    EXPECT_TRUE(contains(answer, "Connection: close")) << answer;
  }
}

TEST_F(ImpatientServer, OneByteNowAndThenIsSlow) {
  const auto client = client_that_sent("GET /health HTTP/1.1\r\nX-Long: ");
  const auto is_answered_meanwhile = [&] {
    client->send("a");
    return client->can_read(milliseconds(8));
  };
  EXPECT_TRUE(soon(is_answered_meanwhile));
  EXPECT_TRUE(contains(client->read(), "408"));
}

TEST_F(ImpatientServer, AConnectionWithoutARequestIsClosed) {
  const auto client = client_that_sent("GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const std::string answer = client->read();
  EXPECT_EQ(answer.find("HTTP/1.1 200"), 0U) << answer;
  EXPECT_FALSE(contains(answer, RawClient::kNothingMore) || contains(answer, "Connection: close")) << answer;
}

constexpr const char* kHealth = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";

TEST_F(ServerConnections, OneConnectionTooManyIsToldSoAndAPlaceThatBecomesFreeIsUsed) {
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<RawClient>(server_.port()));
    Json long_one = endless_completion(true);
    long_one["n"] = 1;
    clients.back()->send(post_text("/v1/completions", long_one.dump()));
    EXPECT_TRUE(contains(clients.back()->read("data: "), "200 OK"));
  }
  const std::string answer = answer_to("GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(answer.find("HTTP/1.1 503 "), 0U) << answer;
  EXPECT_TRUE(contains(answer, "Retry-After: 1\r\n")) << answer;
  EXPECT_TRUE(contains(answer, "too_many_connections")) << answer;
  EXPECT_TRUE(contains(answer_to(kHealth), "200 OK")) << "monitoring is answered all the same";
  const std::string metrics = answer_to("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(contains(metrics, "refused_connections_total{")) << metrics;
  EXPECT_TRUE(contains(metrics, "} 1\n# HELP reprofuse:evicted_connections_total"))
      << "whoever is answered is not refused: " << metrics;
  clients[0]->close();
  EXPECT_TRUE(soon([&] { return server_->connections() == 3; }));
  EXPECT_TRUE(contains(answer_to("GET /v1/models HTTP/1.0\r\n\r\n"), "200 OK"));
}

TEST_F(ServerConnections, AConnectionThatWaitsForARequestMakesRoomForANewOne) {
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<RawClient>(server_.port()));
    clients.back()->send(kHealth);
    EXPECT_TRUE(contains(clients.back()->read("\"ok\"}"), "200 OK"));
  }
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<RawClient>(server_.port()));
    clients.back()->send("GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_TRUE(contains(clients.back()->read("}]}"), "200 OK"));
  }
  EXPECT_TRUE(soon([&] { return server_->connections() == 4; }));
  const auto is_closed = [](const auto& client) { return client->can_read(milliseconds(0)); };
  EXPECT_TRUE(soon([&] { return std::count_if(clients.begin(), clients.end(), is_closed) == 3; }));
}

TEST_F(ServerConnections, NonsenseIsAClearErrorAndTheServerLives) {
  const std::string long_line(40'000, 'a');
  const std::string json = "Content-Type: application/json\r\n";
  const std::string post = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" + json;
  std::string ranges = "0-0";
  while (ranges.size() < 8'000) ranges += ",0-0";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"\r\n\r\n", "HTTP/1.1 400"},
      {"hello\r\n\r\n", "HTTP/1.1 400"},
      {std::string("\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 11), "HTTP/1.1 400"},  // TLS
      {"GET / HTTP/2.0\r\n\r\n", "HTTP/1.1 400"},
      {"BREW /pot HTTP/1.1\r\n\r\n", "HTTP/1.1 400"},
      {"TRACE /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "HTTP/1.1 405"},
      {"GET /" + std::string(9'000, 'a') + " HTTP/1.1\r\n\r\n", "HTTP/1.1 414"},
      {"GET /health HTTP/1.1\r\nX: " + long_line + "\r\n\r\n", "HTTP/1.1 431"},
      {"GET /" + long_line, "HTTP/1.1 431"},
      {"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nRange: bytes=" + ranges + "\r\n\r\n",
       "HTTP/1.1 200"},
      {"GET /health HTTP/1.1\r\n\r\n", "HTTP/1.1 400"},  // no Host
      {post + "\r\n", "HTTP/1.1 411"},
      {post + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "HTTP/1.1 400"},
      {post + "Content-Length: -1\r\n\r\n{}", "HTTP/1.1 400"},
      {post + "Content-Length: 0x2\r\n\r\n{}", "HTTP/1.1 400"},
      {post + "Content-Length: 99999999999999999999\r\n\r\n{}", "HTTP/1.1 400"},
      {post + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}", "HTTP/1.1 400"},
      {post + "Transfer-Encoding: gzip, chunked\r\n\r\n{}", "HTTP/1.1 501"},
      {post + "Transfer-Encoding: chunked\r\n\r\nx\r\n{}\r\n0\r\n\r\n", "HTTP/1.1 400"},
      {post + "Content-Length: 2\r\nContent-Encoding: gzip\r\n\r\n{}", "HTTP/1.1 415"},
      {post + "Content-Length: 10001\r\n\r\n", "HTTP/1.1 413"},
  };
  for (const auto& [request, expected] : cases) {
    EXPECT_TRUE(soon([&] { return server_->connections() == 0; }));
    const std::string answer = answer_to(request);
    EXPECT_EQ(answer.find(expected), 0U) << request.substr(0, 200) << "\n--\n" << answer;
    EXPECT_FALSE(contains(answer, RawClient::kNothingMore)) << "left open after " << request.substr(0, 200);
  }
  auto client = server_.client();
  EXPECT_EQ(client.Get("/health")->status, 200);
}

TEST_F(ServerConnections, ABodyMayComeInChunksButNotEndlessly) {
  const std::string header =
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: "
      "application/json\r\nTransfer-Encoding: "
      "chunked\r\n\r\n";
  const std::string answer = answer_to(header + "4\r\n{\"pr\r\n0d\r\nompt\": \"one\"}\r\n0\r\n\r\n");
  EXPECT_TRUE(contains(answer, "200 OK") && contains(answer, "\"tokens\"")) << answer;
  std::string chunks;
  for (int i = 0; i < 11; ++i) chunks += "3e8\r\n" + std::string(1000, ' ') + "\r\n";
  EXPECT_TRUE(contains(answer_to(header + chunks), "HTTP/1.1 413"));
  EXPECT_TRUE(contains(answer_to(header + std::string(60'000, '0')), "HTTP/1.1 431"));
}

TEST_F(ServerConnections, ABodyThatWasNotReadIsNotTheNextRequest) {
  const std::string hidden = "GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (const std::string& request : {post_text("/nothing", hidden), post_text("/health", hidden),
                                     "GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                                         std::to_string(hidden.size()) + "\r\n\r\n" + hidden}) {
    const std::string answer = answer_to(request);
    EXPECT_TRUE(contains(answer, "Connection: close")) << answer;
    EXPECT_EQ(answer.rfind("HTTP/1.1"), 0U) << "a second answer: " << answer;
  }
}

TEST_F(ServerConnections, AConnectionServesOneRequestAfterTheOther) {
  RawClient client(server_.port());
  const std::string request = "GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n";
  client.send(request + request + post_text("/tokenize", R"({"prompt": "x"})") +
              "GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const std::string answers = client.read();
  std::size_t count = 0;
  for (std::size_t at = answers.find("HTTP/1.1 200"); at != std::string::npos;
       at = answers.find("HTTP/1.1 200", at + 1))
    ++count;
  EXPECT_EQ(count, 4U) << answers;
}

TEST_F(ServerConnections, AnOlderClientGetsItsStreamWithoutChunks) {
  std::string request = post_text("/v1/completions", R"({"prompt": "Tom", "max_tokens": 2, "stream": true})");
  request.replace(request.find("HTTP/1.1"), 8, "HTTP/1.0");
  const std::string answer = answer_to(request);
  EXPECT_FALSE(contains(answer, "chunked")) << answer;
  EXPECT_EQ(answer.substr(answer.size() - 14), "data: [DONE]\n\n") << answer;
}

TEST_F(ServerConnections, WhoeverExpectsToBeToldIsToldBeforeTheBody) {
  RawClient welcome(server_.port());
  welcome.send(
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
      "Content-Length: 15\r\n\r\n");
  EXPECT_EQ(welcome.read("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  welcome.send(R"({"prompt": "x"})");
  EXPECT_TRUE(contains(welcome.read("}"), "200 OK"));
  const std::string refused = answer_to(
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
      "Content-Length: 20000\r\n\r\n");
  EXPECT_EQ(refused.find("HTTP/1.1 413"), 0U) << refused;
}

TEST_F(ServerConnections, AServerThatIsDestroyedBreaksOffWhatIsUnderWay) {
  auto server = std::make_unique<TestServer>();
  (*server)->serve_model(model_);
  RawClient client(server->port());
  client.send(post_text("/v1/completions", endless_completion(true).dump()));
  EXPECT_TRUE(contains(client.read("data: "), "200 OK"));
  server.reset();
  EXPECT_FALSE(contains(client.read(), "[DONE]"));
  EXPECT_TRUE(soon([&] { return under_way() == 0; }));
}

}  // namespace
}  // namespace reprofuse::server
