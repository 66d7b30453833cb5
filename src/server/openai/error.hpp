// The answer to a request that fails: a status and OpenAI's error object.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "reprofuse/error.hpp"

namespace reprofuse::server {

class ApiError : public std::runtime_error {
 public:
  ApiError(int status, std::string type, const std::string& message, std::optional<std::string> param = std::nullopt,
           std::optional<std::string> code = std::nullopt);

  int status() const { return status_; }  // of HTTP
  const std::string& type() const { return type_; }
  const std::optional<std::string>& param() const { return param_; }  // the field at fault
  const std::optional<std::string>& code() const { return code_; }

  // What the server's own log says of it. The message is for the client, and may hold what the client sent.
  std::string log_note() const { return log_note_.value_or(code_.value_or(type_)); }
  void set_log_note(std::string note) { log_note_ = std::move(note); }

 private:
  int status_;
  std::string type_;
  std::optional<std::string> param_;
  std::optional<std::string> code_;
  std::optional<std::string> log_note_;
};

// 400: the request itself is wrong.
ApiError bad_request(const std::string& message, std::optional<std::string> param = std::nullopt,
                     std::optional<std::string> code = std::nullopt);
// 500: the server is at fault.
ApiError server_error(const std::string& message, std::optional<std::string> code = std::nullopt);

// What the library or the engine threw: 400 for what the caller can mend, 429 for a full queue, 503 for a service that
// takes nothing any more, else 500. `param` is the field that a 400 is about, where one is known.
ApiError from_library_error(const Error& error, std::optional<std::string> param = std::nullopt);

// {"error": {"message", "type", "param", "code"}}: the body of a reply, or the data of a line within a stream.
std::string error_body(const ApiError& error);

}  // namespace reprofuse::server
