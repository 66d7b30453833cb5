// Makes receipts: of one answer, or one after the other as a log in which each names the one before it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "receipt/log.hpp"
#include "receipt/receipt.hpp"

namespace reprofuse::receipt {

// What a client asks of a receipt.
struct ReceiptOptions {
  bool hide_prompt = false;
  bool roots = false;  // of each step's row, for proofs of single steps
  std::optional<std::string> nonce = {};
};

inline constexpr std::size_t kMaxNonceBytes = 256;

// What every receipt of an issuer says.
struct IssuerFacts {
  std::string version;
  std::string contract;
  Artifacts artifacts;
  std::string device, isa;
};

struct Issued {
  Envelope envelope;
  std::optional<Opening> opening;  // of a prompt that is hidden
};

class Issuer {
 public:
  // With a log, each receipt is kept there, and follows the one before.
  Issuer(SigningKey key, IssuerFacts facts, std::shared_ptr<Log> log = nullptr);

  const IssuerFacts& facts() const { return facts_; }
  PublicKey public_key() const { return key_.public_key(); }
  const Log* log() const { return log_.get(); }
  void continue_after(const Envelope& previous) { previous_ = previous.payload_hash(); }

  // `request` is the answer's, its seed the choice's own. Any thread may call it.
  Issued issue(const engine::Request& request, Answer answer, const ReceiptOptions& options);

 private:
  SigningKey key_;
  IssuerFacts facts_;
  std::shared_ptr<Log> log_;
  std::mutex mutex_;
  std::optional<std::string> previous_;
};

// Where a context computes, as a receipt says it; throws kUnsupported for a baseline, whose bits nobody can check.
IssuerFacts issuer_facts(const Context& context, Artifacts artifacts, std::string version);

}  // namespace reprofuse::receipt
