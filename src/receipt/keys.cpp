#include "receipt/keys.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "base/check.hpp"
#include "receipt/envelope.hpp"

namespace reprofuse::receipt {

namespace {

// The points by which signatures verify that nobody made, in every encoding, without the bit of the sign.
constexpr std::string_view kSmallOrder[] = {"0000000000000000000000000000000000000000000000000000000000000000",
                                            "0100000000000000000000000000000000000000000000000000000000000000",
                                            "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
                                            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
                                            "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                                            "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                                            "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"};

}  // namespace

PublicKey::PublicKey(const Raw& raw) : raw_(raw) {
  Raw unsigned_point = raw;
  unsigned_point.back() &= 0x7F;
  const bool is_small = std::ranges::find(kSmallOrder, to_hex(unsigned_point)) != std::end(kSmallOrder);
  require(!is_small, "the public key is a point of small order, by which anybody can sign");
}

PublicKey PublicKey::from_base64(std::string_view text) {
  const auto bytes = receipt::from_base64(text);
  Raw raw;
  require(bytes && bytes->size() == raw.size(), "the public key is not 32 bytes in Base64");
  std::copy(bytes->begin(), bytes->end(), raw.begin());
  return PublicKey(raw);
}

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
