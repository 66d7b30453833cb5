#include "server/http/host.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>

namespace reprofuse::server {
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

}  // namespace reprofuse::server
