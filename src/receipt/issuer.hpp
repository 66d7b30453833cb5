// Makes receipts: of one answer, or one after the other as a log in which each names the one before it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "receipt/receipt.hpp"

namespace reprofuse::receipt {

// What a client asks of a receipt.
struct Wishes {
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

enum class Existing : std::uint8_t { kStays, kIsReplaced };
// A file that is there whole and for good, or not at all. What its folder cannot be, or has already where that stays,
// throws kInvalidArgument.
void write_whole_file(const std::string& path, std::string_view text, unsigned mode, Existing existing);

class Issuer {
 public:
  // With a folder, each receipt is kept there, by number, and the log goes on where it ended. Throws kInvalidArgument
  // for a folder that cannot be used, or that another issuer uses.
  Issuer(SigningKey key, IssuerFacts facts, const std::string& folder = "");

  const IssuerFacts& facts() const { return facts_; }
  PublicKey public_key() const { return key_.public_key(); }
  void continue_after(const Envelope& previous) { previous_ = previous.payload_hash(); }

  // `request` is the answer's, its seed the choice's own. Any thread may call it.
  Issued issue(const engine::Request& request, Answer answer, const Wishes& wishes);

 private:
  SigningKey key_;
  IssuerFacts facts_;
  std::string folder_;
  std::shared_ptr<const void> lock_;  // on the folder
  std::mutex mutex_;
  std::optional<std::string> previous_;
  std::uint64_t issued_ = 0;  // the last number in the folder
};

// Where a context computes, as a receipt says it; throws kUnsupported for a baseline, whose bits nobody can check.
IssuerFacts issuer_facts(const Context& context, Artifacts artifacts, std::string version);

}  // namespace reprofuse::receipt
