// Requests whose ends can be read in two ways: whatever the server makes of one, nothing after it is served.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "server/http/framing.hpp"
#include "server/server_test_support.hpp"

namespace reprofuse::server {
namespace {

const std::string kHidden = "GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n";
const std::string kBody = R"({"prompt": "x"})";  // 0xf bytes
const std::string kChunks = "f\r\n" + kBody + "\r\n0\r\n\r\n";

class ServerFraming : public testing::Test {
 protected:
  ServerFraming() { server_->serve_model(load_model()); }

  static std::string header(const std::string& path, const std::string& lines, const std::string& host = "localhost") {
    return "POST " + path + " HTTP/1.1\r\nHost: " + host + "\r\nContent-Type: application/json\r\n" + lines + "\r\n";
  }

  // One answer to the request, with this status, then the end of the connection: what follows has no answer.
  static void expect_only_answer(const TestServer& server, const std::string& request, const std::string& status) {
    RawClient client(server.port());
    client.send(request + kHidden);
    const std::string answer = client.read();
    EXPECT_EQ(answer.find("HTTP/1.1 " + status), 0U) << request << "\n--\n" << answer;
    EXPECT_FALSE(contains(answer, "\"version\"")) << "what follows was served after " << request << "\n--\n" << answer;
    EXPECT_TRUE(contains(answer, "Connection: close")) << request << "\n--\n" << answer;
    EXPECT_FALSE(contains(answer, RawClient::kNothingMore)) << "left open after " << request;
  }
  void expect_only_answer(const std::string& request, const std::string& status) const {
    expect_only_answer(server_, request, status);
  }

  TestServer server_;
};

TEST_F(ServerFraming, TwoLengthsAreOneTooManyWhateverTheRouteSays) {
  const std::string hidden = "Content-Length: " + std::to_string(kHidden.size()) + "\r\n";
  const std::string two = "Content-Length: 0\r\n" + hidden;
  for (const char* path : {"/nothing", "/health", "/tokenize"}) expect_only_answer(header(path, two), "400");
  expect_only_answer(header("/tokenize", two, "example.org"), "400");
  expect_only_answer("GET /health HTTP/1.1\r\nHost: localhost\r\n" + two + "\r\n", "400");
  TestServer guarded([](ServerOptions& options) { options.api_keys = {"key"}; });
  expect_only_answer(guarded, header("/tokenize", two), "400");
  expect_only_answer(guarded, header("/tokenize", hidden), "401");
}

// Every body is one that the server takes when its chunks, or its length, are all that the header tells.
TEST_F(ServerFraming, ALengthBesideChunksIsRefusedWhicheverIsRight) {
  const auto length = [](std::size_t bytes) { return "Content-Length: " + std::to_string(bytes) + "\r\n"; };
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  for (const std::size_t bytes : {std::size_t{0}, kBody.size(), kChunks.size(), kChunks.size() + kHidden.size()}) {
    expect_only_answer(header("/tokenize", length(bytes) + chunked) + kChunks, "400");
    expect_only_answer(header("/tokenize", chunked + length(bytes)) + kChunks, "400");
  }
  expect_only_answer(header("/tokenize", length(kBody.size()) + chunked) + kBody, "400");
  expect_only_answer(header("/tokenize", chunked + chunked) + kChunks, "400");
}

TEST_F(ServerFraming, AHeaderHasLinesAsTheyShouldBe) {
  const std::string length = "Content-Length: " + std::to_string(kBody.size()) + "\r\n";
  for (const std::string& lines :
       {length + "Transfer-Encoding : chunked\r\n", length + "Transfer-Encoding\t: chunked\r\n",
        length + " Transfer-Encoding: chunked\r\n", length + "X: 1\nTransfer-Encoding: chunked\r\n",
        length + "X: 1\rTransfer-Encoding: chunked\r\n", length + "X: 1\r\n folded\r\n", length + "no colon\r\n",
        length + ": no name\r\n", length + std::string("X: \0\r\n", 6), length + "X: 1\n",
        std::string("Content-Length: %31%35\r\n"), std::string("Transfer-Encoding: %63hunked\r\n"),
        length + "Host: localhost\r\n", length + "host: example.org\r\n"})
    expect_only_answer(header("/tokenize", lines) + kBody, "400");
  expect_only_answer("GET /health HTTP/1.1\nHost: localhost\n\n", "400");
  RawClient client(server_.port());
  client.send(header("/tokenize", length + "X-Any!#$%&'*+-.^_`|~1:\t a:b%20c \xc3\xa4\r\nEmpty:\r\n") + kBody +
              kHidden);
  EXPECT_TRUE(contains(client.read("\"version\""), "200 OK")) << "what is right is taken, and what follows it, too";
}

TEST_F(ServerFraming, ChunksAreTakenByTheLetterAndEndTheConnection) {
  const std::string chunked = header("/tokenize", "Transfer-Encoding: chunked\r\n");
  expect_only_answer(chunked + kChunks, "200");
  expect_only_answer(chunked + "000F;name=\"value\"\r\n" + kBody + "\r\n0\r\n\r\n", "200");
  for (const char* size : {"0xf", "+f", " \tf", "fxyz", "f ", "-f", "-1", "", ";"})
    expect_only_answer(chunked + size + "\r\n" + kBody + "\r\n0\r\n\r\n", "400");
  for (const std::string& chunks :
       {"f\n" + kBody + "\r\n0\r\n\r\n", "f\r\n" + kBody + "\n0\r\n\r\n", "f\r\n" + kBody + "\r\n0\n\r\n",
        "f\r\n" + kBody + "\r\n0\r\n\n", "f;\n" + kBody + "\r\n0\r\n\r\n", "f\r\n" + kBody + "more\r\n0\r\n\r\n",
        "f\r\n" + kBody + "\r\n0\r\nTrailer: 1\r\n\r\n"})
    expect_only_answer(chunked + chunks, "400");
  for (const char* size : {"1000001", "ffffffffffffffff", "10000000000000000f"})
    expect_only_answer(chunked + size + "\r\n" + kBody + "\r\n0\r\n\r\n", "413");
}

TEST_F(ServerFraming, ABodyMayHaveAllTheBytesThatAreAllowed) {
  TestServer small([](ServerOptions& options) { options.limits.body_bytes = 100; });
  small->serve_model(load_model());
  const auto answer_to = [&](std::size_t bytes, bool in_chunks) {
    const std::string body = kBody + std::string(bytes - kBody.size(), ' ');
    RawClient client(small.port());
    if (in_chunks)
      client.send(header("/tokenize", "Transfer-Encoding: chunked\r\n") + (bytes == 100 ? "64" : "65") + "\r\n" + body +
                  "\r\n0\r\n\r\n");
    else
      client.send(header("/tokenize", "Content-Length: " + std::to_string(bytes) + "\r\n") + body);
    return client.read("\r\n").substr(0, 12);
  };
  for (const bool in_chunks : {false, true}) {
    EXPECT_EQ(answer_to(100, in_chunks), "HTTP/1.1 200") << in_chunks;
    EXPECT_EQ(answer_to(101, in_chunks), "HTTP/1.1 413") << in_chunks;
  }
}

TEST(HttpGrammar, IsTheSameHoweverTheBytesCome) {
  const auto one_by_one = [](auto grammar, const std::string& bytes) {
    for (const char byte : bytes)
      if (!grammar.accepts({&byte, 1})) return false;
    return true;
  };
  const std::vector<std::pair<std::string, bool>> headers = {{kHidden, true},
                                                             {kHidden + "\n\r\n: what follows is not looked at", true},
                                                             {"GET / HTTP/1.1\r\nX : 1\r\n", false},
                                                             {"GET / HTTP/1.1\n", false}};
  for (const auto& [bytes, expected] : headers) {
    EXPECT_EQ(HeaderGrammar().accepts(bytes), expected) << bytes;
    EXPECT_EQ(one_by_one(HeaderGrammar(), bytes), expected) << bytes;
  }
  const std::vector<std::pair<std::string, bool>> bodies = {
      {kChunks, true}, {kChunks + kHidden, true}, {"f\r\n" + kBody + "0\r\n\r\n", false}, {"-1\r\n", false}};
  for (const auto& [bytes, expected] : bodies) {
    EXPECT_EQ(ChunkGrammar(100).accepts(bytes), expected) << bytes;
    EXPECT_EQ(one_by_one(ChunkGrammar(100), bytes), expected) << bytes;
  }
}

}  // namespace
}  // namespace reprofuse::server
