// A build without OpenSSL signs nothing and checks no signature.
#include "base/check.hpp"
#include "receipt/envelope.hpp"

namespace reprofuse::receipt {
namespace {

[[noreturn]] void fail_without() {
  fail(ErrorCode::kUnsupported, "this build has no OpenSSL, so it can neither sign nor check signatures");
}

}  // namespace

struct SigningKey::Impl {};

bool build_has_signatures() {
  return false;
}

PublicKey PublicKey::load(const std::string&) {
  fail_without();
}

PublicKey PublicKey::from_pem(std::string_view, const std::string&) {
  fail_without();
}

bool PublicKey::verifies(std::string_view, std::string_view) const {
  fail_without();
}

SigningKey SigningKey::make(const std::string&) {
  fail_without();
}

SigningKey SigningKey::load(const std::string&) {
  fail_without();
}

PublicKey SigningKey::public_key() const {
  fail_without();
}

std::string SigningKey::sign(std::string_view) const {
  fail_without();
}

}  // namespace reprofuse::receipt
