// Saved replies of a server, with receipts and without.
#include <nlohmann/json.hpp>

#include "engine/job.hpp"
#include "receipt/receipt_case.hpp"
#include "receipt/replay.hpp"
#include "support/messages.hpp"

namespace reprofuse::receipt {
namespace {

using Json = nlohmann::json;

// What a server replied, with return_token_ids and digest.
class ReplyTest : public ReceiptTest {
 protected:
  static Json reply(const engine::Request& request) {
    const AnswerSteps answer = answer_of(request);
    engine::AnswerText spelled(bundled_tokenizer(), {}, false, true);
    std::string text;
    for (const std::int32_t token : answer.tokens) text += spelled.push(token);
    const Json choice = {{"prompt_token_ids", request.prompt},
                         {"message", {{"content", text + spelled.flush()}}},
                         {"token_ids", answer.tokens},
                         {"finish_reason", engine::finish_reason_name(answer.finish_reason)},
                         {"stop_reason", nullptr},
                         {"digest", answer.digest}};
    return {{"system_fingerprint", "fma-1-" + artifacts_.model.substr(0, 16) + "-01234567-1.2.3"},
            {"choices", Json::array({choice})}};
  }
};

TEST_F(ReplyTest, IsReplayedByItsTokensAndDigest) {
  engine::Request golden = short_request(model::golden_answer().prompt);
  golden.max_tokens = 200;
  golden.stop_tokens = model::golden_answer().stop_tokens;
  engine::Request chained = golden;
  chained.digest = DigestKind::kChain1;
  const Report greedy = verify_unsigned(reply(golden).dump());
  EXPECT_TRUE(greedy.is_open()) << greedy.problem;
  EXPECT_TRUE(contains(greedy.not_proven.back(), "75 of 75 are the most likely")) << greedy.not_proven.back();
  EXPECT_TRUE(contains(greedy.proven.back(), "text: ")) << greedy.proven.back();
  EXPECT_TRUE(verify_unsigned(reply(chained).dump()).is_open());
  const Report sampled = verify_unsigned(reply(sampled_request()).dump());
  EXPECT_TRUE(sampled.is_open()) << sampled.problem;
  EXPECT_FALSE(contains(sampled.not_proven.back(), "24 of 24")) << sampled.not_proven.back();
}

TEST_F(ReplyTest, IsNoProofOfASignatureNorOfHowTokensWereChosen) {
  const std::string text = reply(sampled_request()).dump();
  EXPECT_EQ(verify_unsigned(text).verdict_text(), "equal, unsigned");
  EXPECT_EQ(verify_unsigned(text, Level::kSignature).verdict, Verdict::kSignature);
  EXPECT_EQ(verify_unsigned(text, Level::kTokens).verdict, Verdict::kNotTried);
  for (const Level level : {Level::kSignature, Level::kArtifacts, Level::kTokens, Level::kLogits})
    EXPECT_EQ(verify(text, level).verdict, Verdict::kSignature) << "a key is expected";
  EXPECT_EQ(verify(issue(sampled_request()).text()).verdict_text(), "equal");
}

// Every choice counts, and what stands beside a receipt is compared with it.
TEST_F(ReplyTest, EveryChoiceIsVerifiedByItsReceiptWhereItHasOne) {
  Json two = reply(sampled_request());
  const Issued issued = issuer().issue(sampled_request(), answer_of(sampled_request()), {.hide_prompt = true});
  two["choices"].push_back(two["choices"][0]);
  two["choices"][1]["receipt"] = Json::parse(issued.envelope.text());
  two["choices"][1]["receipt_opening"] = Json::parse(issued.opening->text());
  const auto verdicts = [&](const std::string& pointer, const Json& value) {
    Json altered = two;
    if (!pointer.empty()) altered[Json::json_pointer(pointer)] = value;
    std::string all;
    for (Evidence& evidence : examine_all(altered.dump(), "it", std::nullopt))
      all += verify(std::move(evidence), Level::kLogits, 0).verdict_text() + "; ";
    return all;
  };
  EXPECT_EQ(verdicts("", {}), "equal, unsigned; equal; ");
  EXPECT_EQ(verdicts("/choices/0/message/content", "a million"), "diverged; equal; ");
  EXPECT_EQ(verdicts("/choices/1/message/content", "a million"), "equal, unsigned; diverged; ");
  EXPECT_EQ(verdicts("/choices/1/token_ids/2", 1), "equal, unsigned; diverged; ");
  EXPECT_EQ(verdicts("/choices/1/prompt_token_ids/2", 1), "equal, unsigned; diverged; ");
  EXPECT_EQ(verdicts("/choices/1/finish_reason", "stop"), "equal, unsigned; diverged; ");
  EXPECT_EQ(verdicts("/choices/1/stop_reason", "never said"), "equal, unsigned; diverged; ");
  EXPECT_EQ(verdicts("/choices/1/receipt_opening/salt", "00"), "equal, unsigned; artifact; ");
  EXPECT_EQ(verdicts("/choices/0/token_ids/0", std::int64_t{1} << 32), "signature; equal; ");
  EXPECT_EQ(verdicts("/choices/0/token_ids/0", 1.5), "signature; equal; ");
  EXPECT_EQ(examine(two.dump(), "it", std::nullopt).report.verdict, Verdict::kNotTried);
}

TEST_F(ReplyTest, WhatIsNotTrueOfItIsCaught) {
  const Json honest = reply(sampled_request());
  const auto verdict = [&](const std::string& pointer, const Json& value) {
    Json altered = honest;
    altered[Json::json_pointer(pointer)] = value;
    return verify_unsigned(altered.dump()).verdict;
  };
  EXPECT_EQ(verdict("/choices/0/digest", "tree-1:" + std::string(64, '0')), Verdict::kDiverged);
  EXPECT_EQ(verdict("/choices/0/token_ids/3", 1), Verdict::kDiverged);
  EXPECT_EQ(verdict("/choices/0/prompt_token_ids/3", 1), Verdict::kDiverged);
  EXPECT_EQ(verdict("/choices/0/finish_reason", "stop"), Verdict::kDiverged) << "one row more";
  EXPECT_EQ(verdict("/system_fingerprint", "fma-1-0000000000000000-01234567-1.2.3"), Verdict::kArtifact);
  EXPECT_EQ(verdict("/system_fingerprint", "unpinned-bf16-0000000000000000-01234567-1.2.3"), Verdict::kContract);
  for (const char* wrong : {"", "-", "--", "fma-1", "a-b-c"})
    EXPECT_NE(verdict("/system_fingerprint", wrong), Verdict::kEqual) << wrong;
  EXPECT_EQ(verdict("/choices/0/digest", nullptr), Verdict::kSignature);
  EXPECT_EQ(verdict("/choices/0/digest", "tree-1:0\nvictim.json: equal"), Verdict::kSignature) << "it would be printed";
  EXPECT_EQ(verdict("/choices", Json::array()), Verdict::kSignature);
  EXPECT_EQ(verify_unsigned(R"({"choices":1})").verdict, Verdict::kSignature);
}

// An echo stands before the answer in the text of a completion, and nothing else may.
TEST_F(ReplyTest, NothingButThePromptStandsBeforeTheAnswer) {
  const Tokenizer tokenizer = bundled_tokenizer().value();
  const std::string prompt = "What is 12 + 30?";
  engine::Request request = short_request(tokenizer.encode(prompt, true));
  Json completion = reply(request);
  Json& choice = completion["choices"][0];
  const std::string answer = choice["message"]["content"];
  choice.erase("message");
  const auto verified = [&](const std::string& text) {
    choice["text"] = text;
    Evidence evidence = examine(completion.dump(), "it", std::nullopt);
    replay_all(*model_, bundled_tokenizer(), {&evidence}, Level::kLogits, 0);
    return std::pair(evidence.report.verdict, facts_of(evidence, tokenizer).answer);
  };
  const std::pair<Verdict, std::optional<std::string>> equal(Verdict::kEqual, answer), wrong(Verdict::kDiverged, {});
  EXPECT_EQ(verified(answer), equal);
  EXPECT_EQ(verified(prompt + answer), equal) << "as it was given";
  EXPECT_EQ(verified(tokenizer.decode(request.prompt, false) + answer), equal) << "as its ids spell it";
  EXPECT_EQ(verified("The answer is one million. Ignore: " + answer), wrong);
  EXPECT_EQ(verified("A million. " + prompt + answer), wrong);
  EXPECT_EQ(verified(prompt + " " + answer), wrong);
  choice["text"] = "The answer is one million. Ignore: " + answer;
  const Evidence not_compared = examine(completion.dump(), "it", std::nullopt);
  EXPECT_EQ(facts_of(not_compared, tokenizer).answer, answer) << "what the tokens spell";
}

TEST_F(ReplyTest, AStopReasonIsWhatEndsTheText) {
  engine::Request golden = short_request(model::golden_answer().prompt);
  golden.max_tokens = 200;
  golden.stop_strings = {"boxes"};
  Json stopped = reply(golden);
  Json& choice = stopped["choices"][0];
  const std::string text = choice["message"]["content"];
  ASSERT_TRUE(text.ends_with("boxes")) << text;
  const auto problem = [&](const char* reason, const Json& content) {
    choice["stop_reason"] = reason;
    choice["message"]["content"] = content;
    return verify_unsigned(stopped.dump()).problem;
  };
  EXPECT_EQ(problem("boxes", text), "") << "kept";
  EXPECT_EQ(problem("boxes", text.substr(0, text.size() - 5)), "");
  for (const char* wrong : {"never said", "Pens", ""})
    for (const Json& content : {Json(text), Json()})
      EXPECT_TRUE(contains(problem(wrong, content), "stop_reason is '")) << wrong;
}

// Nothing was replayed yet that would show it to be false.
TEST_F(ReplyTest, ATextEndsAtTheFirstStopString) {
  engine::Request golden = short_request(model::golden_answer().prompt);
  golden.max_tokens = 9;
  Receipt lie = parse_statement(issue(golden).payload, "it");
  lie.request.stop_strings = {"ns"};
  const Evidence evidence = examine(sign(statement_of(lie)).text(), "it", key_.public_key());
  ASSERT_TRUE(evidence.report.is_open()) << evidence.report.problem;
  EXPECT_EQ(facts_of(evidence, bundled_tokenizer()).answer, "Pe");
}

TEST_F(ReplyTest, ATextThatIsNoTextIsNotProven) {
  Json one = reply(sampled_request());
  for (const bool is_signed : {false, true}) {
    if (is_signed) one["choices"][0]["receipt"] = Json::parse(issue(sampled_request()).text());
    for (const Json& content : {Json(), Json::array({{{"type", "text"}, {"text", "a million"}}})}) {
      one["choices"][0]["message"]["content"] = content;
      const Report report = verify_unsigned(one.dump());
      EXPECT_TRUE(report.is_open()) << report.problem;
      EXPECT_TRUE(contains(fmt::format("{}", fmt::join(report.not_proven, "\n")), "text: ")) << content;
    }
  }
}

}  // namespace
}  // namespace reprofuse::receipt
