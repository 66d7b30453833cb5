#include "server/http_cors.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/check.hpp"
#include "base/json.hpp"

namespace reprofuse::server {
namespace {

// As browsers write one: small letters, no path, and no port where it is the scheme's own.
bool is_origin(const std::string& text) {
  static const std::regex kOrigin(R"([a-z][a-z0-9+.-]*://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[1-9][0-9]{0,4})?)");
  static const std::regex kOwnPort("http://.*:80|https://.*:443");
  return std::regex_match(text, kOrigin) && !std::regex_match(text, kOwnPort);
}

}  // namespace

Cors::Cors(std::vector<std::string> origins) : origins_(std::move(origins)) {
  for (const std::string& origin : origins_)
    require(origin == "*" || is_origin(origin),
            "the allowed origin {} is not one that a browser sends, such as https://example.org or "
            "http://localhost:3000: scheme and host in small letters, a port unless it is the usual one, and nothing "
            "after it",
            shown(origin));
}

std::optional<HttpResponse> Cors::preflight(const HttpRequest& request) const {
  const bool asks = request.method == "OPTIONS" && request.header("access-control-request-method");
  if (!asks || !request.header("origin") || !allows(*request.header("origin"))) return std::nullopt;
  HttpResponse response;
  response.status = 204;
  response.headers = {{"Access-Control-Allow-Methods", "GET, POST"}, {"Access-Control-Max-Age", "600"}};
  // The clients of OpenAI add headers of their own. None of them means anything here, so all may be sent.
  if (const auto names = request.header("access-control-request-headers"))
    response.headers.emplace_back("Access-Control-Allow-Headers", *names);
  return response;
}

void Cors::decorate(const HttpRequest& request, HttpResponse& response) const {
  if (origins_.empty()) return;
  response.headers.emplace_back("Vary", "Origin");
  const auto origin = request.header("origin");
  if (!origin || !allows(*origin)) return;
  response.headers.emplace_back("Access-Control-Allow-Origin", *origin);
  response.headers.emplace_back("Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
}

bool Cors::allows(const std::string& origin) const {
  return std::any_of(origins_.begin(), origins_.end(),
                     [&](const std::string& allowed) { return allowed == "*" || allowed == origin; });
}

}  // namespace reprofuse::server
