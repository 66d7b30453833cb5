#include "server/http/keys.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.hpp"

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

bool ApiKeys::accept(const std::optional<std::string>& authorization) const {
  if (empty()) return true;
  constexpr std::string_view kScheme = "Bearer ";
  const std::string_view header = authorization ? std::string_view(*authorization) : std::string_view();
  const bool is_bearer = header.substr(0, kScheme.size()) == kScheme;
  const Sha256::Digest given = digest_of(is_bearer ? header.substr(kScheme.size()) : std::string_view());
  bool is_known = false;
  for (const Sha256::Digest& digest : digests_) {
    const bool is_this = difference(digest, given) == 0;
    is_known = is_known | is_this;
  }
  return is_known;
}

}  // namespace reprofuse::server
