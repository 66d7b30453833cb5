// Making receipts: of one answer, or one after the other as a log, in which each names the one before it. How a folder
// keeps a log, and whether receipts are one.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "receipt/envelope.hpp"
#include "receipt/receipt.hpp"
#include "receipt/replay.hpp"

namespace reprofuse::receipt {

enum class Existing : std::uint8_t { kStays, kIsReplaced };
// A file that is there whole and for good, or not at all. What its folder cannot be, or has already where that stays,
// throws kInvalidArgument.
void write_whole_file(const std::string& path, std::string_view text, unsigned mode, Existing existing);

// The files of the receipts that a folder keeps, by number.
std::vector<std::string> receipts_in(const std::string& folder);

// That the text is a receipt signed by this key, so that another of its receipts may follow it. Throws
// kInvalidArgument.
Envelope receipt_to_follow(std::string_view text, const std::string& name, const PublicKey& key);

class Log {
 public:
  // A folder that is there, for one at a time. Throws kInvalidArgument for one that cannot be used, that another uses,
  // or whose last receipt is not signed by this key.
  Log(const std::string& folder, const PublicKey& key);

  const std::string& folder() const { return folder_; }
  std::uint64_t last_number() const { return last_number_; }  // 0: there is none
  std::uint64_t missing() const { return missing_; }          // of the numbers up to it, when the log was opened
  const std::optional<std::string>& last_hash() const { return last_hash_; }  // of its payload
  void append(const Envelope& envelope);

 private:
  std::string folder_;
  std::shared_ptr<const void> lock_;  // on the folder
  std::uint64_t last_number_ = 0;
  std::uint64_t missing_ = 0;
  std::optional<std::string> last_hash_;
};

// Receipts in the order in which they are given. What follows what is a matter of signatures and hashes alone, whatever
// else was found, and is added to each report. Where they must be one log, those that do not follow have diverged.
// What could not be read says nothing of the log: then it is not known whether it is whole.
struct LogReport {
  Verdict verdict = Verdict::kEqual;  // kDiverged: it is broken; kNotTried: as far as it could be read, it is not
  std::string text;                   // "unbroken, from its beginning, 7 receipts by the key ..."
};
LogReport check_log(const std::vector<Evidence*>& all, bool must_follow);

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

// Makes receipts.
class Issuer {
 public:
  // With a log, each receipt is kept there, and follows the one before.
  Issuer(SigningKey key, IssuerFacts facts, std::shared_ptr<Log> log = nullptr);

  const IssuerFacts& facts() const { return facts_; }
  PublicKey public_key() const { return key_.public_key(); }
  const Log* log() const { return log_.get(); }
  void continue_after(const Envelope& previous) { previous_ = previous.payload_hash(); }

  // `request` is the answer's, its seed the choice's own. Any thread may call it.
  Issued issue(const engine::Request& request, AnswerSteps answer, const ReceiptOptions& options);

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
