#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "server/openai/call.hpp"
#include "server/openai/error.hpp"
#include "server/openai/json.hpp"
#include "server/openai/reply.hpp"

namespace reprofuse::server {
namespace {

using receipt::Evidence;
using receipt::Level;
using receipt::Verdict;

std::vector<receipt::Opening> read_opening(Fields& fields) {
  const Json* opening = fields.find("opening");
  if (opening == nullptr) return {};
  return {reading("opening", [&] { return receipt::read_opening(*opening, "opening"); })};
}

// In PEM, or in Base64, as a receipt names it.
std::optional<receipt::PublicKey> read_public_key(Fields& fields) {
  const std::optional<std::string> text = fields.string("public_key");
  if (!text) return std::nullopt;
  return reading("public_key", [&] {
    const bool is_pem = text->find("-----BEGIN") != std::string::npos;
    return std::optional(is_pem ? receipt::PublicKey::from_pem(*text, "public_key")
                                : receipt::PublicKey::from_base64(*text));
  });
}

// What a receipt may hold here: several times what a context does, and what receipts of other models hold.
JsonLimits limits_of(const RequestBody& body, const ServedFacts& facts) {
  JsonLimits limits;
  limits.values = std::max(std::size_t{1} << 17, 4 * max_numbers(facts));
  limits.guard = body.guard;
  return limits;
}

void check_choices(const Json& given) {
  const auto choices = given.find("choices");
  if (choices != given.end() && choices->is_array() && choices->size() > kMaxVerifiedChoices)
    throw bad_request(fmt::format("a reply of {} choices; at most {} are verified in one request", choices->size(),
                                  kMaxVerifiedChoices));
}

// A receipt may ask for no more than a request may.
bool is_within_limits(const engine::Request& request, const ServedFacts& facts) {
  const auto is_too_long = [](const std::string& text) { return text.size() > kMaxStopBytes; };
  return request.stop_strings.size() <= kMaxStopStrings &&
         request.stop_tokens.size() <= kMaxStopTokens + facts.files->stop_tokens().size() &&
         std::none_of(request.stop_strings.begin(), request.stop_strings.end(), is_too_long);
}

// A receipt of a request that the engine refuses is not true: the engine cannot have answered it.
void check_request(const engine::Request& request, const engine::Engine& engine, receipt::Report& report) {
  try {
    engine.check(request);
  } catch (const Error& error) {
    report.refuse(Verdict::kDiverged, error.what());
  }
}

class VerifyReply final : public Reply {
 public:
  VerifyReply(const VerifyCall& call, const ServedFacts& facts)
      : choices_(call.choices), of_requests_(call.of_requests), facts_(facts) {
    const engine::TextFormat& text = facts_.files->text();
    if (text.has_tokenizer()) tokenizer_ = text.tokenizer();
  }

  void add(std::size_t prompt, engine::Update update) override {
    Verified& one = *of_requests_[prompt];
    if (one.is_replayed) return;  // it has diverged already
    if (update.end && update.end->finish_reason == engine::FinishReason::kError && !update.end->at_fault)
      throw failure_of(*update.end);  // of this server, which says nothing of the receipt
    const bool goes_on = one.replay->add(update);
    one.is_replayed = !goes_on || update.end.has_value();
    if (!one.is_replayed) return;
    one.replay->report_to(one.evidence.report);
    check_text(one.evidence, tokenizer_);
  }
  bool finished() const override {
    return std::all_of(of_requests_.begin(), of_requests_.end(), [](const auto& one) { return one->is_replayed; });
  }
  std::string body() const override;
  void add_chunks(std::size_t, engine::Update, std::string&) override {}  // it is never a stream
  void add_last_chunks(std::string&) const override {}

 private:
  std::vector<std::shared_ptr<Verified>> choices_, of_requests_;
  const ServedFacts& facts_;
  std::optional<Tokenizer> tokenizer_;
};

// Of one choice, or of the one that decides about all.
void write_verdict(JsonWriter& json, const receipt::Report& report) {
  json.field("object", "receipt.verification").field("verdict", report.verdict_text());
  json.field("status", static_cast<int>(report.verdict));
  json.field("problem", report.problem.empty() ? std::nullopt : std::optional(report.problem));
}

void write_findings(JsonWriter& json, const Evidence& evidence, const std::optional<Tokenizer>& tokenizer) {
  const receipt::Facts facts = facts_of(evidence, tokenizer);
  json.field("proven", evidence.report.proven).field("not_proven", evidence.report.not_proven);
  json.field("digest", facts.digest).field("text", facts.answer);
}

std::string VerifyReply::body() const {
  std::vector<const receipt::Report*> reports;
  for (const auto& choice : choices_) reports.push_back(&choice->evidence.report);
  return json_object([&](JsonWriter& json) {
    write_verdict(json, decisive(reports));
    if (choices_.size() == 1) {
      write_findings(json, choices_.front()->evidence, tokenizer_);
    } else {
      json.key("choices").array([&] {
        for (std::size_t i = 0; i < choices_.size(); ++i)
          json.object([&] {
            json.field("index", i);
            write_verdict(json, choices_[i]->evidence.report);
            write_findings(json, choices_[i]->evidence, tokenizer_);
          });
      });
    }
    json.field("system_fingerprint", facts_.fingerprint);
  });
}

// All that needs no replay.
void check_choice(Evidence& evidence, const ServedFacts& facts) {
  if (facts.issuer != nullptr) name_key(evidence, facts.issuer->public_key(), "it is this server's");
  check_nonce(evidence, std::nullopt);
  check_contract(evidence);
  const std::string& contract = evidence.receipt ? evidence.receipt->contract
                                : evidence.claim ? evidence.claim->contract
                                                 : facts.contract;
  if (evidence.report.is_open() && contract != facts.contract)
    evidence.report.refuse(Verdict::kContract,
                           fmt::format("contract: it is {}, and this server computes by {}", contract, facts.contract));
  check_needs(evidence, Level::kLogits);
  check_artifacts(evidence, facts.local_artifacts);
  if (evidence.receipt && evidence.report.is_open())
    evidence.report.not_proven.emplace_back("previous: the signer says so");
  note_level(evidence, Level::kLogits);
}

// None: there is nothing to replay.
std::optional<engine::Request> start_replay(Verified& one, const ServedFacts& facts, const engine::Engine& engine) {
  Evidence& evidence = one.evidence;
  if (!evidence.report.is_open()) return std::nullopt;
  one.replay.emplace(*evidence.claim, Level::kLogits);
  engine::Request request = one.replay->request();
  if (!is_within_limits(request, facts))
    evidence.report.refuse(Verdict::kNotTried, "its request has more stops than a request to this server may have");
  else
    check_request(request, engine, evidence.report);
  return evidence.report.is_open() ? std::optional(std::move(request)) : std::nullopt;
}

}  // namespace

VerifyCall parse_verify(const RequestBody& body, const ServedFacts& facts, const engine::Engine& engine,
                        const Caller& caller) {
  const JsonLimits limits = limits_of(body, facts);
  const OwnedJson root = parse_object(body, "the body", {}, limits.values);
  Fields fields(*root);
  const Json* given = fields.find("receipt");
  if (given == nullptr) fields.fail_missing("receipt");
  if (!given->is_object()) fields.fail_value("receipt", *given, "an object: a receipt, or a reply");
  check_choices(*given);
  const std::vector<receipt::Opening> openings = read_opening(fields);
  const std::optional<receipt::PublicKey> expected = read_public_key(fields);
  fields.refuse_the_rest();

  VerifyCall call;
  std::vector<Evidence> all = receipt::examine_document(*given, "receipt", expected, openings, limits);
  for (Evidence& evidence : all) {
    const auto one = std::make_shared<Verified>();
    one->evidence = std::move(evidence);
    check_choice(one->evidence, facts);
    call.choices.push_back(one);
    std::optional<engine::Request> request = start_replay(*one, facts, engine);
    if (!request) continue;
    request->client = caller.client;
    request->cache_salt = fmt::format("{} ", caller.cache_salt);
    call.requests.push_back(std::move(*request));
    call.of_requests.push_back(one);
  }
  return call;
}

std::unique_ptr<Reply> make_reply(const VerifyCall& call, const ServedFacts& facts) {
  return std::make_unique<VerifyReply>(call, facts);
}

}  // namespace reprofuse::server
