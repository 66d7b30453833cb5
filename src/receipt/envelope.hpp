// The outer form of a receipt: canonical JSON in a DSSE envelope (github.com/secure-systems-lab/dsse), and the keys
// that sign it. docs/receipts.md describes all of it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "base/json.hpp"

namespace reprofuse::receipt {

Sha256::Digest sha256(std::string_view bytes);
std::optional<Sha256::Digest> digest_from_hex(std::string_view hex);  // 64 small hex digits, or nothing

// Base64 of RFC 4648, with padding. What is read must be what to_base64() writes.
std::string to_base64(std::string_view bytes);
std::optional<std::string> from_base64(std::string_view text);

// RFC 8785 for what receipts hold: strings, booleans, null and integers below 2^53; keys in order, no white space.
std::string canonical_json(const nlohmann::json& value);

// What follows is made for nlohmann::json and nlohmann::ordered_json: for files, and for what a server has read
// already.

// Token ids: integers from 0 to 2^31 - 1 and nothing else. Throws kInvalidArgument.
template <typename Json>
std::int32_t token_in(const Json& value);
template <typename Json>
std::vector<std::int32_t> tokens_in(const Json& list);

inline constexpr std::string_view kPayloadType = "application/vnd.in-toto+json";

struct Envelope {
  std::string payload;
  std::string key_id;
  std::string signature;  // bytes, of pre_authentication(payload)

  std::string text() const;          // one line of JSON, without a line feed
  std::string payload_hash() const;  // SHA-256 in hex: what the next receipt of a log names
};

std::string pre_authentication(std::string_view payload);  // what is signed: DSSE's PAE

// Throws kInvalidArgument for what is no envelope with one signature.
Envelope parse_envelope(std::string_view text, const std::string& name);
template <typename Json>
Envelope read_envelope(const Json& json, const std::string& name);

// Where a statement is not what its receipt is written as: the first place, and both values, in words. Linear in both
// but for looking up keys; the library's own diff looks through its list of changes again for each of them.
std::string difference_between(const nlohmann::json& said, const nlohmann::json& written);

// Ed25519 keys in PEM files: who signs receipts, and by whom a receipt is signed.

bool build_has_signatures();  // false: it was made without OpenSSL, and what follows throws kUnsupported

class PublicKey {
 public:
  using Raw = std::array<std::uint8_t, 32>;

  explicit PublicKey(const Raw& raw);                   // throws kInvalidArgument for a point of small order
  static PublicKey from_base64(std::string_view text);  // of the 32 bytes; throws kInvalidArgument
  static PublicKey load(const std::string& path);       // a PEM file; throws kInvalidArgument
  static PublicKey from_pem(std::string_view text, const std::string& name);  // likewise

  const Raw& raw() const { return raw_; }
  std::string id() const;   // SHA-256, in hex, of the SubjectPublicKeyInfo in DER
  std::string pem() const;  // as `openssl pkey -pubout` writes it
  bool verifies(std::string_view message, std::string_view signature) const;

  bool operator==(const PublicKey&) const = default;

 private:
  std::string der() const;

  Raw raw_;
};

class SigningKey {
 public:
  // A new key in a new file that its owner alone can read, PKCS #8 in PEM. A file that is there stays as it is.
  static SigningKey make(const std::string& path);
  // Throws kInvalidArgument, also for a file that others than its owner can read.
  static SigningKey load(const std::string& path);

  PublicKey public_key() const;
  std::string sign(std::string_view message) const;

 private:
  struct Impl;
  explicit SigningKey(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<const Impl> impl_;
};

// The key in the file that REPROFUSE_KEY names. Throws kInvalidArgument, saying what to do, where there is none.
SigningKey signing_key_of_environment();

}  // namespace reprofuse::receipt
