#include <algorithm>
#include <chrono>

#include "server/answer_call.hpp"
#include "server/api/call.hpp"
#include "server/api/error.hpp"
#include "server/api/json_writer.hpp"
#include "server/api/receipts.hpp"
#include "server/api/reply.hpp"
#include "server/server.hpp"
#include "server/web_assets.hpp"

namespace reprofuse::server {
namespace {

HttpResponse json_body(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

}  // namespace

const std::vector<Server::Route>& Server::routes() {
  static const std::vector<Route> kRoutes = {
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

HttpResponse Server::answer(const HttpRequest& request, ReadGuard& guard, RequestRecord& record) {
  const Visit visit{request, guard, record};
  const Route* route = find_route(request.method, request.path);
  try {
    return route == nullptr ? page(visit) : (this->*route->answer)(visit);
  } catch (const ApiError& error) {
    record.note = error.log_note();
    return error_response(error);
  } catch (const Error& error) {
    const ApiError api_error = from_library_error(error);
    record.note = api_error.log_note();
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
  return answer_call(call, std::move(reply), {served, metrics_, visit.record, visit.request.reply_memory});
}

HttpResponse Server::chat_completions(const Visit& visit) {
  const std::shared_ptr<ServedModel> served = model();
  const std::string client = client_of(visit.request);
  ChatCall call = parse_chat({visit.request.body, &visit.guard}, served->facts(), options_.rules, caller_of(client));
  auto reply = make_reply(call, served->facts(), "chatcmpl-" + visit.request.id, seconds_since_1970());
  return answer_call(call, std::move(reply), {served, metrics_, visit.record, visit.request.reply_memory});
}

HttpResponse Server::verify_receipt(const Visit& visit) {
  const std::shared_ptr<ServedModel> served = model();
  const std::string client = client_of(visit.request);
  VerifyCall call =
      parse_verify({visit.request.body, &visit.guard}, served->facts(), served->service().engine(), caller_of(client));
  auto reply = make_reply(call, served->facts());
  if (reply->finished()) return json_body(reply->body());
  return answer_call(call, std::move(reply), {served, metrics_, visit.record, visit.request.reply_memory});
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
  gauges.refused_connections = counts.refused;
  gauges.evicted_connections = counts.evicted;
  gauges.reply_bytes = counts.reply_bytes;
  if (options_.dropped_log_lines) gauges.dropped_log_lines = options_.dropped_log_lines();
  HttpResponse response;
  response.body = metrics_.text(gauges);
  response.content_type = kMetricsContentType;
  return response;
}

}  // namespace reprofuse::server
