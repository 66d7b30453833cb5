// What receipts say, and the log that they form.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "receipt/log.hpp"
#include "receipt/receipt_case.hpp"
#include "support/messages.hpp"

namespace reprofuse::receipt {
namespace {

class IssuerTest : public ReceiptTest {
 protected:
  std::shared_ptr<Log> open_log(const TemporaryFolder& folder) const {
    return std::make_shared<Log>(folder.path(), key_.public_key());
  }
};
using Json = nlohmann::json;

TEST_F(IssuerTest, AReceiptSaysWhatWasAskedAnsweredAndComputed) {
  const engine::Request request = sampled_request();
  const AnswerSteps answer = answer_of(request);
  const Envelope envelope = issue(request, {.hide_prompt = false, .roots = true, .nonce = "n\u00e9"});
  const Receipt receipt = parse_statement(envelope.payload, "it");
  EXPECT_EQ(receipt.version, "1.2.3");
  EXPECT_EQ(receipt.contract, "fma-1");
  EXPECT_EQ(receipt.artifacts, artifacts_);
  EXPECT_EQ(receipt.request.prompt, request.prompt);
  EXPECT_EQ(receipt.request.sampling.temperature, request.sampling.temperature);
  EXPECT_EQ(receipt.request.sampling.seed, request.sampling.seed);
  EXPECT_EQ(receipt.request.max_tokens, 24);
  EXPECT_EQ(receipt.answer.tokens, answer.tokens);
  EXPECT_EQ(receipt.answer.digest, answer.digest);
  EXPECT_EQ(receipt.answer.roots, answer.roots);
  EXPECT_EQ(receipt.answer.roots.size(), 24U);
  EXPECT_EQ(receipt.nonce, "n\u00e9");
  EXPECT_EQ(receipt.device, "cpu");
  EXPECT_EQ(receipt.isa, isa_name(model_->context().isa()));
  EXPECT_EQ(contradiction_in(receipt), "");
  EXPECT_EQ(tree_digest(answer.roots), answer.digest);
  const Json fields = Json::parse(envelope.payload).flatten();
  for (const auto& [pointer, value] : fields.items()) EXPECT_FALSE(value.is_number_float()) << pointer;
  const Receipt without = parse_statement(issue(request).payload, "it");
  EXPECT_TRUE(without.answer.roots.empty());
  EXPECT_EQ(without.steps_root, receipt.steps_root);
}

TEST_F(IssuerTest, ALogGoesOnByItsOwnKeyAlone) {
  const engine::Request request = sampled_request();
  const TemporaryFolder folder;
  const IssuerFacts facts = issuer_facts(model_->context(), artifacts_, "1.2.3");
  Issuer(key_, facts, open_log(folder)).issue(request, answer_of(request), {});
  EXPECT_EQ(open_log(folder)->last_number(), 1U);
  EXPECT_EQ(open_log(folder)->missing(), 0U);
  const SigningKey other = SigningKey::make(folder_.file("other"));
  const std::string by_other = error_of([&] { Log(folder.path(), other.public_key()); });
  EXPECT_TRUE(contains(by_other, "it is by the key " + key_.public_key().id())) << by_other;
  const std::string last = folder.file("000000000001.receipt.json");
  const std::string honest = read_whole_file(last);
  nlohmann::json forged = nlohmann::json::parse(honest);
  forged["signatures"][0]["sig"] = std::string(86, 'A') + "==";
  write_file(last, forged.dump());
  EXPECT_TRUE(contains(error_of([&] { open_log(folder); }), "it is not that of the key"));
  std::filesystem::remove(last);
  write_file(folder.file("000000000003.receipt.json"), honest);
  EXPECT_EQ(open_log(folder)->missing(), 2U);
}

TEST_F(IssuerTest, EachReceiptOfALogNamesTheOneBefore) {
  const engine::Request request = sampled_request();
  const AnswerSteps answer = answer_of(request);
  const TemporaryFolder log;
  const IssuerFacts facts = issuer_facts(model_->context(), artifacts_, "1.2.3");
  std::optional<std::string> previous;
  for (int restart = 0; restart < 2; ++restart) {
    Issuer issuer(key_, facts, open_log(log));
    for (int i = 0; i < 2; ++i) {
      const Envelope envelope = issuer.issue(request, answer, {}).envelope;
      EXPECT_EQ(parse_statement(envelope.payload, "it").previous, previous);
      previous = envelope.payload_hash();
    }
  }
  for (int number = 1; number <= 4; ++number) {
    const std::string file = log.file("00000000000" + std::to_string(number) + ".receipt.json");
    EXPECT_TRUE(verify(read_whole_file(file)).is_open()) << file;
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(log.path()), {}), 4);
  EXPECT_TRUE(contains(error_of([&] { Log(log.file("nothing"), key_.public_key()); }), "no folder"));
  write_file(log.file("000000000009.receipt.json"), "{}");
  EXPECT_TRUE(contains(error_of([&] { open_log(log); }), "no")) << "the log ends in what is none";
}

TEST_F(IssuerTest, AFolderHasOneIssuerAndNoReceiptIsReplacedOrReadByOthers) {
  const engine::Request request = sampled_request();
  const AnswerSteps answer = answer_of(request);
  const TemporaryFolder log;
  const IssuerFacts facts = issuer_facts(model_->context(), artifacts_, "1.2.3");
  write_file(log.file("000000000001.receipt.json.7.part"), "half of one");
  Issuer issuer(key_, facts, open_log(log));
  EXPECT_FALSE(std::filesystem::exists(log.file("000000000001.receipt.json.7.part")));
  EXPECT_TRUE(contains(error_of([&] { open_log(log); }), "another server"));
  issuer.issue(request, answer, {});
  const auto status = std::filesystem::status(log.file("000000000001.receipt.json"));
  EXPECT_EQ(status.permissions(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  write_file(log.file("000000000002.receipt.json"), "of somebody else");
  EXPECT_TRUE(contains(error_of([&] { issuer.issue(request, answer, {}); }), "exists"));
  EXPECT_EQ(read_whole_file(log.file("000000000002.receipt.json")), "of somebody else");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(log.path()), {}), 2) << "nothing is left behind";
}

TEST_F(IssuerTest, AHiddenPromptIsACommitmentThatItsOpeningOpens) {
  const engine::Request request = sampled_request();
  const ReceiptOptions hidden{.hide_prompt = true};
  const Issued issued = issuer().issue(request, answer_of(request), hidden);
  const Json predicate = Json::parse(issued.envelope.payload)["predicate"];
  EXPECT_EQ(predicate["prompt"], (Json{{"commitment", issued.opening->commitment()}}));
  EXPECT_EQ(issued.opening->prompt, request.prompt);
  const Opening again = parse_opening(issued.opening->text(), "it");
  EXPECT_EQ(again.commitment(), issued.opening->commitment());
  EXPECT_TRUE(verify(issued.envelope.text(), Level::kLogits, 0, {again}).is_open());
  const Issued second = issuer().issue(request, answer_of(request), hidden);
  EXPECT_NE(second.opening->commitment(), issued.opening->commitment()) << "the same prompt, another salt";
  for (const std::vector<Opening>& wrong : {std::vector<Opening>{}, {*second.opening}}) {
    const Report report = verify(issued.envelope.text(), Level::kLogits, 0, wrong);
    EXPECT_EQ(report.verdict, Verdict::kArtifact);
    EXPECT_TRUE(contains(report.problem, wrong.empty() ? "prompt: " : "opening: none that was given "))
        << report.problem;
    EXPECT_EQ(report.verdict_text(), wrong.empty() ? "missing: opening" : "artifact");
    EXPECT_EQ(report.proven.size(), 1U) << "the signature";
    EXPECT_TRUE(verify(issued.envelope.text(), Level::kArtifacts, 0, wrong).is_open()) << "it takes no prompt";
  }
}

TEST_F(IssuerTest, WhatPinsNoBitsOrHasNoStepHasNoReceipt) {
  EXPECT_TRUE(contains(error_of([&] { issuer().issue(sampled_request(), {}, {}); }), "without a token"));
}

}  // namespace
}  // namespace reprofuse::receipt
