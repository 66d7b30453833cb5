// What can be said of a file before anything is computed.
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "base/json.hpp"
#include "ops/contract.hpp"
#include "receipt/replay.hpp"

namespace reprofuse::receipt {
namespace {

using Json = nlohmann::json;

// A reply, as far as it can be replayed: choice 0, whose prompt stands beside it or, in a chat, outside.
struct Reply {
  std::string contract;
  std::string model_prefix;
  Claim claim;
};

// CONTRACT-MODEL-SETTINGS-VERSION, see NUMERICS.md.
void read_fingerprint(const std::string& fingerprint, Reply& reply) {
  const std::size_t version = fingerprint.rfind('-');
  const std::size_t settings = version == 0 ? std::string::npos : fingerprint.rfind('-', version - 1);
  require(version != std::string::npos && settings != std::string::npos && settings > 0, "its system_fingerprint is {}",
          shown(fingerprint));
  const std::size_t model = fingerprint.rfind('-', settings - 1);
  require(model != std::string::npos, "its system_fingerprint is {}", shown(fingerprint));
  reply.claim.contract = fingerprint.substr(0, model);
  reply.model_prefix = fingerprint.substr(model + 1, settings - model - 1);
}

Reply read_reply(const Json& json) {
  Reply reply;
  read_fingerprint(json.at("system_fingerprint"), reply);
  const Json& choice = json.at("choices").at(0);
  Claim& claim = reply.claim;
  claim.sampling_known = false;
  const Json& prompt = choice.contains("prompt_token_ids") ? choice["prompt_token_ids"] : json.at("prompt_token_ids");
  prompt.get_to(claim.request.prompt);
  choice.at("token_ids").get_to(claim.answer.tokens);
  require(choice.at("digest").is_string(), "it has no digest");
  choice["digest"].get_to(claim.answer.digest);
  // A stop token adds its row; a stop string, and the longest length, do not.
  const bool by_token = choice.at("finish_reason") == "stop" && !choice.at("stop_reason").is_string();
  if (by_token) claim.answer.stop_token = -1;
  claim.answer.finish_reason = by_token ? engine::FinishReason::kStop : engine::FinishReason::kLength;
  require(claim.answer.steps() > 0, "it has no token");
  return reply;
}

Evidence examine_reply(const Json& json, const std::string& name, bool must_be_signed) {
  Evidence evidence;
  evidence.report.is_signed = false;
  if (must_be_signed) {
    evidence.report.refuse(Verdict::kSignature, "signature: a reply has none, and a key is expected");
    return evidence;
  }
  evidence.report.not_proven.emplace_back("signature: a reply has none, and anybody could have written it");
  try {
    Reply reply = read_reply(json);
    evidence.model_prefix = reply.model_prefix;
    evidence.claim = std::move(reply.claim);
  } catch (const std::exception& error) {
    evidence.report.refuse(
        Verdict::kSignature,
        fmt::format("{}: is neither a receipt nor a reply with return_token_ids and digest: {}", name, error.what()));
  }
  return evidence;
}

Claim claim_of(const Receipt& receipt) {
  return {.contract = receipt.contract,
          .request = receipt.request,
          .answer = receipt.answer,
          .steps_root = receipt.steps_root};
}

void check_signature(Evidence& evidence, const std::optional<PublicKey>& expected) {
  const Receipt& receipt = *evidence.receipt;
  const PublicKey& key = receipt.issuer;
  Report& report = evidence.report;
  if (!build_has_signatures())
    return report.refuse(Verdict::kSignature, "signature: this build has no OpenSSL to check it with");
  if (expected && *expected != key)
    return report.refuse(Verdict::kSignature, fmt::format("signature: it is by the key {}, and the one expected is {}",
                                                          key.id(), expected->id()));
  if (evidence.envelope->key_id != key.id() ||
      !key.verifies(pre_authentication(evidence.envelope->payload), evidence.envelope->signature))
    return report.refuse(Verdict::kSignature, fmt::format("signature: it is not that of the key {}", key.id()));
  report.proven.push_back(fmt::format("signature: by the key {}", key.id()));
  if (!expected) report.not_proven.emplace_back("whose key that is: none was given to compare with");
}

void add_prompt(Evidence& evidence, const std::vector<Opening>& openings) {
  if (!evidence.receipt->prompt_commitment) return;
  const auto opens = [&](const Opening& one) { return one.commitment() == *evidence.receipt->prompt_commitment; };
  const auto found = std::find_if(openings.begin(), openings.end(), opens);
  if (found == openings.end()) {
    evidence.claim.reset();
    return;
  }
  evidence.claim->request.prompt = found->prompt;
  evidence.report.proven.emplace_back("prompt: it is the one that the receipt commits to");
}

}  // namespace

Level level_of(std::string_view name) {
  const auto found = std::find(std::begin(kLevelNames), std::end(kLevelNames), name);
  require(found != std::end(kLevelNames), "'{}' is no level", name);
  return static_cast<Level>(found - std::begin(kLevelNames));
}

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kEqual: return "equal";
    case Verdict::kDiverged: return "diverged";
    case Verdict::kNotTried: return "not tried";
    case Verdict::kSignature: return "signature";
    case Verdict::kArtifact: return "artifact";
    case Verdict::kContract: break;
  }
  return "contract";
}

std::string Report::verdict_text() const {
  return fmt::format("{}{}", verdict_name(verdict), is_open() && !is_signed ? ", unsigned" : "");
}

void Report::refuse(Verdict why, std::string what) {
  verdict = why;
  problem = std::move(what);
}

Evidence examine(std::string_view text, const std::string& name, const std::optional<PublicKey>& expected,
                 const std::vector<Opening>& openings) {
  Evidence evidence;
  try {
    const Json json = parse_json(text, name);
    if (json.is_object() && json.contains("choices")) return examine_reply(json, name, expected.has_value());
    evidence.envelope = parse_envelope(text, name);
    evidence.receipt = parse_statement(evidence.envelope->payload, name);
  } catch (const std::exception& error) {
    evidence.report.refuse(Verdict::kSignature, error.what());
    return evidence;
  }
  evidence.claim = claim_of(*evidence.receipt);
  check_signature(evidence, expected);
  if (!evidence.report.is_open()) return evidence;
  if (const std::string contradiction = contradiction_in(*evidence.receipt); !contradiction.empty()) {
    evidence.report.refuse(Verdict::kDiverged, "it contradicts itself: " + contradiction);
    return evidence;
  }
  if (!evidence.receipt->answer.roots.empty())
    evidence.report.proven.emplace_back("steps: their roots have the steps' root and the answer's digest");
  evidence.report.not_proven.emplace_back("engine, environment, nonce and previous: the signer says so");
  add_prompt(evidence, openings);
  return evidence;
}

void check_contract(Evidence& evidence) {
  if (!evidence.report.is_open()) return;
  const std::string& contract = evidence.receipt ? evidence.receipt->contract : evidence.claim->contract;
  for (const Contract& known : contracts())
    if (known.name == contract) return;
  evidence.report.refuse(Verdict::kContract, fmt::format("contract: {} is none that this software has; there are {}",
                                                         shown(contract), contract_names()));
}

void check_artifacts(Evidence& evidence, const Artifacts& here) {
  if (!evidence.report.is_open()) return;
  const std::string difference = evidence.receipt ? first_difference(evidence.receipt->artifacts, here)
                                 : here.model.starts_with(evidence.model_prefix) && !evidence.model_prefix.empty()
                                     ? ""
                                     : fmt::format("model: its digest begins with {} in the reply and is {} here",
                                                   evidence.model_prefix, here.model);
  if (!difference.empty()) return evidence.report.refuse(Verdict::kArtifact, difference);
  if (evidence.receipt) {
    evidence.report.proven.emplace_back("artifacts: model, tokenizer, template and settings are those at hand");
  } else {
    evidence.report.proven.push_back(
        fmt::format("model: the first {} digits of its digest", evidence.model_prefix.size()));
    evidence.report.not_proven.emplace_back("tokenizer, template and settings: a reply has but a few digits of them");
  }
}

void note_level(Evidence& evidence, Level level) {
  Report& report = evidence.report;
  if (report.is_open() && !report.is_signed && level == Level::kSignature)
    report.refuse(Verdict::kSignature, "signature: a reply has none");
  if (report.is_open() && !report.is_signed && level == Level::kTokens)
    report.refuse(Verdict::kNotTried, "tokens: a reply does not say how they were chosen; its logits can be compared");
  const bool hides_prompt = !evidence.claim && report.is_open();
  if (level >= Level::kTokens && hides_prompt)
    report.refuse(Verdict::kArtifact, "prompt: the receipt has but a commitment to it; give its opening");
  if (level < Level::kArtifacts) report.not_proven.emplace_back("artifacts: they were not compared");
  if (level < Level::kTokens || !report.is_open())
    report.not_proven.emplace_back("tokens and logits: nothing was computed");
}

}  // namespace reprofuse::receipt
