// What can be said of a file before anything is computed.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "base/json.hpp"
#include "receipt/replay.hpp"

namespace reprofuse::receipt {
namespace {

constexpr std::string_view kWhoseKey = "whose key that is: none was given to compare with";
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
template <typename Json>
const Json* find_prompt(const Json& reply, const Json& choice) {
  for (const Json* holder : {&choice, &reply})
    if (const auto found = holder->find("prompt_token_ids"); found != holder->end()) return &*found;
  return nullptr;
}

// The string of this name, if there is one.
template <typename Json>
const std::string* string_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : found->template get_ptr<const std::string*>();
}

// What the reply shows: to be compared with what the tokens spell.
template <typename Json>
void read_text(const Json& choice, Evidence& evidence) {
  Claim& claim = *evidence.claim;
  const auto message = choice.find("message");
  const bool is_chat = message != choice.end() && message->contains("content");
  const std::string* text = is_chat ? string_in(*message, "content") : string_in(choice, "text");
  if (text != nullptr)
    claim.text = *text;
  else
    evidence.report.not_proven.emplace_back("text: the reply has none to compare with its tokens");
  claim.may_echo = choice.contains("text");
  if (const std::string* stop = string_in(choice, "stop_reason")) claim.stop_string = *stop;
}

// Of either kind: it is shown, so it must not hold anything else.
template <typename Json>
std::string logits_digest_in(const Json& value) {
  require(value.is_string(), "it has no digest");
  std::string digest = value.template get<std::string>();
  const std::string_view hex = digest;
  require(digest_from_hex(hex.starts_with("tree-1:") ? hex.substr(7) : hex).has_value(), "its digest is {}",
          shown(value));
  return digest;
}

// A choice without a receipt.
template <typename Json>
void read_choice(const Json& reply, const Json& choice, Evidence& evidence) {
  Claim& claim = evidence.claim.emplace();
  claim.sampling_known = false;
  read_fingerprint(reply.at("system_fingerprint").template get_ref<const std::string&>(), evidence);
  const Json* prompt = find_prompt(reply, choice);
  require(prompt != nullptr, "it has no prompt_token_ids");
  claim.request.prompt = tokens_in(*prompt);
  claim.answer.tokens = tokens_in(choice.at("token_ids"));
  claim.answer.digest = logits_digest_in(choice.at("digest"));
  choice.at("stop_reason");  // without it nobody knows how many rows there are
  read_text(choice, evidence);
  // A stop token adds its row; a stop string, and the longest length, do not.
  const bool by_token = choice.at("finish_reason") == "stop" && !claim.stop_string;
  if (by_token) claim.answer.stop_token = -1;
  claim.answer.finish_reason = by_token ? engine::FinishReason::kStop : engine::FinishReason::kLength;
  require(claim.answer.step_count() > 0, "it has no token");
}

template <typename Json>
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
  } catch (const nlohmann::detail::exception& error) {
    evidence.report.refuse(Verdict::kSignature, fmt::format("{}: {}: {}", name, kNoReply, json_problem(error)));
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
  evidence.signature_holds = true;
  report.proven.push_back(fmt::format("signature: by the key {}", key.id()));
  if (!expected) report.not_proven.emplace_back(kWhoseKey);
}

void add_prompt(Evidence& evidence, const std::vector<Opening>& openings) {
  if (!evidence.receipt->prompt_commitment) return;
  const auto opens = [&](const Opening& one) { return one.commitment() == *evidence.receipt->prompt_commitment; };
  const auto found = std::find_if(openings.begin(), openings.end(), opens);
  if (found == openings.end()) {
    evidence.claim.reset();
    if (!openings.empty()) evidence.opening_problem = "none that was given is of this receipt's prompt";
    return;
  }
  evidence.claim->request.prompt = found->prompt;
  evidence.report.proven.emplace_back("prompt: it is the one that the receipt commits to");
  Receipt opened = *evidence.receipt;
  opened.request.prompt = found->prompt;
  if (const std::string contradiction = contradiction_in(opened); !contradiction.empty())
    evidence.report.refuse(Verdict::kDiverged, "it contradicts itself: " + contradiction);
}

Evidence refused(const std::string& name, Verdict verdict, std::string problem) {
  Evidence evidence;
  evidence.name = name;
  evidence.report.refuse(verdict, std::move(problem));
  return evidence;
}

template <typename Json>
Evidence examine_receipt(const Json& json, const std::string& name, const std::optional<PublicKey>& expected,
                         const std::vector<Opening>& openings, const JsonLimits& limits) {
  Evidence evidence;
  evidence.envelope = read_envelope(json, name);
  const std::string& payload = evidence.envelope->payload;
  if (limits.guard != nullptr)
    limits.guard->claim_memory(3 * payload.size());  // itself, as it was signed, and as it is written again
  evidence.receipt = read_statement(payload, name, limits);
  evidence.claim = claim_of(*evidence.receipt);
  check_signature(evidence, expected);
  if (!evidence.report.is_open()) return evidence;
  require_canonical(*evidence.receipt, payload, name, limits);
  if (const std::string contradiction = contradiction_in(*evidence.receipt); !contradiction.empty()) {
    evidence.report.refuse(Verdict::kDiverged, "it contradicts itself: " + contradiction);
    return evidence;
  }
  if (!evidence.receipt->answer.roots.empty())
    evidence.report.proven.emplace_back("steps: their roots have the steps' root and the answer's digest");
  evidence.report.not_proven.emplace_back("engine and environment: the signer says so");
  add_prompt(evidence, openings);
  return evidence;
}

// Without a copy of either.
template <typename Json>
bool equals(const Json& list, const std::vector<std::int32_t>& tokens) {
  return list.is_array() && std::equal(list.begin(), list.end(), tokens.begin(), tokens.end());
}
template <typename Json>
bool equals(const Json& text, std::string_view expected) {
  return text == expected;
}

// What stands beside a receipt in a reply is what the receipt says.
template <typename Json>
void compare_choice(const Json& reply, const Json& choice, Evidence& evidence) {
  Report& report = evidence.report;
  const Receipt& receipt = *evidence.receipt;
  const Json* prompt = find_prompt(reply, choice);
  const auto differs = [&](const char* field, const auto& said) {
    return choice.contains(field) && !equals(choice[field], said);
  };
  const char* other = differs("token_ids", receipt.answer.tokens)                                  ? "token_ids"
                      : differs("digest", receipt.answer.digest)                                   ? "digest"
                      : differs("finish_reason", finish_reason_name(receipt.answer.finish_reason)) ? "finish_reason"
                      : prompt != nullptr && evidence.claim && !equals(*prompt, evidence.claim->request.prompt)
                          ? "prompt_token_ids"
                          : nullptr;
  if (other != nullptr)
    return report.refuse(Verdict::kDiverged, fmt::format("the reply's {} is not its receipt's", other));
  report.not_proven.emplace_back("usage, and what else stands in the reply: it was not compared");
  if (evidence.claim) read_text(choice, evidence);
}

template <typename Json>
Evidence examine_receipt_of(const Json& reply, const Json& choice, const std::string& name,
                            const std::optional<PublicKey>& expected, std::vector<Opening> openings,
                            const JsonLimits& limits) {
  std::string problem;
  if (const auto opening = choice.find("receipt_opening"); opening != choice.end()) try {
      openings.push_back(read_opening(*opening, name));
    } catch (const Error& error) {
      problem = error.what();
    }
  Evidence evidence = examine_receipt(choice["receipt"], name, expected, openings, limits);
  if (!problem.empty()) evidence.opening_problem = problem;
  if (evidence.report.is_open()) compare_choice(reply, choice, evidence);
  return evidence;
}

}  // namespace

void name_key(Evidence& evidence, const PublicKey& known, const std::string& whose) {
  if (!evidence.signature_holds || evidence.receipt->issuer != known) return;
  if (std::erase(evidence.report.not_proven, kWhoseKey) > 0)
    evidence.report.proven.push_back("whose key that is: " + whose);
}

template <typename Json>
std::vector<Evidence> examine_document(const Json& json, const std::string& name,
                                       const std::optional<PublicKey>& expected, const std::vector<Opening>& openings,
                                       const JsonLimits& limits) {
  std::vector<Evidence> all;
  try {
    if (!json.is_object() || !json.contains("choices")) {
      all.push_back(examine_receipt(json, name, expected, openings, limits));
      all.back().name = name;
      return all;
    }
    const Json& choices = json["choices"];
    require(choices.is_array() && !choices.empty(), "{}: {}: it has no choices", name, kNoReply);
    require(choices.size() <= kMaxReplyChoices, "{}: {}: it has {} choices, and no reply has more than {}", name,
            kNoReply, choices.size(), kMaxReplyChoices);
    for (std::size_t i = 0; i < choices.size(); ++i) {
      if (limits.guard != nullptr) limits.guard->claim_memory(0);
      require(choices[i].is_object(), "{}: {}: choice {} is {}", name, kNoReply, i, shown(choices[i]));
      const bool has_receipt = choices[i].contains("receipt");
      all.push_back(has_receipt ? examine_receipt_of(json, choices[i], name, expected, openings, limits)
                                : examine_choice(json, choices[i], name, expected.has_value()));
      all.back().name = choices.size() == 1 ? name : fmt::format("{}, choice {}", name, i);
    }
  } catch (const Error& error) {
    all.clear();
    all.push_back(refused(name, Verdict::kSignature, error.what()));
  }
  return all;
}
template std::vector<Evidence> examine_document(const nlohmann::json&, const std::string&,
                                                const std::optional<PublicKey>&, const std::vector<Opening>&,
                                                const JsonLimits&);
template std::vector<Evidence> examine_document(const nlohmann::ordered_json&, const std::string&,
                                                const std::optional<PublicKey>&, const std::vector<Opening>&,
                                                const JsonLimits&);

std::vector<Evidence> examine_all(std::string_view text, const std::string& name,
                                  const std::optional<PublicKey>& expected, const std::vector<Opening>& openings) {
  try {
    require(!text.starts_with("data:"),
            "{}: is a stream of events: save the reply without `stream`, or the data of the event that has the receipt",
            name);
    const BasicOwnedJson<nlohmann::json> json = parse_json(text, name);
    return examine_document(*json, name, expected, openings, {});
  } catch (const nlohmann::json::exception& error) {
    return {refused(name, Verdict::kSignature, fmt::format("{}: is no JSON: {}", name, json_problem(error)))};
  } catch (const Error& error) {
    return {refused(name, Verdict::kSignature, error.what())};
  }
}

Evidence examine(std::string_view text, const std::string& name, const std::optional<PublicKey>& expected,
                 const std::vector<Opening>& openings) {
  std::vector<Evidence> all = examine_all(text, name, expected, openings);
  if (all.size() == 1) return std::move(all.front());
  return refused(name, Verdict::kNotTried, fmt::format("{}: has {} choices; give them one by one", name, all.size()));
}

}  // namespace reprofuse::receipt
