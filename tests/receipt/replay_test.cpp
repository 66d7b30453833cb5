// Every change of a receipt is caught, and called by its name.
#include "receipt/replay.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/merkle.hpp"
#include "receipt/receipt_case.hpp"
#include "support/messages.hpp"

namespace reprofuse::receipt {
namespace {

using ReplayTest = ReceiptTest;
using Json = nlohmann::json;

constexpr Wishes kWithRoots{.roots = true};

engine::Request short_request(std::vector<std::int32_t> prompt) {
  engine::Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = 2;
  request.digest = DigestKind::kTree1;
  return request;
}

TEST_F(ReplayTest, TrueReceiptsAreEqualAtEveryLevel) {
  engine::Request golden = short_request(model::golden_answer().prompt);
  golden.max_tokens = 200;
  golden.stop_tokens = model::golden_answer().stop_tokens;
  for (const engine::Request& request : {golden, sampled_request()})
    for (const Wishes& wishes : {Wishes(), kWithRoots}) {
      const std::string text = issue(request, wishes).text();
      std::size_t proven = 0;
      for (const Level level : {Level::kSignature, Level::kArtifacts, Level::kTokens, Level::kLogits}) {
        const Report report = verify(text, level);
        EXPECT_TRUE(report.is_open()) << report.problem;
        EXPECT_GE(report.proven.size(), proven);
        proven = report.proven.size();
      }
      EXPECT_EQ(verify(text, Level::kLogits, 5).is_open(), wishes.roots);
    }
}

// No bit of the text is free, neither of the envelope nor of what is in it.
TEST_F(ReplayTest, EveryBitOfTheEnvelopeAndOfThePayloadIsUnderTheSignature) {
  const Envelope envelope = issue(short_request({5, 6, 7}));
  const auto verdict = [&](const std::string& text) { return examine(text, "it", key_.public_key()).report.verdict; };
  ASSERT_EQ(verdict(envelope.text() + "\n"), Verdict::kEqual);
  std::size_t passed = 0;
  std::string text = envelope.text();
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ 1 << bit % 8);
    if (verdict(text) != Verdict::kSignature) ++passed;
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ 1 << bit % 8);
  }
  Envelope altered = envelope;
  for (std::size_t bit = 0; bit < 8 * envelope.payload.size(); ++bit) {
    altered.payload[bit / 8] = static_cast<char>(altered.payload[bit / 8] ^ 1 << bit % 8);
    if (verdict(altered.text()) != Verdict::kSignature) ++passed;
    altered.payload[bit / 8] = static_cast<char>(altered.payload[bit / 8] ^ 1 << bit % 8);
  }
  EXPECT_EQ(passed, 0U);
}

TEST_F(ReplayTest, AnotherKeyIsAnotherSignature) {
  const std::string text = issue(short_request({5, 6, 7})).text();
  const PublicKey other = SigningKey::make(folder_.file("other")).public_key();
  EXPECT_EQ(examine(text, "it", other).report.verdict, Verdict::kSignature);
  const Report unknown = examine(text, "it", std::nullopt).report;
  EXPECT_TRUE(unknown.is_open());
  EXPECT_TRUE(contains(unknown.not_proven.front(), "whose key"));
}

Json another_value(const std::string& pointer, const Json& value) {
  // Settings that decide this answer, each so that it decides otherwise.
  const std::map<std::string, Json> decisive = {{"/request/temperature", "00000000"},
                                                {"/request/top_p", "00000000"},
                                                {"/request/min_p", "3f800000"},
                                                {"/request/top_k", 1},
                                                {"/request/repetition_penalty", "3f800000"},
                                                {"/request/max_tokens", "23"},
                                                {"/answer/finish_reason", "stop"}};
  for (const auto& [ending, other] : decisive)
    if (pointer.ends_with(ending)) return other;
  if (pointer.ends_with("/roots")) return Json::array({std::string(64, '0')});
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<int>() ^ 1;
  if (value.is_null()) return "something";
  auto text = value.get<std::string>();
  if (text.empty() || pointer.ends_with("/unicode")) return text + "1";
  text.back() = text.back() == '0' ? '1' : '0';
  return text;
}

Verdict verdict_for(const std::string& pointer) {
  const std::pair<std::string, Verdict> expected[] = {
      {"/predicate/engine/version", Verdict::kEqual},    {"/predicate/environment", Verdict::kEqual},
      {"/predicate/previous", Verdict::kEqual},          {"/predicate/nonce", Verdict::kEqual},
      {"/predicate/request/keep_stop", Verdict::kEqual}, {"/predicate/request/skip_special", Verdict::kEqual},
      {"/predicate/contract", Verdict::kContract},       {"/predicate/artifacts", Verdict::kArtifact},
      {"/predicate/prompt", Verdict::kDiverged},         {"/predicate/request", Verdict::kDiverged},
      {"/predicate/answer/digest", Verdict::kDiverged},  {"/predicate/answer/finish", Verdict::kDiverged},
      {"/predicate/steps/root", Verdict::kDiverged},     {"", Verdict::kSignature}};  // what is no receipt any more
  for (const auto& [beginning, verdict] : expected)
    if (pointer.starts_with(beginning)) return verdict;
  return Verdict::kEqual;
}

// An issuer who lies in one field, and signs it. What only the signer knows, and what decides the text alone, cannot be
// checked; all else is caught, by the right name.
TEST_F(ReplayTest, EveryFieldThatIsFalseIsCaughtThoughItIsSigned) {
  for (const Wishes& wishes : {Wishes(), kWithRoots}) {
    const Json statement = Json::parse(issue(sampled_request(), wishes).payload);
    ASSERT_TRUE(verify(sign(canonical_json(statement)).text()).is_open());
    std::size_t fields = 0;
    const Json flat = statement.flatten();
    for (const auto& [pointer, value] : flat.items()) {
      if (value.is_null() && statement.at(Json::json_pointer(pointer)).is_array()) continue;  // an empty list
      Json altered = statement;
      altered[Json::json_pointer(pointer)] = another_value(pointer, value);
      const Report report = verify(sign(canonical_json(altered)).text());
      EXPECT_EQ(verdict_name(report.verdict), verdict_name(verdict_for(pointer)))
          << pointer << " " << altered[Json::json_pointer(pointer)] << ": " << report.problem;
      ++fields;
    }
    EXPECT_GT(fields, 80U);
    for (const auto& [key, more] : {std::pair("stop_tokens", statement["predicate"]["answer"]["tokens"][3]),
                                    std::pair("stop_tokens", Json(-1)), std::pair("stop_strings", Json("e"))}) {
      Json altered = statement;
      altered["predicate"]["request"][key].push_back(more);
      const Verdict expected = more == -1 ? Verdict::kEqual : Verdict::kDiverged;  // no token has that id
      EXPECT_EQ(verify(sign(canonical_json(altered)).text()).verdict, expected) << key << " " << more;
    }
  }
}

// A replay that computes nothing has no step to hash.
TEST_F(ReplayTest, AnAnswerOfNoLengthIsNoReceiptAndDivergesInAReplay) {
  for (const Wishes& wishes : {Wishes(), kWithRoots}) {
    Receipt none = parse_statement(issue(sampled_request(), wishes).payload, "it");
    none.request.max_tokens = 0;
    const Report report = verify(sign(statement_of(none)).text());
    EXPECT_EQ(report.verdict, Verdict::kSignature);
    EXPECT_TRUE(contains(report.problem, "max_tokens")) << report.problem;
    Evidence evidence;
    evidence.claim =
        Claim{.contract = none.contract, .request = none.request, .answer = none.answer, .steps_root = none.steps_root};
    replay_all(*model_, embedded_tokenizer(), {&evidence}, Level::kLogits, 0);
    EXPECT_EQ(evidence.report.verdict, Verdict::kDiverged);
    EXPECT_TRUE(contains(evidence.report.problem, "24 steps, and the replay ends after 0")) << evidence.report.problem;
  }
  EXPECT_EQ(to_hex(merkle_root({})), to_hex(sha256(""))) << "RFC 6962, 2.1";
}

// Lies that do not contradict themselves.
TEST_F(ReplayTest, ALieThatIsConsistentDivergesAtItsStep) {
  const Receipt honest = parse_statement(issue(sampled_request(), kWithRoots).payload, "it");
  const auto signed_again = [&](Receipt receipt) {
    receipt.steps_root = to_hex(merkle_root(step_leaves(receipt.answer)));
    receipt.answer.digest = tree_digest(receipt.answer.roots);
    return sign(statement_of(receipt)).text();
  };
  ASSERT_TRUE(verify(signed_again(honest)).is_open());
  Receipt other_logits = honest;
  other_logits.answer.roots[9][31] ^= 1;
  const Report logits = verify(signed_again(other_logits));
  EXPECT_EQ(logits.verdict, Verdict::kDiverged);
  EXPECT_TRUE(contains(logits.problem, "step 9: the logits are others")) << logits.problem;
  EXPECT_TRUE(verify(signed_again(other_logits), Level::kTokens).is_open()) << "tokens alone are right";
  Receipt other_token = honest;
  other_token.answer.tokens[9] ^= 1;
  const Report token = verify(signed_again(other_token));
  EXPECT_EQ(token.verdict, Verdict::kDiverged);
  EXPECT_TRUE(contains(token.problem, "step 9: the token is ")) << token.problem;
  EXPECT_TRUE(contains(token.problem, "from the same logits")) << token.problem;
  Receipt shorter = honest;
  shorter.answer.tokens.pop_back();
  shorter.answer.roots.pop_back();
  EXPECT_EQ(verify(signed_again(shorter)).verdict, Verdict::kDiverged);

  EXPECT_EQ(verify(signed_again(other_logits), Level::kLogits, 24).verdict, Verdict::kDiverged) << "every step";
  EXPECT_TRUE(verify(signed_again(honest), Level::kLogits, 24).is_open());
  EXPECT_TRUE(contains(verify(issue(sampled_request()).text(), Level::kLogits, 3).problem, "roots: "));
}

TEST_F(ReplayTest, SpotsAreDifferentStepsInOrder) {
  for (const std::size_t count : {1U, 7U, 24U, 100U}) {
    const std::vector<std::size_t> spots = draw_spots(24, count);
    EXPECT_EQ(spots.size(), std::min<std::size_t>(24, count));
    EXPECT_TRUE(std::is_sorted(spots.begin(), spots.end()));
    EXPECT_LT(spots.back(), 24U);
  }
  EXPECT_NE(draw_spots(1'000'000, 20), draw_spots(1'000'000, 20));
}

TEST_F(ReplayTest, ManyGoThroughTheEngineTogetherAndOnlyTheFalseOneDiverges) {
  std::vector<Evidence> all;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    engine::Request request = sampled_request();
    request.sampling.seed = seed;
    Receipt receipt = parse_statement(issue(request).payload, "it");
    if (seed == 13) receipt.request.sampling.seed = 14;
    all.push_back(examine(sign(statement_of(receipt)).text(), "it", key_.public_key()));
  }
  std::vector<Evidence*> pointers;
  for (Evidence& evidence : all) pointers.push_back(&evidence);
  replay_all(*model_, embedded_tokenizer(), pointers, Level::kLogits, 0);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].report.is_open(), i != 13) << i;
}

TEST_F(ReplayTest, ArtifactsAreCalledByTheirNames) {
  const auto problem_of = [&](const auto& alter) {
    Artifacts here = artifacts_;
    alter(here);
    return first_difference(artifacts_, here);
  };
  EXPECT_EQ(problem_of([](Artifacts&) {}), "");
  const std::pair<std::string, std::string> files[] = {{"tokenizer.json", "tokenizer: "},
                                                       {"tokenizer_config.json", "tokenizer: "},
                                                       {"chat_template.jinja", "template: "},
                                                       {"generation_config.json", "settings: "}};
  for (const auto& [file, name] : files) {
    const std::string changed = problem_of([&](Artifacts& here) { here.files[file] = "0"; });
    EXPECT_TRUE(changed.starts_with(name) && contains(changed, file)) << changed;
    EXPECT_TRUE(problem_of([&](Artifacts& here) { here.files[file].reset(); }).starts_with(name)) << "it is missing";
  }
  EXPECT_TRUE(problem_of([](Artifacts& here) { here.model[0] ^= 1; }).starts_with("model: "));
  EXPECT_TRUE(problem_of([](Artifacts& here) { here.manifest_root[0] ^= 1; }).starts_with("model: "));
  EXPECT_TRUE(problem_of([](Artifacts& here) { here.chat_template.reset(); }).starts_with("template: "));
  EXPECT_TRUE(problem_of([](Artifacts& here) { here.unicode += "1"; }).starts_with("tokenizer: "));
  EXPECT_TRUE(problem_of([](Artifacts& here) { here.date = "2025-01-01"; }).starts_with("date: "));
  EXPECT_TRUE(problem_of([](Artifacts& here) { ++here.context; }).starts_with("settings: "));
  EXPECT_TRUE(problem_of([](Artifacts& here) { here.settings[0] ^= 1; }).starts_with("settings: "));
}

// What a server replied, with return_token_ids and digest.
class ReplyTest : public ReceiptTest {
 protected:
  static Json reply(const engine::Request& request) {
    const Answer answer = answer_of(request);
    const Json choice = {{"prompt_token_ids", request.prompt},
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
  EXPECT_EQ(verdict("/choices", Json::array()), Verdict::kSignature);
  EXPECT_EQ(verify_unsigned(R"({"choices":1})").verdict, Verdict::kSignature);
}

}  // namespace
}  // namespace reprofuse::receipt
