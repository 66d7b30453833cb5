// Requests and answers as the routes know them, apart from sockets and from httplib.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprofuse::server {

struct HttpRequest {
  std::string method;
  std::string path;                            // without the query
  std::string id;                              // the client's X-Request-Id, or one of our own
  std::string body;                            // empty until it has been read
  std::map<std::string, std::string> headers;  // those that routes look at, by their names in small letters

  std::optional<std::string> header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::nullopt : std::optional(found->second);
  }
};

// Where the events of a stream go.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual bool send(std::string_view text) = 0;  // false: the client has gone
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  // Instead of a body: called once the header has been sent. It returns when the stream is complete; false breaks the
  // connection off, so that the client knows that it is not.
  std::function<bool(EventSink&)> stream;
};

// Whoever waits for an answer.
class Client {
 public:
  virtual ~Client() = default;
  virtual bool gone() const = 0;
};

// One line of the log. Nothing of what was asked or answered is in it.
struct RequestRecord {
  std::string id;
  std::string method;
  std::string path;
  int status = 0;
  std::chrono::steady_clock::time_point begin;
  std::chrono::milliseconds time{0};
  std::int64_t prompt_tokens = 0;
  std::int64_t answer_tokens = 0;
  std::string note;  // what an error's message or a client's leaving says beyond the status
};

// What a connection asks about each request, on the connection's thread.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;

  // Looks at the header alone, before the body is read: an answer that needs no body, such as a refusal.
  virtual std::optional<HttpResponse> refuse(const HttpRequest& request) = 0;
  // May set the record's tokens and note, also later, from the stream.
  virtual HttpResponse answer(const HttpRequest& request, const Client& client, RequestRecord& record) = 0;
  // Adds the headers that every response has.
  virtual void decorate(const HttpRequest& request, HttpResponse& response) = 0;
  virtual bool keeps_connections() const = 0;  // false: each one ends after the request it is at
  virtual void finished(const RequestRecord& record) = 0;
};

// An answer in OpenAI's form of an error, for what is wrong before a route is reached.
HttpResponse http_error(int status, const std::string& message, const std::string& code);

}  // namespace reprofuse::server
