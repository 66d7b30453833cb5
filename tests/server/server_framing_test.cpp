// Requests whose ends can be read in two ways: whatever the server makes of one, nothing after it is served.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

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
  // The parser takes these for requests with a length.
  for (const char* encoding : {"gzip", "identity", "chunked, gzip"})
    expect_only_answer(
        header("/tokenize", "Transfer-Encoding: " + std::string(encoding) + "\r\n" + length(kBody.size())) + kBody,
        "400");
}

TEST_F(ServerFraming, AHeaderHasLinesAsTheyShouldBe) {
  const std::string length = "Content-Length: " + std::to_string(kBody.size()) + "\r\n";
  for (const std::string& lines :
       {length + "Transfer-Encoding : chunked\r\n", length + "Transfer-Encoding\t: chunked\r\n",
        length + " Transfer-Encoding: chunked\r\n", length + "X: 1\nTransfer-Encoding: chunked\r\n",
        length + "X: 1\rTransfer-Encoding: chunked\r\n", length + "X: 1\r\n folded\r\n", length + "no colon\r\n",
        length + ": no name\r\n", length + std::string("X: \0\r\n", 6), length + "X: 1\n",
        std::string("Content-Length: %31%35\r\n"), length + "Host: localhost\r\n", length + "host: example.org\r\n"})
    expect_only_answer(header("/tokenize", lines) + kBody, "400");
  expect_only_answer(header("/tokenize", "Transfer-Encoding: %63hunked\r\n") + kBody, "501");
  expect_only_answer("GET /health HTTP/1.1\nHost: localhost\n\n", "400");
  const RawClient bare(server_.port());
  bare.send(header("/tokenize", length + "X: 1\rY: 2\r\n"));
  EXPECT_TRUE(contains(bare.read(), "a line of the header is not"))
      << "it came to the parser, which may take it or not";
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
        "f;=\r\n" + kBody + "\r\n0\r\n\r\n", "f\r\n" + kBody + "\r\n0\r\nTrailer : 1\r\n\r\n"})
    expect_only_answer(chunked + chunks, "400");
  for (const char* size : {"1000001", "ffffffffffffffff"})
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

// However the bytes come: what is decided is decided by them.
TEST_F(ServerFraming, BytesThatComeOneByOneAreReadAsTheyAreTogether) {
  const auto answer_to = [&](const std::string& bytes) {
    RawClient client(server_.port());
    for (const char byte : bytes) client.send(std::string(1, byte));
    return client.read().substr(0, 12);
  };
  const std::string chunked = header("/tokenize", "Transfer-Encoding: chunked\r\n");
  EXPECT_EQ(answer_to(chunked + kChunks), "HTTP/1.1 200");
  EXPECT_EQ(answer_to(chunked + "f\r\n" + kBody + "0\r\n\r\n"), "HTTP/1.1 400");
  EXPECT_EQ(answer_to(header("/tokenize", "Content-Length: 15\r\nConnection: close\r\n") + kBody), "HTTP/1.1 200");
  EXPECT_EQ(answer_to("GET / HTTP/1.1\r\nX : 1\r\n\r\n"), "HTTP/1.1 400");
}

TEST_F(ServerFraming, WhatRfc9112AllowsIsTaken) {
  const auto answer_to = [&](const std::string& bytes) {
    RawClient client(server_.port());
    client.send(bytes);
    return client.read().substr(0, 12);
  };
  const std::string end = "Host: localhost\r\nConnection: Close\r\n\r\n";
  EXPECT_EQ(answer_to("\r\nGET /health HTTP/1.1\r\n" + end), "HTTP/1.1 200") << "an empty line before a request";
  EXPECT_EQ(answer_to("GET http://localhost/health?x=1 HTTP/1.1\r\n" + end), "HTTP/1.1 200") << "absolute-form";
  EXPECT_EQ(answer_to("GET http://example.org/health HTTP/1.1\r\n" + end), "HTTP/1.1 403") << "which names the host";
  EXPECT_EQ(answer_to("GET health HTTP/1.1\r\n" + end), "HTTP/1.1 400");
  EXPECT_EQ(answer_to("GET /%68ealth HTTP/1.1\r\n" + end), "HTTP/1.1 200");
  EXPECT_EQ(answer_to("GET /health HTTP/1.1\r\nRange: bytes=0-1\r\n" + end), "HTTP/1.1 200") << "ranges are optional";
  EXPECT_EQ(answer_to("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: x, CLOSE\r\n\r\n"), "HTTP/1.1 200");
  const std::string chunked = header("/tokenize", "Transfer-Encoding: Chunked\r\n");
  const std::string to_trailer = chunked + "f\r\n" + kBody + "\r\n0\r\n";
  EXPECT_EQ(answer_to(to_trailer + "Trailer: 1\r\nAuthorization: Bearer other\r\n\r\n"), "HTTP/1.1 200");
  EXPECT_EQ(answer_to(to_trailer + "Content-Length: 15\r\n\r\n"), "HTTP/1.1 400");
  EXPECT_EQ(answer_to(to_trailer + "X: " + std::string(100'000, 'a') + "\r\n\r\n"), "HTTP/1.1 431");
}

// What two readers could take for two things is taken for none.
TEST_F(ServerFraming, WhatHasTwoMeaningsIsRefused) {
  const std::string get = "GET /health HTTP/1.1\r\nHost: localhost\r\n";
  for (const std::string& lines :
       {std::string("Host:\r\n"), std::string("Content-Length:\r\n"),
        std::string("Content-Length: 0\r\nContent-Length:\r\n"), std::string("Content-Length: 0, 0\r\n"),
        std::string("Content-Length: +0\r\n"), std::string("Authorization: Bearer a\r\nAuthorization: Bearer b\r\n"),
        std::string("Transfer-Encoding: chunked\r\nTransfer-Encoding:\r\n"), std::string("X: \x01\r\n"),
        std::string("X: \x7f\r\n")})
    expect_only_answer(get + lines + "\r\n", "400");
  expect_only_answer(get + "Transfer-Encoding:\r\n\r\n", "501");
  expect_only_answer("GET /health HTTP/1.1\r\nHost: local host\r\n\r\n", "400");
  expect_only_answer("GET /health HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400");
}

}  // namespace
}  // namespace reprofuse::server
