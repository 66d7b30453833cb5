#include "server/api/receipts.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "server/api/error.hpp"
#include "server/api/json_writer.hpp"
#include "text/tokenizer/detokenizer.hpp"

namespace reprofuse::server {
namespace {

using receipt::Evidence;
using receipt::Level;
using receipt::Verdict;

std::vector<receipt::Opening> read_opening(Fields& fields) {
  const Json* opening = fields.find("opening");
  if (opening == nullptr) return {};
  return {reading("opening", [&] { return receipt::parse_opening(opening->dump(), "opening"); })};
}

// In Base64, as a receipt names it.
std::optional<receipt::PublicKey> read_public_key(Fields& fields) {
  const std::optional<std::string> text = fields.string("public_key");
  if (!text) return std::nullopt;
  return reading("public_key", [&] { return std::optional(receipt::PublicKey::from_base64(*text)); });
}

// By the key that is expected, or else by this server's own, if that is the one that it names.
Evidence examine_receipt(const std::string& text, const std::optional<receipt::PublicKey>& expected,
                         const std::vector<receipt::Opening>& openings, const ServedFacts& facts) {
  Evidence evidence = receipt::examine(text, "receipt", expected, openings);
  if (expected) return evidence;
  const bool is_own =
      evidence.receipt && facts.issuer != nullptr && evidence.receipt->issuer == facts.issuer->public_key();
  return is_own ? receipt::examine(text, "receipt", facts.issuer->public_key(), openings) : evidence;
}

// A receipt may ask for no more than a request may.
bool is_within_limits(const engine::Request& request, const ServedFacts& facts) {
  const auto is_too_long = [](const std::string& text) { return text.size() > kMaxStopBytes; };
  return request.stop_strings.size() <= kMaxStopStrings &&
         request.stop_tokens.size() <= kMaxStopTokens + facts.files->stop_tokens().size() &&
         std::none_of(request.stop_strings.begin(), request.stop_strings.end(), is_too_long);
}

// What the engine cannot be asked cannot have been answered.
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
      : evidence_(call.evidence), replay_(call.replay), facts_(facts), is_finished_(!call.replay) {}

  void add(std::size_t prompt, engine::Update update) override {
    const bool goes_on = replay_->add(prompt, update);
    if (update.end && update.end->by_stop)
      throw ApiError(503, "service_unavailable_error", update.end->error, std::nullopt, "stopped");
    is_finished_ = is_finished_ || !goes_on || update.end.has_value();
    if (!is_finished_) return;
    replay_->report_to(evidence_->report);
    const engine::TextFormat& text = facts_.files->text();
    check_text(*evidence_, text.has_tokenizer() ? std::optional(text.tokenizer()) : std::nullopt);
  }
  bool finished() const override { return is_finished_; }
  std::string body() const override;
  void add_chunks(std::size_t, engine::Update, std::string&) override {}  // it is never a stream
  void add_last_chunks(std::string&) const override {}

 private:
  std::string answer_text() const;

  std::shared_ptr<Evidence> evidence_;
  std::shared_ptr<receipt::Replay> replay_;
  const ServedFacts& facts_;
  bool is_finished_;
};

std::string VerifyReply::answer_text() const {
  text::StreamDetokenizer detokenizer(facts_.files->text().tokenizer(), evidence_->claim->request.skip_special_tokens);
  std::string text;
  for (const std::int32_t id : evidence_->claim->answer.tokens) text += detokenizer.push(id);
  return text + detokenizer.flush();
}

std::string VerifyReply::body() const {
  const receipt::Report& report = evidence_->report;
  std::optional<std::string> digest, answer;
  if (evidence_->claim) digest = evidence_->claim->answer.digest;
  // Ids are known to be the model's own once they were replayed.
  if (replay_ && facts_.files->text().has_tokenizer()) answer = answer_text();
  return json_object([&](JsonWriter& json) {
    json.field("object", "receipt.verification").field("verdict", report.verdict_text());
    json.field("status", static_cast<int>(report.verdict));
    json.field("problem", report.problem.empty() ? std::nullopt : std::optional(report.problem));
    json.field("proven", report.proven).field("not_proven", report.not_proven);
    json.field("digest", digest).field("text", answer).field("system_fingerprint", facts_.fingerprint);
  });
}

}  // namespace

VerifyCall parse_verify(const RequestBody& body, const ServedFacts& facts, const engine::Engine& engine,
                        const Caller& caller) {
  const OwnedJson root = parse_object(body);
  Fields fields(*root);
  const Json* given = fields.find("receipt");
  if (given == nullptr) fields.fail_missing("receipt");
  if (!given->is_object()) fields.fail_value("receipt", *given, "an object: a receipt, or a reply");
  const std::vector<receipt::Opening> openings = read_opening(fields);
  const std::optional<receipt::PublicKey> expected = read_public_key(fields);
  fields.refuse_the_rest();

  VerifyCall call;
  const std::string text = given->dump(-1, ' ', false, Json::error_handler_t::replace);
  call.evidence = std::make_shared<Evidence>(examine_receipt(text, expected, openings, facts));
  Evidence& evidence = *call.evidence;
  check_contract(evidence);
  const std::string& contract = evidence.receipt ? evidence.receipt->contract
                                : evidence.claim ? evidence.claim->contract
                                                 : facts.contract;
  if (evidence.report.is_open() && contract != facts.contract)
    evidence.report.refuse(Verdict::kContract,
                           fmt::format("contract: it is {}, and this server computes by {}", contract, facts.contract));
  check_artifacts(evidence, facts.at_hand);
  if (evidence.receipt && evidence.report.is_open())
    evidence.report.not_proven.emplace_back("previous: the signer says so");
  note_level(evidence, Level::kLogits);
  if (!evidence.report.is_open()) return call;
  const auto replay = std::make_shared<receipt::Replay>(*evidence.claim, Level::kLogits);
  engine::Request request = replay->request(0);
  if (!is_within_limits(request, facts))
    evidence.report.refuse(Verdict::kNotTried, "its request has more stops than a request to this server may have");
  else
    check_request(request, engine, evidence.report);
  if (!evidence.report.is_open()) return call;
  request.client = caller.client;
  request.cache_salt = fmt::format("{} ", caller.cache_salt);
  call.requests.push_back(std::move(request));
  call.replay = replay;
  return call;
}

std::unique_ptr<Reply> make_reply(const VerifyCall& call, const ServedFacts& facts) {
  return std::make_unique<VerifyReply>(call, facts);
}

}  // namespace reprofuse::server
