#include "server/server.hpp"

#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.hpp"
#include "base/json.hpp"
#include "server/http/access.hpp"
#include "server/web_assets.hpp"

namespace reprofuse::server {
namespace {

void check_public(const std::vector<SocketAddress>& addresses, const ServerOptions& options) {
  if (!options.api_keys.empty() || options.public_without_key) return;
  for (const SocketAddress& address : addresses)
    require(address.is_loopback,
            "other machines can reach {}, and there is no key: give one with --api-key, or say "
            "--allow-public-without-key to let everyone ask",
            address.to_string());
}

HttpResponse wrong_key(bool has_header) {
  HttpResponse response = http_error(401,
                                     has_header ? "the header Authorization does not hold 'Bearer ' and one of this "
                                                  "server's API keys"
                                                : "this server wants an API key, in the header 'Authorization: Bearer "
                                                  "KEY'; clients of OpenAI send the one they are given as api_key",
                                     "invalid_api_key");
  response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace

Server::Server(ServerOptions options, RequestLog log)
    : options_(std::move(options)), log_(std::move(log)), keys_(options_.api_keys), cors_(options_.allowed_origins) {
  const std::vector<SocketAddress> addresses = resolve_address(options_.host, options_.port);
  check_public(addresses, options_);
  HttpHandler& handler = *this;
  listener_ = std::make_unique<HttpListener>(addresses, options_.limits, handler);
  listener_->start();  // not before listener_ is there, since routes ask it
}

Server::~Server() = default;

void Server::serve_model(std::shared_ptr<ServedModel> model) {
  const std::lock_guard lock(mutex_);
  model_ = std::move(model);
}

std::shared_ptr<ServedModel> Server::model() const {
  const std::lock_guard lock(mutex_);
  return model_;
}

Server::State Server::state() const {
  const std::shared_ptr<ServedModel> served = model();
  if (served && served->service().failed()) return State::kFailed;
  if (draining_) return State::kDraining;
  return served ? State::kServing : State::kLoading;
}

void Server::fail(const std::exception_ptr& why) {
  if (const std::shared_ptr<ServedModel> served = model()) served->service().fail(why);
}

std::exception_ptr Server::failure() const {
  const std::shared_ptr<ServedModel> served = model();
  return served ? served->service().failure() : nullptr;
}

bool Server::drain(std::chrono::milliseconds timeout) {
  draining_ = true;
  if (const auto served = model()) served->service().stop_taking();
  listener_->stop_accepting();
  return listener_->wait_until_closed(timeout);
}

void Server::break_off(std::chrono::milliseconds timeout) {
  if (const auto served = model()) served->service().stop();
  listener_->wait_until_closed(timeout);
}

std::optional<HttpResponse> Server::answer_before_body(const HttpRequest& request) {
  const std::string host = request.header("host").value_or("");
  if (keys_.empty() && address().is_loopback && !is_local_name(host))
    return http_error(403,
                      fmt::format("the header Host is {}, and a server without an API key answers only to localhost or "
                                  "an address in digits; with --api-key it answers to any name",
                                  shown(host)),
                      "wrong_host");
  if (auto preflight = cors_.preflight(request)) return preflight;
  if (auto unknown = refuse_unknown(request)) return unknown;
  const Route* route = find_route(request.method, request.path);
  if (route == nullptr && !request.in_reserve) return std::nullopt;  // a file of the page
  const std::optional<std::string> authorization = request.header("authorization");
  const bool needs_key =
      route != nullptr && route->needs_key && !(options_.metrics_without_key && request.path == "/metrics");
  if (needs_key && !keys_.accept(authorization)) return wrong_key(authorization.has_value());
  if (request.in_reserve && (route == nullptr || !route->in_reserve))
    return http_error(503, "there are too many connections, and no more are served", "too_many_connections");
  return route->needs_model ? refuse_now() : std::nullopt;
}

std::string Server::allowed_methods(const std::string& path) {
  if (find_route("POST", path) != nullptr) return "POST";
  return find_route("GET", path) != nullptr || web_asset(path) ? "GET, HEAD" : "";
}

std::optional<HttpResponse> Server::refuse_unknown(const HttpRequest& request) {
  const std::string allowed = allowed_methods(request.path);
  if (allowed.empty())
    return http_error(
        404, fmt::format("there is nothing at {}; there are {}", shown(request.path), fmt::join(paths(), ", ")),
        "not_found");
  if (request.method == allowed.substr(0, allowed.find(','))) return std::nullopt;
  HttpResponse response = http_error(
      405, fmt::format("{} takes {}, not {}", shown(request.path), allowed, request.method), "method_not_allowed");
  response.headers.emplace_back("Allow", allowed);
  return response;
}

std::optional<HttpResponse> Server::refuse_now() const {
  switch (state()) {
    case State::kServing: return std::nullopt;
    case State::kLoading:
      return http_error(503, "the model is being loaded; /health tells when it is there", "loading");
    case State::kDraining: return http_error(503, "the server is shutting down and takes no new requests", "draining");
    case State::kFailed: break;
  }
  return http_error(503, "the engine has failed, and only a new server will answer", "engine_failed");
}

void Server::decorate(const HttpRequest& request, HttpResponse& response) {
  response.headers.emplace_back("X-Request-Id", request.id);
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  cors_.decorate(request, response);
}

void Server::finished(const RequestRecord& record) noexcept {
  if (!log_) return;
  try {
    log_(record);
  } catch (const std::exception&) {  // a log that cannot be written is no reason to fail a request
  }
}

}  // namespace reprofuse::server
