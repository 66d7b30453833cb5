// Is it true? What a receipt, or a saved reply of a server, claims is computed again from its own tokens, many at a
// time, and compared.
#pragma once

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
  std::string missing;  // of an artifact that was not given: "opening"
  std::string extent;   // of what is right as far as it was looked at, and not further: "holds as far as signature"
  std::vector<std::string> proven;
  std::vector<std::string> not_proven;

  bool is_signed = true;  // false: of a reply, which anybody can write

  bool is_open() const { return verdict == Verdict::kEqual; }  // nothing was found to be wrong yet
  // One word of a verdict. "equal" is said of what was computed again in full, and in no other verdict: the extent, or
  // "missing: opening"; of what has no signature ", unsigned" follows.
  std::string verdict_text() const;
  void refuse(Verdict why, std::string what);
  void lack(std::string artifact, std::string what);
};

// What there is to replay, and to compare with.
struct Claim {
  std::string contract;
  engine::Request request;     // without what a replay adds
  AnswerSteps answer;          // roots: all or none; digest: empty, tree-1 or chain-1
  std::string steps_root;      // empty: none is claimed
  bool sampling_known = true;  // false: the claim does not say how tokens were chosen, nor which token stopped it
  std::optional<std::string> text = {};         // what a reply says that its tokens spell
  bool may_echo = false;                        // this text may begin with that of the prompt
  std::optional<std::string> stop_string = {};  // that a reply says to have ended this text
  std::optional<std::string> spelled = {};      // of this text, what the tokens were found to spell
};

// Of several, the one whose verdict is that of all: the first of signature, contract, artifact, diverged and not tried.
const Report& decisive(const std::vector<const Report*>& all);

// What is to be verified: a receipt, or a choice of a server's reply, with a receipt or with token ids and a digest.
struct Evidence {
  std::string name = {};  // the file's; of a reply with several choices: "reply.json, choice 1"
  std::optional<Receipt> receipt;
  bool signature_holds = false;
  std::optional<Envelope> envelope;
  bool artifacts_compared = false;
  std::string opening_problem;  // why what was given does not open the prompt; empty: nothing was given, or it does
  std::string model_prefix;     // of a reply: the digits of the model digest in its fingerprint
  std::optional<Claim> claim;   // none: nothing to replay, and the report says why
  Report report;
};

inline constexpr std::size_t kMaxReplyChoices = 4096;  // answers of one call: its prompts times n

// Reads a file and checks what needs no model: the signature, by the key that is expected or else the one that the
// receipt names, and that it does not contradict itself. Throws for lack of memory alone.
std::vector<Evidence> examine_all(std::string_view text, const std::string& name,
                                  const std::optional<PublicKey>& expected, const std::vector<Opening>& openings = {});
// The same of JSON that was read already, a nlohmann::json or nlohmann::ordered_json; the limits are those of what its
// receipts hold. Also throws what the guard of the limits throws.
template <typename Json>
std::vector<Evidence> examine_document(const Json& json, const std::string& name,
                                       const std::optional<PublicKey>& expected, const std::vector<Opening>& openings,
                                       const JsonLimits& limits);
// The same of a receipt, or of a reply with one choice.
Evidence examine(std::string_view text, const std::string& name, const std::optional<PublicKey>& expected,
                 const std::vector<Opening>& openings = {});

// Says whose key has signed, where it is one that is known.
void name_key(Evidence& evidence, const PublicKey& known, const std::string& whose);

// Before anything is loaded: the nonce, where one is expected; whether all is there that this level needs (the prompt,
// and for single steps their roots); and whether this software has the contract. Of a reply neither the signature nor
// how tokens were chosen can be checked.
void check_nonce(Evidence& evidence, const std::optional<std::string>& expected);
void check_needs(Evidence& evidence, Level level, std::size_t spots = 0);
void check_contract(Evidence& evidence);
// Compares with the artifacts at hand.
void check_artifacts(Evidence& evidence, const LocalArtifacts& here);
// After these: what is left unproven, since the check ends at this level, or as something was wrong already.
void note_level(Evidence& evidence, Level level);

// What was proven, as a reader wants to see it. Nothing is told of what is not signed by the key, nor the text and the
// digest of what was found to be wrong.
struct Facts {
  std::optional<std::string> contract, model, nonce;
  std::optional<std::string> prompt, answer;  // texts; none without a tokenizer
  std::optional<std::string> digest;
};
Facts facts_of(const Evidence& evidence, const std::optional<Tokenizer>& tokenizer);

// One claim on its way through an engine.
class Replay {
 public:
  Replay(const Claim& claim, Level level);

  engine::Request request() const;    // what to ask the engine
  std::int64_t longest_text() const;  // in tokens
  // An update of the request. False: a difference was found, and no more updates are needed.
  bool add(const engine::Update& update);
  // Once the request has ended, or add() has said that no more is needed.
  void report_to(Report& report) const;

 private:
  // One token more than the claim has shows that the answer goes on; no memory is set aside for what it might have had.
  std::int64_t longest_answer() const;
  bool differ(std::string what);
  bool compare_step(std::size_t step, std::int32_t token, const Sha256::Digest& root);
  bool compare_end(const engine::End& end);

  const Claim& claim_;
  bool compares_logits_;
  AnswerSteps computed_;
  std::string difference_;
  std::size_t likeliest_ = 0;  // tokens that are the first in rank
};

// After the replay: is the text of a reply what its tokens spell?
void check_text(Evidence& evidence, const std::optional<Tokenizer>& tokenizer);

// `count` different steps of `steps`, ascending, that nobody can foresee.
std::vector<std::size_t> draw_spots(std::size_t steps, std::size_t count);

// Replays all claims that are open, in one engine, and completes their reports. With `spots`, so many steps of each, as
// rows of one prefill over its text; 0, or as many as there are: every step. Returns the passes over the model.
std::int64_t replay_all(const model::Model& model, const std::optional<Tokenizer>& tokenizer,
                        const std::vector<Evidence*>& all, Level level, std::size_t spots);

}  // namespace reprofuse::receipt
