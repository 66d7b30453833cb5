// What is said of a receipt: the checks that compute nothing, and their words.
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>

#include "base/check.hpp"
#include "base/json.hpp"
#include "engine/job.hpp"
#include "ops/contract.hpp"
#include "receipt/replay.hpp"

namespace reprofuse::receipt {
namespace {

struct Spelling {
  std::string text;
  std::optional<std::string> stopped_by;
  bool goes_on = false;  // there are tokens after the stop string
};

// An id may stand for nothing, since models pad their vocabularies.
Spelling spell(const std::vector<std::int32_t>& tokens, const Tokenizer& tokenizer, bool skip_special_tokens,
               const std::vector<std::string>& stop_strings = {}, bool keep_stop_string = false) {
  engine::AnswerText answer(tokenizer, stop_strings, keep_stop_string, skip_special_tokens);
  Spelling spelling;
  for (const std::int32_t token : tokens) {
    spelling.goes_on = answer.stopped_by().has_value();
    if (spelling.goes_on) break;
    spelling.text += answer.push(token);
  }
  spelling.text += answer.flush();
  spelling.stopped_by = answer.stopped_by();
  return spelling;
}

// What the tokens spell, if they end where the claim says: a reply does not say whether special tokens and the stop
// string are part of its text.
std::vector<std::string> spellings(const Claim& claim, const Tokenizer& tokenizer) {
  const engine::Request& request = claim.request;
  std::vector<std::string> stops = request.stop_strings;
  if (!claim.sampling_known && claim.stop_string) stops.push_back(*claim.stop_string);
  std::vector<std::string> all;
  for (const bool keep : {false, true})
    for (const bool skip : {false, true}) {
      if (claim.sampling_known && (keep != request.keep_stop_string || skip != request.skip_special_tokens)) continue;
      Spelling one = spell(claim.answer.tokens, tokenizer, skip, stops, keep);
      const bool ends_rightly = !claim.stop_string || (one.stopped_by == claim.stop_string && !one.goes_on);
      if (ends_rightly) all.push_back(std::move(one.text));
    }
  return all;
}

// Whether an echo of the prompt can be this text: its ids stand for it, or it is encoded as them.
bool is_prompt(std::string_view text, const std::vector<std::int32_t>& prompt, const Tokenizer& tokenizer) {
  for (const bool skip : {false, true})
    if (spell(prompt, tokenizer, skip).text == text) return true;
  const TextSpan whole{.begin = 0, .end = text.size()};
  const std::span<const TextSpan> plain(&whole, 1);
  for (const std::span<const TextSpan> plain_parts : {std::span<const TextSpan>(), plain})
    for (const bool adds_special : {false, true}) try {
        const EncodeOptions options{
            .add_special_tokens = adds_special, .max_tokens = prompt.size(), .poll = {}, .plain = plain_parts};
        if (tokenizer.encode_within(text, options) == prompt) return true;
      } catch (const Error&) {
        continue;  // it cannot be encoded so
      }
  return false;
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
  for (const Numerics& known : contracts())
    if (known.name == contract && known.pinned()) return;
  evidence.report.refuse(Verdict::kContract, fmt::format("contract: {} is none that this software has; there are {}",
                                                         shown(contract), contract_names()));
}

void check_artifacts(Evidence& evidence, const LocalArtifacts& here) {
  Report& report = evidence.report;
  if (!report.is_open()) return;
  evidence.artifacts_compared = true;
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
  if (!evidence.claim && !evidence.opening_problem.empty())
    return report.refuse(Verdict::kArtifact, "opening: " + evidence.opening_problem);
  if (!evidence.claim)
    return report.lack("opening",
                       "prompt: the receipt has but a commitment to it; what opens it is needed to replay it");
  const AnswerSteps& answer = evidence.claim->answer;
  if (spots > 0 && spots < answer.step_count() && (answer.roots.empty() || evidence.claim->steps_root.empty()))
    report.lack("roots", "roots: single steps can be checked of a receipt that carries the root of each");
}

void note_level(Evidence& evidence, Level level) {
  Report& report = evidence.report;
  if (level < Level::kLogits) report.extent = fmt::format("holds as far as {}", kLevelNames[static_cast<int>(level)]);
  if (!evidence.artifacts_compared) report.not_proven.emplace_back("artifacts: they were not compared");
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
  const Claim& claim = *evidence.claim;
  const engine::Request& request = claim.request;
  facts.prompt = spell(request.prompt, *tokenizer, false).text;
  // By the request's own words; of a reply, which does not say them, as its text was found to be spelled.
  facts.answer = claim.spelled ? *claim.spelled
                               : spell(claim.answer.tokens, *tokenizer, request.skip_special_tokens,
                                       request.stop_strings, request.keep_stop_string)
                                     .text;
  return facts;
}

void check_text(Evidence& evidence, const std::optional<Tokenizer>& tokenizer) {
  Report& report = evidence.report;
  if (!report.is_open() || !evidence.claim || (!evidence.claim->text && !evidence.claim->stop_string)) return;
  Claim& claim = *evidence.claim;
  if (!tokenizer) return report.not_proven.emplace_back("text: there is no tokenizer"), void();
  const std::vector<std::string> all = spellings(claim, *tokenizer);
  if (all.empty())
    return report.refuse(Verdict::kDiverged, fmt::format("the reply's stop_reason is {}, which does not end what its "
                                                         "tokens spell",
                                                         shown(*claim.stop_string)));
  if (!claim.text) return;
  for (const std::string& text : all)
    if (text == *claim.text) {
      claim.spelled = text;
      return report.proven.emplace_back("text: it is what the tokens spell"), void();
    }
  for (const std::string& text : all) {
    if (!claim.may_echo || !claim.text->ends_with(text)) continue;
    const auto before = std::string_view(*claim.text).substr(0, claim.text->size() - text.size());
    if (!is_prompt(before, claim.request.prompt, *tokenizer)) continue;
    claim.spelled = text;
    return report.proven.emplace_back("text: it is that of the prompt, and then what the tokens spell"), void();
  }
  report.refuse(Verdict::kDiverged, "the reply's text is not what its tokens spell");
}

}  // namespace reprofuse::receipt
