// Is it true? What a receipt, or a saved reply of a server, claims is computed again from its own tokens, many at a
// time, and compared.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.hpp"
#include "receipt/receipt.hpp"

namespace reprofuse::receipt {

// Each includes those before it.
enum class Level : std::uint8_t { kSignature, kArtifacts, kTokens, kLogits };
inline constexpr std::string_view kLevelNames[] = {"signature", "artifacts", "tokens", "logits"};
Level level_of(std::string_view name);  // throws kInvalidArgument

// Also the exit status of `reprofuse verify`.
enum class Verdict : std::uint8_t {
  kEqual = 0,
  kDiverged = 1,
  kNotTried = 2,
  kSignature = 3,
  kArtifact = 4,
  kContract = 5
};
std::string_view verdict_name(Verdict verdict);  // "equal", "diverged", "not tried", "signature", ...

struct Report {
  Verdict verdict = Verdict::kEqual;
  std::string problem;  // unless it is equal
  std::vector<std::string> proven;
  std::vector<std::string> not_proven;

  bool is_signed = true;  // false: of a reply, which anybody can write

  bool is_open() const { return verdict == Verdict::kEqual; }  // nothing was found to be wrong yet
  std::string verdict_text() const;                            // its name; "equal, unsigned" without a signature
  void refuse(Verdict why, std::string what);
};

// What there is to replay, and to compare with.
struct Claim {
  std::string contract;
  engine::Request request;     // without what a replay adds
  Answer answer;               // roots: all or none; digest: empty, tree-1 or chain-1
  std::string steps_root;      // empty: none is claimed
  bool sampling_known = true;  // false: the claim does not say how tokens were chosen, nor which token stopped it
  std::optional<std::string> text = {};         // what a reply says that its tokens spell
  bool may_echo = false;                        // this text may begin with that of the prompt
  std::optional<std::string> stop_string = {};  // that ended this text, of a reply without a receipt
};

// What is to be verified: a receipt, or a choice of a server's reply, with a receipt or with token ids and a digest.
struct Evidence {
  std::string part = {};  // of a reply with several choices: "choice 1"
  std::optional<Receipt> receipt;
  std::optional<Envelope> envelope;
  std::string model_prefix;    // of a reply: the digits of the model digest in its fingerprint
  std::optional<Claim> claim;  // none: nothing to replay, and the report says why
  Report report;
};

// Reads a file and checks what needs no model: the signature, by the key that is expected or else the one that the
// receipt names, and that it does not contradict itself. Throws for lack of memory alone.
std::vector<Evidence> examine_all(std::string_view text, const std::string& name,
                                  const std::optional<PublicKey>& expected, const std::vector<Opening>& openings = {});
// The same of a receipt, or of a reply with one choice.
Evidence examine(std::string_view text, const std::string& name, const std::optional<PublicKey>& expected,
                 const std::vector<Opening>& openings = {});

// Compares with the artifacts at hand, and checks that this software has the contract.
void check_contract(Evidence& evidence);
void check_artifacts(Evidence& evidence, const AtHand& here);
// After these: what is left unproven, since the check ends at this level, or as something was wrong already. A prompt
// that is hidden cannot be replayed, and of a reply neither the signature nor how tokens were chosen can be checked.
void note_level(Evidence& evidence, Level level);

// One claim on its way through an engine.
class Replay {
 public:
  // With `spots` only these steps are computed, each by a request of its own; they need the claim's roots.
  Replay(const Claim& claim, Level level, std::vector<std::size_t> spots = {});

  // What to ask the engine, in this order, one after the other.
  std::size_t request_count() const { return std::max<std::size_t>(1, spots_.size()); }
  engine::Request request(std::size_t index) const;
  std::int64_t longest_text() const;  // of its requests, in tokens
  // An update of request(index). False: a difference was found, and no more updates are needed.
  bool add(std::size_t index, const engine::Update& update);
  // Once all requests have ended, or add() has said that no more are needed.
  void report_to(Report& report) const;

 private:
  bool differ(std::string what);
  bool compare_step(std::size_t step, std::int32_t token, const Sha256::Digest& root);
  bool compare_end(const engine::End& end);

  const Claim& claim_;
  bool compares_logits_;
  std::vector<std::size_t> spots_;
  Answer computed_;
  std::string difference_;
  std::size_t likeliest_ = 0;  // tokens that are the first in rank
};

// After the replay: is the text of a reply what its tokens spell?
void check_text(Evidence& evidence, const std::optional<Tokenizer>& tokenizer);

// `count` different steps of `steps`, ascending, that nobody can foresee.
std::vector<std::size_t> draw_spots(std::size_t steps, std::size_t count);

// Replays all claims that are open in one engine and completes their reports. `spots` of each; 0: every step.
void replay_all(const model::Model& model, const std::optional<Tokenizer>& tokenizer, const std::vector<Evidence*>& all,
                Level level, std::size_t spots);

}  // namespace reprofuse::receipt
