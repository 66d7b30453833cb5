// The OpenAI API over HTTP: routes, keys and the life of a server.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.hpp"
#include "server/http/access.hpp"
#include "server/http/limits.hpp"
#include "server/http/listener.hpp"
#include "server/http/message.hpp"
#include "server/metrics.hpp"
#include "server/openai/call.hpp"
#include "server/served_model.hpp"

namespace reprofuse::server {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8000;  // 0: any free one
  std::vector<std::string> api_keys;
  bool public_without_key = false;
  std::vector<std::string> allowed_origins;  // of pages of other sites that may ask
  ConnectionLimits limits;
  CallRules rules;
  std::string version;
  std::function<std::uint64_t()> dropped_log_lines;  // none: no line is ever dropped
  bool metrics_without_key = false;
};

using RequestLog = std::function<void(const RequestLogEntry&)>;  // called from any thread

class Server final : private HttpHandler {
 public:
  // Listens at once, so that a client learns that the model is being loaded. Throws for an address that other
  // machines can reach when there is no key, unless that is what the options ask for.
  Server(ServerOptions options, RequestLog log);
  ~Server() override;  // closes every connection, whatever it is doing

  const SocketAddress& address() const { return listener_->address(); }
  std::size_t connections() const { return listener_->counts().connections; }

  void serve_model(std::shared_ptr<ServedModel> model);               // from now on
  void adopt_socket(int socket) { listener_->adopt_socket(socket); }  // for fuzz targets
  void fail(const std::exception_ptr& why);  // nothing can be answered any more, as the caller knows
  std::exception_ptr failure() const;  // why nothing is answered any more: the engine has failed; null: it has not

  // Accepts no connection and takes no request any more. False: some were not answered in time.
  bool drain(std::chrono::milliseconds timeout);
  // Ends all answers under way in an error, and gives clients this long to take it.
  void break_off(std::chrono::milliseconds timeout);

 private:
  // A request, whether anyone waits for its response, and what the log will say of it.
  struct Visit {
    const HttpRequest& request;
    ReadGuard& guard;
    RequestLogEntry& log_entry;
  };

  struct Route {
    std::string_view method;
    std::string_view path;  // one that ends with '/' stands for all that begin with it
    bool needs_key;
    bool needs_model;
    bool for_monitoring;  // also where only monitoring may ask
    HttpResponse (Server::*respond)(const Visit& visit);
  };

  enum class State { kLoading, kServing, kDraining, kFailed };

  static const std::vector<Route>& routes();
  static std::vector<std::string_view> paths();  // of all routes
  static const Route* find_route(const std::string& method, const std::string& path);
  static std::string allowed_methods(const std::string& path);  // as the header Allow has them; empty: it is not there

  std::optional<HttpResponse> respond_before_body(const HttpRequest& request) override;
  std::string client_of(const HttpRequest& request) const override;
  bool has_keys() const override { return !keys_.empty(); }
  HttpResponse respond(const HttpRequest& request, ReadGuard& guard, RequestLogEntry& entry) override;
  void decorate(const HttpRequest& request, HttpResponse& response) override;
  bool keeps_connections() const override { return !draining_; }
  void log_request(const RequestLogEntry& entry) noexcept override;

  static std::optional<HttpResponse> refuse_unknown(const HttpRequest& request);
  std::optional<HttpResponse> refuse_now() const;  // while no request can be answered

  State state() const;
  std::shared_ptr<ServedModel> model() const;  // null while there is none

  HttpResponse page(const Visit& visit);
  HttpResponse models(const Visit& visit);
  HttpResponse model_by_name(const Visit& visit);
  Caller caller_of(std::string_view client) const;  // valid as long as `client` is
  HttpResponse completions(const Visit& visit);
  HttpResponse chat_completions(const Visit& visit);
  HttpResponse verify_receipt(const Visit& visit);
  HttpResponse tokenize_text(const Visit& visit);
  HttpResponse detokenize_ids(const Visit& visit);
  HttpResponse health(const Visit& visit);
  HttpResponse version(const Visit& visit);
  HttpResponse metrics(const Visit& visit);

  const ServerOptions options_;
  const RequestLog log_;
  const ApiKeys keys_;
  const Cors cors_;
  Metrics metrics_;
  std::atomic<bool> draining_ = false;
  std::atomic<std::uint64_t> refused_on_monitoring_ = 0;  // other requests, where only monitoring may ask
  mutable std::mutex mutex_;
  std::shared_ptr<ServedModel> model_;
  std::unique_ptr<HttpListener> listener_;  // last: its threads use all the rest
};

// The page that `reprofuse serve` shows: the files of web/, carried in the binary (cmake/EmbedAssets.cmake).
// `path` as a browser asks for it: "/" is index.html, "/style.css" a file beside it. None: there is no such file.
std::optional<Asset> web_asset(std::string_view path);

}  // namespace reprofuse::server
