// What a receipt says: an in-toto Statement (v1) about one answer. docs/receipts.md describes every field.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "engine/request.hpp"
#include "receipt/artifacts.hpp"
#include "receipt/envelope.hpp"
#include "receipt/keys.hpp"

namespace reprofuse::receipt {

inline constexpr std::string_view kPredicateType = "https://reprofuse.invalid/receipt/v1";

// A step is a row of logits and the token that was chosen by it: each token of an answer, then the stop token, if one
// ended it.
struct Answer {
  std::vector<std::int32_t> tokens;  // without the stop token
  engine::FinishReason finish_reason = engine::FinishReason::kLength;
  std::optional<std::int32_t> stop_token;
  std::vector<Sha256::Digest> roots;  // of each step's row of logits
  std::string digest;                 // of the kind tree-1

  void add(const engine::Update& update);
  std::size_t steps() const { return tokens.size() + (stop_token ? 1 : 0); }
  std::int32_t step_token(std::size_t step) const { return step < tokens.size() ? tokens[step] : *stop_token; }
};

// Of the Merkle tree over steps: the hash of the step's number, its token and the root of its row.
Sha256::Digest step_leaf(std::size_t step, std::int32_t token, const Sha256::Digest& logits_root);
std::vector<Sha256::Digest> step_leaves(const Answer& answer);  // with roots

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
  Answer answer;                                 // roots: all or none
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
