// The target: any bytes that a client may send, through the whole of the server: sockets, parser, routes, the API, the
// engine and back. Every reply is a response of HTTP, none is the server's fault, and the connection ends when the
// client does.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <string>
#include <string_view>

#include "bytes_target.hpp"
#include "engine/model_files.hpp"
#include "server/server.hpp"

namespace reprofuse::fuzz {
namespace {

using Violation = std::optional<std::string>;

constexpr int kReplyMs = 4;     // in which most replies come
constexpr int kEndMs = 30'000;  // a connection that is open for longer has been forgotten
constexpr int kStatuses[] = {200, 204, 400, 403, 404, 405, 408, 411, 413, 414, 415, 429, 431, 501, 503};

server::Server& the_server() {
  static const std::unique_ptr<server::Server> kServer = [] {
    server::ServerOptions options;
    options.port = 0;
    server::ServedModelOptions served;
    served.folder = engine::bundled_model_folder();
    served.kv_bytes = std::int64_t{32} << 20;
    auto made = std::make_unique<server::Server>(options, server::RequestLog());
    made->serve_model(
        std::make_shared<server::ServedModel>(Context::cpu(kDefaultNumerics, std::nullopt, 1), served, Progress()));
    return made;
  }();
  return *kServer;
}

// What came; `is_ended` if the server has closed.
std::string receive(int socket, int timeout_ms, bool& is_ended) {
  std::string text;
  char buffer[16384];
  for (;;) {
    pollfd entry = {.fd = socket, .events = POLLIN, .revents = 0};
    if (poll(&entry, 1, timeout_ms) <= 0) return text;
    const ssize_t bytes = recv(socket, buffer, sizeof(buffer), 0);
    is_ended = bytes <= 0;
    if (is_ended) return text;
    text.append(buffer, static_cast<std::size_t>(bytes));
  }
}

// Takes one response off the front; none if it is not one.
std::optional<int> take_response(std::string_view& text) {
  int status = 0;
  if (!text.starts_with("HTTP/1.1 ") || text.size() < 12) return std::nullopt;
  std::from_chars(text.data() + 9, text.data() + 12, status);
  const std::size_t end = text.find("\r\n\r\n");
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view head = text.substr(0, end + 2);
  text.remove_prefix(end + 4);
  constexpr std::string_view kLength = "\r\nContent-Length: ";
  const std::size_t at = head.find(kLength);
  if (at == std::string_view::npos) {
    if (status != 204 && status != 100) text = {};  // a stream, to the end of what came
    return status;
  }
  std::size_t length = 0;
  std::from_chars(head.data() + at + kLength.size(), head.data() + head.size(), length);
  const bool is_to_head = text.starts_with("HTTP/1.1 ");  // no body of ours begins so: the next reply follows
  if (!is_to_head) text.remove_prefix(std::min(length, text.size()));  // less: to HEAD, or broken off
  return status;
}

Violation check_replies(std::string_view text, bool& accepted) {
  while (!text.empty()) {
    const std::optional<int> status = take_response(text);
    if (!status) return "a reply that is not HTTP: " + std::string(text.substr(0, 40));
    if (*status == 100) continue;
    if (std::find(std::begin(kStatuses), std::end(kStatuses), *status) == std::end(kStatuses))
      return "status " + std::to_string(*status);
    accepted = accepted || *status < 300;
    if (text.starts_with("{") || text.starts_with("<")) return std::nullopt;  // the body that HEAD does not have
  }
  return std::nullopt;
}

}  // namespace

Outcome try_input(std::span<const std::uint8_t> input, Sabotage sabotage) {
  int sockets[2] = {};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    return {.accepted = false, .violation = "no socket"};
  the_server().adopt_socket(sockets[1]);
  std::string replies;
  bool is_ended = false;
  for (std::size_t sent = 0; sent < input.size() && !is_ended;) {
    const ssize_t bytes = send(sockets[0], input.data() + sent, std::min<std::size_t>(input.size() - sent, 65536),
                               MSG_NOSIGNAL | MSG_DONTWAIT);
    if (bytes > 0) sent += static_cast<std::size_t>(bytes);
    if (bytes < 0 && errno != EAGAIN) break;
    if (bytes < 0) replies += receive(sockets[0], 1, is_ended);
  }
  replies += receive(sockets[0], kReplyMs, is_ended);
  shutdown(sockets[0], SHUT_WR);
  if (!is_ended) replies += receive(sockets[0], kEndMs, is_ended);
  close(sockets[0]);
  if (sabotage == Sabotage::kAlterResult) replies.insert(0, "X");
  Outcome outcome;
  if (!is_ended) outcome.violation = "the connection does not end";
  if (!outcome.violation) outcome.violation = check_replies(replies, outcome.accepted);
  return outcome;
}

std::vector<Bytes> valid_inputs() {
  const auto post = [](std::string_view path, std::string_view body) {
    return "POST " + std::string(path) +
           " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
  };
  const std::string get = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n";
  const std::string texts[] = {
      get,
      get + get,
      "\r\nGET http://localhost/version?x=%20 HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-1,-\r\nX-Request-Id: "
      "a\r\n\r\n",
      "HEAD / HTTP/1.0\r\nConnection: close\r\n\r\n",
      post("/tokenize", R"({"prompt":"1 + 2","return_token_strs":true})"),
      post("/detokenize", R"({"tokens":[49,50]})") + get,
      get + post("/v1/completions", R"({"prompt":"1","max_tokens":1})"),
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
      "Expect: 100-continue\r\n\r\n8;a=\"b\"\r\n{\"prompt\r\n5\r\n\":\"1\"\r\n1\r\n}\r\n0\r\nT: 1\r\n\r\n"};
  std::vector<Bytes> inputs;
  for (const std::string& text : texts) inputs.emplace_back(text.begin(), text.end());
  return inputs;
}

std::vector<std::string_view> dictionary() {
  return {"\r\n",
          "\r\n\r\n",
          "Host: localhost\r\n",
          "Content-Length: 5\r\n",
          "Transfer-Encoding: chunked\r\n",
          "Range: bytes=",
          ",-",
          "Expect: 100-continue\r\n",
          "Connection: close\r\n",
          "0\r\n\r\n",
          "ffffffffffffffff\r\n",
          "POST ",
          "GET ",
          "HTTP/1.0",
          "http://",
          "%00",
          "Authorization: Bearer a\r\n",
          "Origin: null\r\n",
          "OPTIONS * HTTP/1.1\r\n",
          R"("stream":true,)",
          R"("user":[{}],)",
          "\t",
          ";",
          " "};
}

bool takes_every_input() {
  return false;
}

// The length that most mutations of a body break.
void repair(Bytes& input) {
  std::string text(input.begin(), input.end());
  constexpr std::string_view kLength = "Content-Length: ";
  const std::size_t at = text.find(kLength), end = text.find("\r\n\r\n");
  if (at == std::string::npos || end == std::string::npos || at > end) return;
  const std::size_t digits = text.find("\r\n", at) - at - kLength.size();
  text.replace(at + kLength.size(), digits, std::to_string(text.size() - end - 4));
  input.assign(text.begin(), text.end());
}

}  // namespace reprofuse::fuzz
