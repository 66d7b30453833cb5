// Who may ask: API keys, the names by which the server is called, and the sites whose pages may read responses.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "server/http/message.hpp"

namespace reprofuse::server {

class ApiKeys {
 public:
  // Throws for a key that no client could send as a bearer token (RFC 6750).
  explicit ApiKeys(const std::vector<std::string>& keys);

  bool empty() const { return digests_.empty(); }  // everyone may ask

  // Of the header "Authorization: Bearer KEY". Takes the same time whatever the keys are: all digests are compared, and
  // to the end.
  bool accept(const std::optional<std::string>& authorization) const;

  // A name of the key in that header which does not tell the key.
  std::string name_of(const std::optional<std::string>& authorization) const;

 private:
  std::vector<Sha256::Digest> digests_;  // the keys themselves are not kept
};

// Whether a Host header is one that no site on the network can have: localhost, or an address in digits. A page of any
// other name may have been loaded from elsewhere, before its name was made to stand for this machine (DNS rebinding),
// and a browser then lets it ask as if it were ours.
bool is_local_name(const std::string& host);

// Which pages of other sites a browser lets read our responses: none, unless the options name them.
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
