// Keys by OpenSSL. A build without it signs nothing and checks no signature.
#if REPROFUSE_HAVE_SIGNATURES
#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#endif

#include "base/check.hpp"
#include "receipt/envelope.hpp"

namespace reprofuse::receipt {
#if REPROFUSE_HAVE_SIGNATURES
namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Digest = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;
using Memory = std::unique_ptr<BIO, decltype(&BIO_free)>;
using File = std::unique_ptr<std::FILE, decltype(&std::fclose)>;

std::string openssl_problem() {
  return std::generic_category().message(errno);
}

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

File open_to_read(const std::string& path) {
  File file(std::fopen(path.c_str(), "re"), &std::fclose);
  struct stat facts = {};
  require(file != nullptr, "{}: cannot be read: {}", path, openssl_problem());
  require(fstat(fileno(file.get()), &facts) != 0 || !S_ISDIR(facts.st_mode), "{}: cannot be read: is a folder", path);
  return file;
}

// Keys are short: more than this is none.
std::string text_in(std::FILE* file, const std::string& path) {
  std::string text(std::size_t{1} << 16, '\0');
  const std::size_t size = std::fread(text.data(), 1, text.size(), file);
  require(std::ferror(file) == 0, "{}: cannot be read: {}", path, openssl_problem());
  text.resize(size);
  return text;
}

// "-----BEGIN PRIVATE KEY-----", "-----BEGIN ENCRYPTED PRIVATE KEY-----", ...
bool has_label(std::string_view text, std::string_view label) {
  const std::size_t begin = text.find("-----BEGIN ");
  if (begin == std::string_view::npos) return false;
  return text.substr(begin, text.find('\n', begin) - begin).find(label) != std::string_view::npos;
}

// A key with a password would be asked for on the terminal.
int no_password(char*, int, int, void*) {
  return 0;
}

PublicKey public_part(const EVP_PKEY* key, const std::string& path) {
  PublicKey::Raw raw;
  std::size_t size = raw.size();
  require(EVP_PKEY_get_id(key) == EVP_PKEY_ED25519 && EVP_PKEY_get_raw_public_key(key, raw.data(), &size) == 1,
          "{}: is no Ed25519 key", path);
  return PublicKey(raw);
}

}  // namespace

struct SigningKey::Impl {
  Key key;
  PublicKey public_key;
};

bool build_has_signatures() {
  return true;
}

PublicKey PublicKey::load(const std::string& path) {
  const File file = open_to_read(path);
  return from_pem(text_in(file.get(), path), path);
}

PublicKey PublicKey::from_pem(std::string_view text, const std::string& name) {
  require(!has_label(text, "PRIVATE KEY"),
          "{}: is a secret key; its public part is wanted, which `reprofuse keys show` "
          "prints",
          name);
  const Memory memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), &BIO_free);
  const Key key(PEM_read_bio_PUBKEY(memory.get(), nullptr, no_password, nullptr), &EVP_PKEY_free);
  require(key != nullptr, "{}: holds no public key in PEM", name);
  return public_part(key.get(), name);
}

bool PublicKey::verifies(std::string_view message, std::string_view signature) const {
  const Key key(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, raw_.data(), raw_.size()), &EVP_PKEY_free);
  const Digest digest(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  return key != nullptr && digest != nullptr &&
         EVP_DigestVerifyInit(digest.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
         EVP_DigestVerify(digest.get(), bytes_of(signature), signature.size(), bytes_of(message), message.size()) == 1;
}

SigningKey SigningKey::make(const std::string& path) {
  Key key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), &EVP_PKEY_free);
  require(key != nullptr, "OpenSSL makes no Ed25519 key on this machine");
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  require(descriptor >= 0, "{}: cannot be made: {}", path, openssl_problem());
  File file(fdopen(descriptor, "w"), &std::fclose);
  const bool written =
      file != nullptr && PEM_write_PKCS8PrivateKey(file.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1;
  if (!written || std::fclose(file.release()) != 0) {
    unlink(path.c_str());
    fail(ErrorCode::kInvalidArgument, "{}: cannot be written", path);
  }
  PublicKey public_key = public_part(key.get(), path);
  return SigningKey(std::make_shared<Impl>(Impl{std::move(key), public_key}));
}

SigningKey SigningKey::load(const std::string& path) {
  const File file = open_to_read(path);
  struct stat facts = {};
  require(fstat(fileno(file.get()), &facts) == 0 && S_ISREG(facts.st_mode), "{}: is no regular file", path);
  // What it is comes before who may read it.
  std::string text = text_in(file.get(), path);
  const bool is_public = has_label(text, "PUBLIC KEY"), is_private = has_label(text, "PRIVATE KEY");
  OPENSSL_cleanse(text.data(), text.size());
  require(is_private || !is_public, "{}: is a public key; the secret one is wanted", path);
  require(is_private, "{}: holds no private key in PEM", path);
  require((facts.st_mode & (S_IRWXG | S_IRWXO)) == 0,
          "{}: others than its owner may use it (mode {:03o}); `chmod 600` it, or make a new key if others had it",
          path, facts.st_mode & 0777U);
  std::rewind(file.get());
  Key key(PEM_read_PrivateKey(file.get(), nullptr, no_password, nullptr), &EVP_PKEY_free);
  require(key != nullptr, "{}: holds no private key in PEM without a password", path);
  PublicKey public_key = public_part(key.get(), path);
  return SigningKey(std::make_shared<Impl>(Impl{std::move(key), public_key}));
}

PublicKey SigningKey::public_key() const {
  return impl_->public_key;
}

std::string SigningKey::sign(std::string_view message) const {
  std::string signature(64, '\0');
  std::size_t size = signature.size();
  const Digest digest(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  const bool signed_well = digest != nullptr &&
                           EVP_DigestSignInit(digest.get(), nullptr, nullptr, nullptr, impl_->key.get()) == 1 &&
                           EVP_DigestSign(digest.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                                          bytes_of(message), message.size()) == 1;
  invariant(signed_well && size == signature.size(), "OpenSSL did not sign");
  return signature;
}

#else
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

#endif
}  // namespace reprofuse::receipt
