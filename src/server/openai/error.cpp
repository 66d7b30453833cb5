#include "server/openai/error.hpp"

#include <utility>

#include "engine/service.hpp"
#include "server/openai/json.hpp"

namespace reprofuse::server {
namespace {

ApiError from_refusal(const engine::Refused& refused, std::optional<std::string> param) {
  switch (refused.why()) {
    case engine::Refusal::kNeverFits: return bad_request(refused.what(), std::move(param), "invalid_value");
    case engine::Refusal::kFull: return {429, "rate_limit_error", refused.what(), std::nullopt, "queue_full"};
    case engine::Refusal::kClientFull: return {429, "rate_limit_error", refused.what(), std::nullopt, "client_limit"};
    case engine::Refusal::kDraining:
      return {503, "service_unavailable_error", refused.what(), std::nullopt, "draining"};
    case engine::Refusal::kStopped: break;
  }
  return {503, "service_unavailable_error", refused.what(), std::nullopt, "stopped"};
}

}  // namespace

ApiError::ApiError(int status, std::string type, const std::string& message, std::optional<std::string> param,
                   std::optional<std::string> code)
    : std::runtime_error(message),
      status_(status),
      type_(std::move(type)),
      param_(std::move(param)),
      code_(std::move(code)) {}

ApiError bad_request(const std::string& message, std::optional<std::string> param, std::optional<std::string> code) {
  return {400, "invalid_request_error", message, std::move(param), std::move(code)};
}

ApiError server_error(const std::string& message, std::optional<std::string> code) {
  return {500, "server_error", message, std::nullopt, std::move(code)};
}

ApiError from_library_error(const Error& error, std::optional<std::string> param) {
  if (const auto* refused = dynamic_cast<const engine::Refused*>(&error))
    return from_refusal(*refused, std::move(param));
  switch (error.code()) {
    case ErrorCode::kInvalidArgument: return bad_request(error.what(), std::move(param));
    case ErrorCode::kUnsupported: return bad_request(error.what(), std::move(param), "unsupported");
    case ErrorCode::kNonFinite: return server_error(error.what(), "non_finite");
    case ErrorCode::kDevice: return server_error(error.what(), "device_error");
    case ErrorCode::kBusy: return {429, "rate_limit_error", error.what(), std::nullopt, "queue_full"};
    case ErrorCode::kInternal: break;
  }
  return server_error(error.what(), "internal_error");
}

std::string error_body(const ApiError& error) {
  return json_object([&](JsonWriter& json) {
    json.key("error").object([&] {
      json.field("message", error.what());
      json.field("type", error.type()).field("param", error.param()).field("code", error.code());
    });
  });
}

}  // namespace reprofuse::server
