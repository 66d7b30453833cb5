#include "receipt/keys.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/check.hpp"
#include "receipt/envelope.hpp"

namespace reprofuse::receipt {

// What stands before the 32 bytes of every Ed25519 key in DER (RFC 8410).
std::string PublicKey::der() const {
  constexpr std::string_view kHead("\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00", 12);
  std::string bytes(kHead);
  bytes.append(raw_.begin(), raw_.end());
  return bytes;
}

std::string PublicKey::id() const {
  return to_hex(sha256(der()));
}

std::string PublicKey::pem() const {
  return fmt::format("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", to_base64(der()));
}

SigningKey signing_key_of_environment() {
  const char* path = std::getenv("REPROFUSE_KEY");
  require(path != nullptr && *path != '\0',
          "there is no key to sign receipts with: make one with `reprofuse keys new FILE`, and name it in the "
          "environment by REPROFUSE_KEY=FILE");
  return SigningKey::load(path);
}

}  // namespace reprofuse::receipt
