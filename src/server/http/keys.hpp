// Who may ask.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/sha256.hpp"

namespace reprofuse::server {

class ApiKeys {
 public:
  // Throws for a key that no client could send as a bearer token (RFC 6750).
  explicit ApiKeys(const std::vector<std::string>& keys);

  bool empty() const { return digests_.empty(); }  // everyone may ask

  // Of the header "Authorization: Bearer KEY". How long it takes tells nothing of the keys: digests are compared, all
  // of them and to the end.
  bool accept(const std::optional<std::string>& authorization) const;

 private:
  std::vector<Sha256::Digest> digests_;  // the keys themselves are not kept
};

}  // namespace reprofuse::server
