// Ed25519 keys in PEM files: who signs receipts, and by whom a receipt is signed.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace reprofuse::receipt {

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
