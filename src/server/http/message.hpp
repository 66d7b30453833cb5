// Requests and responses as the routes know them, apart from sockets and from the parser of HTTP.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http/limits.hpp"
#include "server/openai/error.hpp"

namespace reprofuse {
class ReadGuard;
}

namespace reprofuse::server {

struct HttpRequest {
  std::string method;
  std::string path;                                  // without the query, and without escapes
  std::string id;                                    // the client's X-Request-Id, or one of our own
  std::string address;                               // the client's, in digits
  std::string body;                                  // empty until it has been read
  std::map<std::string, std::string> headers;        // those that routes look at, by their names in small letters
  bool for_monitoring = false;                       // only /health, /version and /metrics may be answered
  std::shared_ptr<ReplyMemory::Grant> reply_memory;  // what its response takes until the client has it

  std::optional<std::string> header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::nullopt : std::optional(found->second);
  }
};

class PendingResponse;

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  std::shared_ptr<PendingResponse> pending;  // with a stream: what follows the header; else: what will be the response
  bool is_stream = false;
};

// A response that is being computed. Used by one thread at a time; dropping it gives it up.
class PendingResponse {
 public:
  enum class State : std::uint8_t {
    kNothingMore,  // for now
    kMustWait,     // for a disk: to be called again where a thread may wait
    kComplete,
  };

  virtual ~PendingResponse() = default;
  // `call` is called, by any thread, whenever advance() may have something to show. Once.
  virtual void on_update(std::function<void()> call) = 0;
  // Adds the events that are there now, and stops when there are enough bytes. Does not block unless `may_wait`, and
  // then on one operation. A further call means that the events of the previous call have been sent.
  virtual State advance(std::string& events, std::size_t enough, bool may_wait) = 0;
  virtual HttpResponse response() = 0;  // of what is no stream, once nothing will follow
  virtual void note_departure() = 0;    // the client has left, or was made to: a note for the log
};

// Holds nothing of what was asked or answered.
struct RequestLogEntry {
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

// What connections ask about requests: from several threads at once, about one request from one at a time.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;

  // Looks at the header alone: a response that needs no body, such as a refusal or that to a preflight of CORS.
  virtual std::optional<HttpResponse> respond_before_body(const HttpRequest& request) = 0;
  // The client, for turns and limits: the name of the request's key, or its address where it has none.
  virtual std::string client_of(const HttpRequest& request) const = 0;
  virtual bool has_keys() const = 0;
  // May set the entry's tokens and note, also later, while the response is pending.
  virtual HttpResponse respond(const HttpRequest& request, ReadGuard& guard, RequestLogEntry& entry) = 0;
  // Adds the headers that every response has.
  virtual void decorate(const HttpRequest& request, HttpResponse& response) = 0;
  virtual bool keeps_connections() const = 0;  // false: each one ends after the request it is at
  virtual void log_request(const RequestLogEntry& entry) noexcept = 0;
};

// Responses in OpenAI's form of an error. One to a request that a client may repeat says when.
inline HttpResponse error_response(const ApiError& error) {
  HttpResponse response;
  response.status = error.status();
  response.body = error_body(error);
  if (error.status() == 429 || error.status() == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

inline HttpResponse http_error(int status, const std::string& message, const std::string& code) {
  const std::string type = status >= 500 ? "server_error" : "invalid_request_error";
  return error_response(ApiError(status, type, message, std::nullopt, code));
}

// Such an error, written by hand: there may be no memory for more than its bytes, or not even for these.
inline constexpr std::string_view kOutOfMemoryBody =
    R"({"error":{"message":"there is no memory for this request now","type":"server_error","param":null,)"
    R"("code":"out_of_memory"}})";

inline HttpResponse out_of_memory_error() {
  HttpResponse response;
  response.status = 503;
  response.body = kOutOfMemoryBody;
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

inline HttpResponse too_many_connections_error() {
  return http_error(503, "there are too many connections, and no more are served", "too_many_connections");
}

}  // namespace reprofuse::server
