// What can be said of a file before anything is computed.
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "base/json.hpp"
#include "engine/answer_text.hpp"
#include "ops/contract.hpp"
#include "receipt/replay.hpp"

namespace reprofuse::receipt {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kNoReply = "is neither a receipt nor a reply with return_token_ids and digest";

// CONTRACT-MODEL-SETTINGS-VERSION, see NUMERICS.md.
void read_fingerprint(const std::string& fingerprint, Evidence& evidence) {
  const std::size_t version = fingerprint.rfind('-');
  const std::size_t settings = version == 0 ? std::string::npos : fingerprint.rfind('-', version - 1);
  require(version != std::string::npos && settings != std::string::npos && settings > 0, "its system_fingerprint is {}",
          shown(fingerprint));
  const std::size_t model = fingerprint.rfind('-', settings - 1);
  require(model != std::string::npos, "its system_fingerprint is {}", shown(fingerprint));
  evidence.claim->contract = fingerprint.substr(0, model);
  evidence.model_prefix = fingerprint.substr(model + 1, settings - model - 1);
}

// A choice's prompt stands beside it or, in a chat, outside.
const Json* find_prompt(const Json& reply, const Json& choice) {
  for (const Json* holder : {&choice, &reply})
    if (const auto found = holder->find("prompt_token_ids"); found != holder->end()) return &*found;
  return nullptr;
}

std::optional<std::string> text_in(const Json& choice) {
  const Json::json_pointer content("/message/content");
  const Json text = choice.contains(content) ? choice.at(content) : choice.value("text", Json());
  return text.is_string() ? std::optional(text.get<std::string>()) : std::nullopt;
}

// Of either kind: it is shown, so it must not hold anything else.
std::string logits_digest_in(const Json& value) {
  require(value.is_string(), "it has no digest");
  std::string digest = value;
  const std::string_view hex = digest;
  require(digest_from_hex(hex.starts_with("tree-1:") ? hex.substr(7) : hex).has_value(), "its digest is {}",
          shown(value));
  return digest;
}

// A choice without a receipt.
void read_choice(const Json& reply, const Json& choice, Evidence& evidence) {
  Claim& claim = evidence.claim.emplace();
  claim.sampling_known = false;
  read_fingerprint(reply.at("system_fingerprint"), evidence);
  const Json* prompt = find_prompt(reply, choice);
  require(prompt != nullptr, "it has no prompt_token_ids");
  claim.request.prompt = tokens_in(*prompt);
  claim.answer.tokens = tokens_in(choice.at("token_ids"));
  claim.answer.digest = logits_digest_in(choice.at("digest"));
  claim.text = text_in(choice);
  claim.may_echo = choice.contains("text");
  if (choice.at("stop_reason").is_string()) claim.stop_string = choice["stop_reason"].get<std::string>();
  // A stop token adds its row; a stop string, and the longest length, do not.
  const bool by_token = choice.at("finish_reason") == "stop" && !claim.stop_string;
  if (by_token) claim.answer.stop_token = -1;
  claim.answer.finish_reason = by_token ? engine::FinishReason::kStop : engine::FinishReason::kLength;
  require(claim.answer.steps() > 0, "it has no token");
}

Evidence examine_choice(const Json& reply, const Json& choice, const std::string& name, bool must_be_signed) {
  Evidence evidence;
  evidence.report.is_signed = false;
  if (must_be_signed) {
    evidence.report.refuse(Verdict::kSignature, "signature: a reply has none, and a key is expected");
    return evidence;
  }
  evidence.report.not_proven.emplace_back("signature: a reply has none, and anybody could have written it");
  evidence.report.not_proven.emplace_back("usage, and what else stands in the reply: it was not compared");
  try {
    read_choice(reply, choice, evidence);
  } catch (const Json::exception& error) {
    evidence.report.refuse(Verdict::kSignature, fmt::format("{}: {}: {}", name, kNoReply, error.what()));
  } catch (const Error& error) {
    evidence.report.refuse(Verdict::kSignature, fmt::format("{}: {}: {}", name, kNoReply, error.what()));
  }
  if (!evidence.report.is_open()) evidence.claim.reset();
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

Evidence refused(Verdict verdict, std::string problem) {
  Evidence evidence;
  evidence.report.refuse(verdict, std::move(problem));
  return evidence;
}

Evidence examine_receipt(std::string_view text, const std::string& name, const std::optional<PublicKey>& expected,
                         const std::vector<Opening>& openings) {
  Evidence evidence;
  evidence.envelope = parse_envelope(text, name);
  evidence.receipt = parse_statement(evidence.envelope->payload, name);
  evidence.claim = claim_of(*evidence.receipt);
  check_signature(evidence, expected);
  if (!evidence.report.is_open()) return evidence;
  if (const std::string contradiction = contradiction_in(*evidence.receipt); !contradiction.empty()) {
    evidence.report.refuse(Verdict::kDiverged, "it contradicts itself: " + contradiction);
    return evidence;
  }
  if (!evidence.receipt->answer.roots.empty())
    evidence.report.proven.emplace_back("steps: their roots have the steps' root and the answer's digest");
  evidence.report.not_proven.emplace_back("engine, environment and nonce: the signer says so");
  add_prompt(evidence, openings);
  return evidence;
}

// What stands beside a receipt in a reply is what the receipt says.
void compare_choice(const Json& reply, const Json& choice, Evidence& evidence) {
  Report& report = evidence.report;
  const Receipt& receipt = *evidence.receipt;
  const Json* prompt = find_prompt(reply, choice);
  const auto differs = [&](const char* field, const Json& said) {
    return choice.contains(field) && choice[field] != said;
  };
  const char* other = differs("token_ids", receipt.answer.tokens)                                  ? "token_ids"
                      : differs("digest", receipt.answer.digest)                                   ? "digest"
                      : differs("finish_reason", finish_reason_name(receipt.answer.finish_reason)) ? "finish_reason"
                      : prompt != nullptr && evidence.claim && *prompt != Json(evidence.claim->request.prompt)
                          ? "prompt_token_ids"
                          : nullptr;
  if (other != nullptr)
    return report.refuse(Verdict::kDiverged, fmt::format("the reply's {} is not its receipt's", other));
  report.not_proven.emplace_back("usage, and what else stands in the reply: it was not compared");
  if (!evidence.claim) return;
  evidence.claim->text = text_in(choice);
  evidence.claim->may_echo = choice.contains("text");
}

Evidence examine_receipt_of(const Json& reply, const Json& choice, const std::string& name,
                            const std::optional<PublicKey>& expected, std::vector<Opening> openings) {
  if (const auto opening = choice.find("receipt_opening"); opening != choice.end())
    openings.push_back(parse_opening(opening->dump(), name));
  Evidence evidence = examine_receipt(choice["receipt"].dump(), name, expected, openings);
  if (evidence.report.is_open()) compare_choice(reply, choice, evidence);
  return evidence;
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

std::vector<Evidence> examine_all(std::string_view text, const std::string& name,
                                  const std::optional<PublicKey>& expected, const std::vector<Opening>& openings) {
  std::vector<Evidence> all;
  try {
    const Json json = parse_json(text, name);
    if (!json.is_object() || !json.contains("choices")) {
      all.push_back(examine_receipt(text, name, expected, openings));
      return all;
    }
    const Json& choices = json["choices"];
    require(choices.is_array() && !choices.empty(), "{}: {}: it has no choices", name, kNoReply);
    for (std::size_t i = 0; i < choices.size(); ++i) {
      require(choices[i].is_object(), "{}: {}: choice {} is {}", name, kNoReply, i, shown(choices[i]));
      const bool has_receipt = choices[i].contains("receipt");
      all.push_back(has_receipt ? examine_receipt_of(json, choices[i], name, expected, openings)
                                : examine_choice(json, choices[i], name, expected.has_value()));
      if (choices.size() > 1) all.back().part = fmt::format("choice {}", i);
    }
  } catch (const Json::exception& error) {
    all.assign(1, refused(Verdict::kSignature, error.what()));
  } catch (const Error& error) {
    all.assign(1, refused(Verdict::kSignature, error.what()));
  }
  return all;
}

Evidence examine(std::string_view text, const std::string& name, const std::optional<PublicKey>& expected,
                 const std::vector<Opening>& openings) {
  std::vector<Evidence> all = examine_all(text, name, expected, openings);
  if (all.size() == 1) return std::move(all.front());
  return refused(Verdict::kNotTried, fmt::format("{}: has {} choices; give them one by one", name, all.size()));
}

void check_contract(Evidence& evidence) {
  if (!evidence.report.is_open()) return;
  const std::string& contract = evidence.receipt ? evidence.receipt->contract : evidence.claim->contract;
  for (const Contract& known : contracts())
    if (known.name == contract) return;
  evidence.report.refuse(Verdict::kContract, fmt::format("contract: {} is none that this software has; there are {}",
                                                         shown(contract), contract_names()));
}

void check_artifacts(Evidence& evidence, const AtHand& here) {
  Report& report = evidence.report;
  if (!report.is_open()) return;
  if (!evidence.receipt) {
    const std::string& prefix = evidence.model_prefix;
    if (!here.artifacts.model.starts_with(prefix) || prefix.empty())
      return report.refuse(Verdict::kArtifact,
                           fmt::format("model: its digest begins with {} in the reply and is {} here", shown(prefix),
                                       here.artifacts.model));
    report.proven.push_back(fmt::format("model: the first {} digits of its digest", prefix.size()));
    report.not_proven.emplace_back("tokenizer, template and settings: a reply has but a few digits of them");
    return;
  }
  const Artifacts& claimed = evidence.receipt->artifacts;
  if (const std::string difference = first_difference(claimed, here); !difference.empty())
    return report.refuse(Verdict::kArtifact, difference);
  report.proven.emplace_back("artifacts: model, tokenizer, template and settings are those at hand");
  if (here.any_date && here.any_context)
    report.not_proven.push_back(
        fmt::format("date {} and context {}: the signer says so", claimed.date, claimed.context));
  else if (here.any_context)
    report.not_proven.push_back(fmt::format("context {}: the signer says so", claimed.context));
  if (claimed.unicode != here.artifacts.unicode)
    report.not_proven.push_back(
        fmt::format("that a text gives these prompt tokens: the receipt goes by Unicode {}, and this build by {}",
                    shown(claimed.unicode), here.artifacts.unicode));
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
  if (level == Level::kArtifacts && evidence.claim && evidence.claim->text)
    report.not_proven.emplace_back("text: it was not compared with its tokens");
}

void check_text(Evidence& evidence, const std::optional<Tokenizer>& tokenizer) {
  Report& report = evidence.report;
  if (!report.is_open() || !evidence.claim || !evidence.claim->text) return;
  const Claim& claim = *evidence.claim;
  if (!tokenizer) return report.not_proven.emplace_back("text: there is no tokenizer"), void();
  // A reply does not say whether special tokens and the stop string are part of its text.
  std::vector<std::string> stops = claim.request.stop_strings;
  if (claim.stop_string) stops.push_back(*claim.stop_string);
  bool is_echo = false;
  for (const bool keep : {false, true})
    for (const bool skip : {false, true}) {
      const engine::Request& request = claim.request;
      if (claim.sampling_known && (keep != request.keep_stop_string || skip != request.skip_special_tokens)) continue;
      engine::AnswerText spelled(tokenizer, stops, keep, skip);
      std::string text;
      for (const std::int32_t token : claim.answer.tokens) text += spelled.push(token);
      text += spelled.flush();
      if (text == *claim.text) return report.proven.emplace_back("text: it is what the tokens spell"), void();
      is_echo = is_echo || (claim.may_echo && claim.text->ends_with(text));
    }
  if (!is_echo) return report.refuse(Verdict::kDiverged, "the reply's text is not what its tokens spell");
  report.not_proven.emplace_back("text: it ends as the tokens spell, and what stands before was not compared");
}

}  // namespace reprofuse::receipt
