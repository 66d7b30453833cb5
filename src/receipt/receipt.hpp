// What a receipt says: an in-toto Statement (v1) about one answer. docs/receipts.md describes every field.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "engine/model_files.hpp"
#include "engine/request.hpp"
#include "ops/contract.hpp"
#include "receipt/envelope.hpp"

namespace reprofuse::receipt {

// What decides an answer beside the request: the weights, and the files of a folder that say how a text becomes tokens,
// how an answer is sampled and where it ends.
struct Artifacts {
  std::string model;                                        // the model digest: SHA-256, in hex, of its manifest
  std::string manifest_root;                                // of the Merkle tree over the manifest's lines
  std::map<std::string, std::optional<std::string>> files;  // SHA-256 of each text file's bytes; none: it is not there
  std::optional<std::string> chat_template;                 // of the template's source
  std::string unicode;                                      // text::unicode_versions()
  std::string date;                                         // what a chat template sees as today
  std::int64_t context = 0;                                 // the longest text
  std::string settings;                                     // see settings_digest()

  bool operator==(const Artifacts&) const = default;
};

// Those of a folder that decide an answer, in the order of the fingerprint's FILES.
inline constexpr std::array<std::string_view, 4> kTextFiles = {"generation_config.json", "tokenizer.json",
                                                               "tokenizer_config.json", "chat_template.jinja"};

// The text files of a folder, byte for byte as they were at one moment.
class TextFiles {
 public:
  explicit TextFiles(const std::string& folder);

  std::string digest() const;  // FILES of the fingerprint, see NUMERICS.md
  const std::map<std::string, std::optional<std::string>>& hashes() const { return hashes_; }

  bool operator==(const TextFiles&) const = default;

 private:
  std::map<std::string, std::optional<std::string>> hashes_;
  std::string digest_;
};

// Of what decides an answer to a request that does not say it, as the fingerprint has it (NUMERICS.md).
std::string settings_digest(std::string_view files_digest, std::string_view unicode,
                            const std::vector<std::int32_t>& stop_tokens, std::string_view date, std::int64_t context,
                            engine::SpecialTokens special_tokens);

// `manifest` is of the model that was made of the files (model::HashedSource, checkpoint::model_manifest).
Artifacts artifacts_of(const engine::ModelFiles& files, const TextFiles& text_files, const std::string& manifest,
                       const std::string& date, std::int64_t context,
                       engine::SpecialTokens special_tokens = engine::SpecialTokens::kAsTokens);

// "fma-1-0123456789abcdef-89abcdef-0.1.0": the contract, the model's weights, the settings that a request may leave
// open, the version. Equal fingerprints mean equal bits for equal requests, so that of a baseline or of a draft
// begins with "unpinned-".
std::string system_fingerprint(const Numerics& numerics, const Artifacts& artifacts, std::string_view version);

// What a receipt's artifacts are compared with.
struct LocalArtifacts {
  Artifacts artifacts;
  std::string files_digest;               // TextFiles::digest()
  std::vector<std::int32_t> stop_tokens;  // the model's
  std::int64_t longest = 0;               // context that the model can have
  bool any_date = false;                  // the receipt's own is taken
  bool any_context = false;               // likewise, up to the longest

  LocalArtifacts() = default;
  LocalArtifacts(const engine::ModelFiles& files, const TextFiles& text_files, Artifacts here);
};

// The first that differs, by name (model, tokenizer, template, date, settings) and with both values; empty: none. The
// settings' digest is that of the receipt's own version of Unicode, date, context and mode of special tokens.
std::string first_difference(const Artifacts& claimed, const LocalArtifacts& here);

inline constexpr std::string_view kPredicateType = "https://reprofuse.invalid/receipt/v1";

// A step is a row of logits and the token that was chosen by it: each token of an answer, then the stop token, if one
// ended it.
struct AnswerSteps {
  std::vector<std::int32_t> tokens;  // without the stop token
  engine::FinishReason finish_reason = engine::FinishReason::kLength;
  std::optional<std::int32_t> stop_token;
  std::vector<Sha256::Digest> roots;  // of each step's row of logits
  std::string digest;                 // of the kind tree-1

  void add(const engine::Update& update);
  std::size_t step_count() const { return tokens.size() + (stop_token ? 1 : 0); }
  std::int32_t step_token(std::size_t step) const { return step < tokens.size() ? tokens[step] : *stop_token; }
};

// Of the Merkle tree over steps: the hash of the step's number, its token and the root of its row.
Sha256::Digest step_leaf(std::size_t step, std::int32_t token, const Sha256::Digest& logits_root);
std::vector<Sha256::Digest> step_leaves(const AnswerSteps& answer);  // with roots

// The digest of the kind tree-1 that these rows have.
std::string tree_digest(std::span<const Sha256::Digest> roots);

// What opens the commitment to a prompt that the receipt does not show.
struct Opening {
  Sha256::Digest salt;
  std::vector<std::int32_t> prompt;

  static Opening of(std::vector<std::int32_t> prompt);  // with a new salt
  std::string commitment() const;                       // in hex
  std::string text() const;                             // JSON
};
Opening parse_opening(std::string_view text, const std::string& name);  // throws kInvalidArgument
template <typename Json>
Opening read_opening(const Json& json, const std::string& name);  // likewise; see envelope.hpp

struct Receipt {
  std::string version;   // of the software that made it
  std::string contract;  // see NUMERICS.md
  Artifacts artifacts;
  engine::Request request;  // with a prompt, unless there is a commitment; sampling.seed is the choice's own
  std::optional<std::string> prompt_commitment;  // in hex
  AnswerSteps answer;                            // roots: all or none
  std::string steps_root;                        // in hex
  std::string device, isa;                       // where it was computed, which decides nothing; isa: none but on a CPU
  std::optional<std::string> previous;           // the payload hash of the receipt before it in a log
  std::optional<std::string> nonce;              // the client's
  PublicKey issuer;
};

std::string statement_of(const Receipt& receipt);  // the payload: canonical JSON

// What a payload says. The second throws kInvalidArgument for what statement_of() does not write again byte for byte,
// and names the first difference; both are linear in the payload.
Receipt read_statement(std::string_view payload, const std::string& name, const JsonLimits& limits = {});
void require_canonical(const Receipt& receipt, std::string_view payload, const std::string& name,
                       const JsonLimits& limits = {});
Receipt parse_statement(std::string_view payload, const std::string& name);  // both

// What a receipt says twice, and not alike: in words. Empty: nothing does.
std::string contradiction_in(const Receipt& receipt);

}  // namespace reprofuse::receipt
