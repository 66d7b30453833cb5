#include "server/server.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.hpp"
#include "base/json.hpp"
#include "server/answer_call.hpp"
#include "server/http/access.hpp"
#include "server/openai/call.hpp"
#include "server/openai/error.hpp"
#include "server/openai/json.hpp"
#include "server/openai/reply.hpp"

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

std::optional<HttpResponse> Server::respond_before_body(const HttpRequest& request) {
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
  if (route == nullptr && !request.for_monitoring) return std::nullopt;  // a file of the page
  const std::optional<std::string> authorization = request.header("authorization");
  const bool needs_key =
      route != nullptr && route->needs_key && !(options_.metrics_without_key && request.path == "/metrics");
  if (needs_key && !keys_.accept(authorization)) return wrong_key(authorization.has_value());
  if (request.for_monitoring && (route == nullptr || !route->for_monitoring)) {
    ++refused_on_monitoring_;
    return too_many_connections_error();
  }
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

void Server::log_request(const RequestLogEntry& entry) noexcept {
  if (!log_) return;
  try {
    log_(entry);
  } catch (const std::exception&) {  // a log that cannot be written is no reason to fail a request
  }
}

namespace {

HttpResponse json_body(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

}  // namespace

const std::vector<Server::Route>& Server::routes() {
  static const std::vector<Route> kRoutes = {
      // needs_key, needs_model, for_monitoring
      {"GET", "/v1/models", true, true, false, &Server::models},
      {"GET", "/v1/models/", true, true, false, &Server::model_by_name},
      {"POST", "/v1/completions", true, true, false, &Server::completions},
      {"POST", "/v1/chat/completions", true, true, false, &Server::chat_completions},
      {"POST", "/v1/receipts/verify", true, true, false, &Server::verify_receipt},
      {"POST", "/tokenize", true, true, false, &Server::tokenize_text},
      {"POST", "/detokenize", true, true, false, &Server::detokenize_ids},
      {"GET", "/health", false, false, true, &Server::health},
      {"GET", "/version", false, false, true, &Server::version},
      {"GET", "/metrics", true, false, true, &Server::metrics},
  };
  return kRoutes;
}

std::vector<std::string_view> Server::paths() {
  std::vector<std::string_view> paths;
  for (const Route& route : routes())
    if (route.path.back() != '/') paths.push_back(route.path);
  return paths;
}

const Server::Route* Server::find_route(const std::string& method, const std::string& path) {
  const auto serves = [&](const Route& route) {
    const bool is_prefix = route.path.back() == '/' && path.size() > route.path.size();
    return route.method == method && (is_prefix ? path.substr(0, route.path.size()) : path) == route.path;
  };
  const auto found = std::find_if(routes().begin(), routes().end(), serves);
  return found == routes().end() ? nullptr : &*found;
}

HttpResponse Server::respond(const HttpRequest& request, ReadGuard& guard, RequestLogEntry& entry) {
  const Visit visit{request, guard, entry};
  const Route* route = find_route(request.method, request.path);
  try {
    return route == nullptr ? page(visit) : (this->*route->respond)(visit);
  } catch (const ApiError& error) {
    entry.note = error.log_note();
    return error_response(error);
  } catch (const Error& error) {
    const ApiError api_error = from_library_error(error);
    entry.note = api_error.log_note();
    return error_response(api_error);
  }
}

HttpResponse Server::page(const Visit& visit) {
  const std::optional<Asset> asset = web_asset(visit.request.path);
  HttpResponse response;
  response.body = asset->body;
  response.content_type = asset->content_type;
  response.headers = {
      {"Cache-Control", "no-cache"},  // another version of the server has another page
      {"Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
      {"Referrer-Policy", "no-referrer"}};
  return response;
}

HttpResponse Server::models(const Visit&) {
  return json_body(model_list(model()->facts()));
}

HttpResponse Server::model_by_name(const Visit& visit) {
  return json_body(model_card(visit.request.path.substr(std::string_view("/v1/models/").size()), model()->facts()));
}

std::string Server::client_of(const HttpRequest& request) const {
  const std::optional<std::string> authorization = request.header("authorization");
  return !keys_.empty() && keys_.accept(authorization) ? keys_.name_of(authorization) : request.address;
}

Caller Server::caller_of(std::string_view client) const {
  return {.client = client, .cache_salt = keys_.empty() ? std::string_view() : client};
}

HttpResponse Server::completions(const Visit& visit) {
  const std::shared_ptr<ServedModel> served = model();
  const std::string client = client_of(visit.request);
  CompletionCall call =
      parse_completion({visit.request.body, &visit.guard}, served->facts(), options_.rules, caller_of(client));
  auto reply = make_reply(call, served->facts(), "cmpl-" + visit.request.id, seconds_since_1970());
  return answer_call(call, std::move(reply), {served, metrics_, visit.log_entry, visit.request.reply_memory});
}

HttpResponse Server::chat_completions(const Visit& visit) {
  const std::shared_ptr<ServedModel> served = model();
  const std::string client = client_of(visit.request);
  ChatCall call = parse_chat({visit.request.body, &visit.guard}, served->facts(), options_.rules, caller_of(client));
  auto reply = make_reply(call, served->facts(), "chatcmpl-" + visit.request.id, seconds_since_1970());
  return answer_call(call, std::move(reply), {served, metrics_, visit.log_entry, visit.request.reply_memory});
}

HttpResponse Server::verify_receipt(const Visit& visit) {
  const std::shared_ptr<ServedModel> served = model();
  const std::string client = client_of(visit.request);
  VerifyCall call =
      parse_verify({visit.request.body, &visit.guard}, served->facts(), served->service().engine(), caller_of(client));
  auto reply = make_reply(call, served->facts());
  if (reply->finished()) return json_body(reply->body());
  return answer_call(call, std::move(reply), {served, metrics_, visit.log_entry, visit.request.reply_memory});
}

HttpResponse Server::tokenize_text(const Visit& visit) {
  return json_body(tokenize({visit.request.body, &visit.guard}, model()->facts()));
}

HttpResponse Server::detokenize_ids(const Visit& visit) {
  return json_body(detokenize({visit.request.body, &visit.guard}, model()->facts()));
}

HttpResponse Server::health(const Visit&) {
  if (auto unavailable = refuse_now()) return *unavailable;
  return json_body(R"({"status":"ok"})");
}

HttpResponse Server::version(const Visit&) {
  return json_body(json_object([&](JsonWriter& json) { json.field("version", options_.version); }));
}

HttpResponse Server::metrics(const Visit&) {
  Metrics::Gauges gauges;
  if (const std::shared_ptr<ServedModel> served = model()) {
    gauges.model = served->facts().id;
    gauges.engine = served->service().stats();
    if (const model::Exchange* exchange = served->service().engine().model().exchange())
      gauges.ranks = exchange->team().traffic();
  }
  const HttpListener::Counts counts = listener_->counts();
  gauges.connections = counts.connections;
  gauges.refused_connections = counts.refused + refused_on_monitoring_;
  gauges.evicted_connections = counts.evicted;
  gauges.reply_bytes = counts.reply_bytes;
  if (options_.dropped_log_lines) gauges.dropped_log_lines = options_.dropped_log_lines();
  HttpResponse response;
  response.body = metrics_.text(gauges);
  response.content_type = kMetricsContentType;
  return response;
}

}  // namespace reprofuse::server
