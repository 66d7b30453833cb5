#include "server/http/access.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.hpp"
#include "base/json.hpp"

namespace reprofuse::server {
namespace {

Sha256::Digest digest_of(std::string_view text) {
  Sha256 hash;
  hash.update(text.data(), text.size());
  return hash.finish();
}

// Not 0 when they differ.
std::uint8_t difference(const Sha256::Digest& a, const Sha256::Digest& b) {
  std::uint8_t bits = 0;
  for (std::size_t i = 0; i < a.size(); ++i) bits = static_cast<std::uint8_t>(bits | (a[i] ^ b[i]));
  return bits;
}

}  // namespace

ApiKeys::ApiKeys(const std::vector<std::string>& keys) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=";
  for (const std::string& key : keys) {
    require(!key.empty() && key.find_first_not_of(kAllowed) == std::string::npos,
            "an API key is made of letters, digits and - . _ ~ + / =, and is not empty");
    digests_.push_back(digest_of(key));
  }
}

namespace {

Sha256::Digest digest_of_key(const std::optional<std::string>& authorization) {
  constexpr std::string_view kScheme = "bearer ";  // in any letters
  const std::string_view header = authorization ? std::string_view(*authorization) : std::string_view();
  const bool is_bearer = header.size() >= kScheme.size() &&
                         std::equal(kScheme.begin(), kScheme.end(), header.begin(),
                                    [](char small, unsigned char letter) { return std::tolower(letter) == small; });
  return digest_of(is_bearer ? header.substr(kScheme.size()) : std::string_view());
}

}  // namespace

bool ApiKeys::accept(const std::optional<std::string>& authorization) const {
  if (empty()) return true;
  const Sha256::Digest given = digest_of_key(authorization);
  bool is_known = false;
  for (const Sha256::Digest& digest : digests_) {
    const bool is_this = difference(digest, given) == 0;
    is_known = is_known | is_this;
  }
  return is_known;
}

std::string ApiKeys::name_of(const std::optional<std::string>& authorization) const {
  return to_hex(digest_of_key(authorization));
}

namespace {

// "[::1]:8000" to "::1", "Localhost:8000" to "localhost".
std::string without_port(std::string host) {
  std::transform(host.begin(), host.end(), host.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  if (!host.empty() && host.front() == '[') return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

}  // namespace

bool is_local_name(const std::string& host) {
  const std::string name = without_port(host);
  in_addr ipv4 = {};
  in6_addr ipv6 = {};
  return name.empty() || name == "localhost" || inet_pton(AF_INET, name.c_str(), &ipv4) == 1 ||
         inet_pton(AF_INET6, name.c_str(), &ipv6) == 1;
}

namespace {

// As browsers write one: small letters, no path, and no port where it is the scheme's own.
bool is_origin(std::string_view text) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz", kDigits = "0123456789";
  constexpr std::string_view kName = "abcdefghijklmnopqrstuvwxyz0123456789", kAddress = "0123456789abcdef:.";
  const auto is_made_of = [](std::string_view part, std::string_view characters, std::string_view more = "") {
    const auto allowed = [&](char c) { return characters.find(c) != characters.npos || more.find(c) != more.npos; };
    return !part.empty() && std::all_of(part.begin(), part.end(), allowed);
  };
  const std::size_t colon = text.find("://");
  if (colon == text.npos) return false;
  const std::string_view scheme = text.substr(0, colon), rest = text.substr(colon + 3);
  if (!is_made_of(scheme, kName, "+.-") || !is_made_of(scheme.substr(0, 1), kLetters)) return false;
  const bool is_address = rest.starts_with('[');
  const std::size_t end = std::min(is_address ? rest.find(']') : rest.find(':'), rest.size());
  const std::string_view host = is_address ? rest.substr(1, end - 1) : rest.substr(0, end);
  if (is_address ? end == rest.size() || !is_made_of(host, kAddress) : !is_made_of(host, kName, "._-")) return false;
  const std::string_view after = rest.substr(is_address ? end + 1 : end);
  if (after.empty()) return true;
  const std::string_view port = after.substr(1);
  const bool is_own = (scheme == "http" && port == "80") || (scheme == "https" && port == "443");
  return after[0] == ':' && is_made_of(port, kDigits) && port[0] != '0' && port.size() <= 5 && !is_own;
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
