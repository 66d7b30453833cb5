#include "server/http_cors.hpp"

#include <algorithm>

namespace reprofuse::server {

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
