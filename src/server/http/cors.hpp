// Which pages of other sites a browser lets read our answers: none, unless the options name them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/http/message.hpp"

namespace reprofuse::server {

class Cors {
 public:
  // "*" is every one. Throws for an origin that no browser would send.
  explicit Cors(std::vector<std::string> origins);

  // What a browser asks before it sends a request of another site's page; none when it asks something else.
  std::optional<HttpResponse> preflight(const HttpRequest& request) const;
  void decorate(const HttpRequest& request, HttpResponse& response) const;

 private:
  bool allows(const std::string& origin) const;

  std::vector<std::string> origins_;
};

}  // namespace reprofuse::server
