// What is said of a receipt: the checks that compute nothing, and their words.
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

// By the request's own words. A reply without a receipt does not say them: its text is what it says.
std::string spell(const Claim& claim, const Tokenizer& tokenizer) {
  if (!claim.sampling_known && claim.text) return *claim.text;
  const engine::Request& request = claim.request;
  engine::AnswerText spelled(tokenizer, request.stop_strings, request.keep_stop_string, request.skip_special_tokens);
  std::string text;
  for (const std::int32_t token : claim.answer.tokens) text += spelled.push(token);
  return text + spelled.flush();
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

const Report& decisive(const std::vector<const Report*>& all) {
  for (const Verdict verdict :
       {Verdict::kSignature, Verdict::kContract, Verdict::kArtifact, Verdict::kDiverged, Verdict::kNotTried})
    for (const Report* one : all)
      if (one->verdict == verdict) return *one;
  for (const Report* one : all)
    if (!one->is_signed) return *one;
  return *all.front();
}

std::string Report::verdict_text() const {
  if (!missing.empty()) return "missing: " + missing;
  const std::string_view name = is_open() && !extent.empty() ? extent : verdict_name(verdict);
  return fmt::format("{}{}", name, is_open() && !is_signed ? ", unsigned" : "");
}

void Report::refuse(Verdict why, std::string what) {
  verdict = why;
  problem = std::move(what);
}

void Report::lack(std::string artifact, std::string what) {
  refuse(Verdict::kArtifact, std::move(what));
  missing = std::move(artifact);
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
  else if (here.any_date)
    report.not_proven.push_back(fmt::format("date {}: the signer says so", claimed.date));
  if (claimed.unicode != here.artifacts.unicode)
    report.not_proven.push_back(
        fmt::format("that a text gives these prompt tokens: the receipt goes by Unicode {}, and this build by {}",
                    shown(claimed.unicode), here.artifacts.unicode));
}

void check_nonce(Evidence& evidence, const std::optional<std::string>& expected) {
  Report& report = evidence.report;
  if (!report.is_open()) return;
  const std::optional<std::string> nonce = evidence.receipt ? evidence.receipt->nonce : std::nullopt;
  if (expected && nonce != expected)
    report.refuse(Verdict::kArtifact, fmt::format("nonce: it is {} in the receipt, and the one expected is {}",
                                                  nonce ? shown(*nonce) : "none", shown(*expected)));
  else if (expected)
    report.proven.emplace_back("nonce: it is the one expected");
  else if (nonce)
    report.not_proven.emplace_back("nonce: none was given to compare with");
}

void check_needs(Evidence& evidence, Level level, std::size_t spots) {
  Report& report = evidence.report;
  if (report.is_open() && !report.is_signed && level == Level::kSignature)
    report.refuse(Verdict::kSignature, "signature: a reply has none");
  if (report.is_open() && !report.is_signed && level == Level::kTokens)
    report.refuse(Verdict::kNotTried, "tokens: a reply does not say how they were chosen; its logits can be compared");
  if (!report.is_open() || level < Level::kTokens) return;
  if (!evidence.claim)
    return report.lack("opening",
                       "prompt: the receipt has but a commitment to it; what opens it is needed to replay it");
  const Answer& answer = evidence.claim->answer;
  if (spots > 0 && spots < answer.steps() && (answer.roots.empty() || evidence.claim->steps_root.empty()))
    report.lack("roots", "roots: single steps can be checked of a receipt that carries the root of each");
}

void note_level(Evidence& evidence, Level level) {
  Report& report = evidence.report;
  if (level < Level::kLogits) report.extent = fmt::format("holds as far as {}", kLevelNames[static_cast<int>(level)]);
  if (level < Level::kArtifacts || !report.missing.empty())
    report.not_proven.emplace_back("artifacts: they were not compared");
  if (level < Level::kTokens || !report.is_open())
    report.not_proven.emplace_back("tokens and logits: nothing was computed");
  if (level == Level::kArtifacts && evidence.claim && evidence.claim->text)
    report.not_proven.emplace_back("text: it was not compared with its tokens");
}

Facts facts_of(const Evidence& evidence, const std::optional<Tokenizer>& tokenizer) {
  Facts facts;
  const bool is_reply = !evidence.receipt && evidence.claim;
  if (!evidence.signature_holds && !is_reply) return facts;
  facts.contract = is_reply ? evidence.claim->contract : evidence.receipt->contract;
  facts.model = is_reply ? evidence.model_prefix : evidence.receipt->artifacts.model;
  if (evidence.receipt) facts.nonce = evidence.receipt->nonce;
  if (!evidence.report.is_open()) return facts;
  facts.digest = evidence.receipt ? evidence.receipt->answer.digest : evidence.claim->answer.digest;
  if (!tokenizer || !evidence.claim) return facts;
  facts.prompt = tokenizer->decode(evidence.claim->request.prompt, false);
  facts.answer = spell(*evidence.claim, *tokenizer);
  return facts;
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
