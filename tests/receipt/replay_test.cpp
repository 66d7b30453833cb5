// Every change of a receipt is caught, and called by its name.
#include "receipt/replay.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/hash.hpp"
#include "receipt/receipt_case.hpp"
#include "support/messages.hpp"

namespace reprofuse::receipt {
namespace {

using ReplayTest = ReceiptTest;
using Json = nlohmann::json;

constexpr ReceiptOptions kWithRoots{.roots = true};

TEST_F(ReplayTest, TrueReceiptsAreEqualAtEveryLevel) {
  engine::Request golden = short_request(model::golden_answer().prompt);
  golden.max_tokens = 200;
  golden.stop_tokens = model::golden_answer().stop_tokens;
  for (const engine::Request& request : {golden, sampled_request()})
    for (const ReceiptOptions& options : {ReceiptOptions(), kWithRoots}) {
      const std::string text = issue(request, options).text();
      std::size_t proven = 0;
      for (const Level level : {Level::kSignature, Level::kArtifacts, Level::kTokens, Level::kLogits}) {
        const Report report = verify(text, level);
        EXPECT_TRUE(report.is_open()) << report.problem;
        EXPECT_GE(report.proven.size(), proven);
        proven = report.proven.size();
      }
      EXPECT_EQ(verify(text, Level::kLogits, 5).is_open(), options.roots);
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
                                                {"/artifacts/date", "2024-07-27"},
                                                {"/answer/finish_reason", "stop"}};
  for (const auto& [ending, other] : decisive)
    if (pointer.ends_with(ending)) return other;
  if (pointer.ends_with("/roots")) return Json::array({std::string(64, '0')});
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<int>() ^ 1;
  if (value.is_null()) return pointer.ends_with("/previous") ? std::string(64, 'a') : "something";
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
  for (const ReceiptOptions& options : {ReceiptOptions(), kWithRoots}) {
    const Json statement = Json::parse(issue(sampled_request(), options).payload);
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
                                    std::pair("stop_tokens", Json(1 << 30)), std::pair("stop_strings", Json("e"))}) {
      Json altered = statement;
      altered["predicate"]["request"][key].push_back(more);
      const Verdict expected = more == 1 << 30 ? Verdict::kEqual : Verdict::kDiverged;  // no token has that id
      EXPECT_EQ(verify(sign(canonical_json(altered)).text()).verdict, expected) << key << " " << more;
    }
    Json another_end = statement;  // one that does not contradict itself
    another_end["predicate"]["request"]["stop_strings"].push_back("no such text");
    EXPECT_TRUE(verify(sign(canonical_json(another_end)).text()).is_open());
    another_end["predicate"]["answer"]["finish_reason"] = "stop";
    EXPECT_EQ(verify(sign(canonical_json(another_end)).text()).verdict, Verdict::kDiverged);
  }
}

// docs/receipt.schema.json says the same of each field.
TEST_F(ReplayTest, AFieldThatIsNotOfItsFormIsNoReceipt) {
  const Json statement = Json::parse(issue(sampled_request(), kWithRoots).payload);
  const std::string hidden(64, 'a');
  const std::pair<const char*, Json> wrong[] = {{"/artifacts/model", "0 here\nvictim.json: equal"},
                                                {"/artifacts/manifest_root", "A"},
                                                {"/artifacts/files/evil", hidden},
                                                {"/artifacts/files/tokenizer.json", "x"},
                                                {"/artifacts/template", ""},
                                                {"/artifacts/date", "banana"},
                                                {"/artifacts/date", "2024-07-26T00:00:00"},
                                                {"/artifacts/date", "2024-02-30"},
                                                {"/artifacts/context", "-7"},
                                                {"/artifacts/context", "0"},
                                                {"/artifacts/settings", "x"},
                                                {"/request/stop_tokens", Json::array({-5})},
                                                {"/request/max_tokens", "-1"},
                                                {"/request/top_k", -1},
                                                {"/answer/tokens/0", -1},
                                                {"/answer/tokens/0", 1.5},
                                                {"/answer/tokens/0", std::int64_t{1} << 32},
                                                {"/answer/stop_token", -1},
                                                {"/answer/digest", "x"},
                                                {"/answer/finish_reason", "error"},
                                                {"/steps/root", "x"},
                                                {"/steps/roots/0", "x"},
                                                {"/previous", "banana"},
                                                {"/prompt", Json{{"commitment", "x"}}},
                                                {"/issuer/public_key", std::string(43, 'A') + "="}};
  for (const auto& [pointer, value] : wrong) {
    Json altered = statement;
    altered[Json::json_pointer(std::string("/predicate") + pointer)] = value;
    const Report report = verify(sign(canonical_json(altered)).text());
    EXPECT_EQ(report.verdict, Verdict::kSignature) << pointer << " " << value << ": " << report.problem;
    EXPECT_EQ(report.problem.find('\n'), std::string::npos) << report.problem;
  }
}

TEST_F(ReplayTest, AReceiptThatContradictsItselfNeedsNoModel) {
  engine::Request golden = short_request(model::golden_answer().prompt);
  golden.max_tokens = 200;
  golden.stop_tokens = model::golden_answer().stop_tokens;
  const Receipt honest = parse_statement(issue(golden).payload, "it");
  ASSERT_TRUE(honest.answer.stop_token);
  const auto contradiction = [&](const auto& alter) {
    Receipt altered = honest;
    alter(altered);
    return contradiction_in(parse_statement(statement_of(altered), "it"));
  };
  EXPECT_EQ(contradiction([](Receipt&) {}), "");
  const auto expect = [&](const char* words, const auto& alter) {
    EXPECT_TRUE(contains(contradiction(alter), words)) << contradiction(alter);
  };
  expect("the length, and a stop token",
         [](Receipt& altered) { altered.answer.finish_reason = engine::FinishReason::kLength; });
  expect("none of its request's", [](Receipt& altered) { altered.answer.stop_token = 7; });
  expect("inside its answer", [](Receipt& altered) { altered.answer.tokens[1] = *altered.answer.stop_token; });
  expect("max_tokens 3", [](Receipt& altered) { altered.request.max_tokens = 3; });
  expect("nothing stops it", [](Receipt& altered) { altered.answer.stop_token.reset(); });
  expect("do not fit", [](Receipt& altered) { altered.artifacts.context = 210; });
  expect("of 200 tokens", [](Receipt& altered) {
    altered.answer.stop_token.reset();
    altered.answer.finish_reason = engine::FinishReason::kLength;
  });
}

// What a hidden prompt leaves of the context is known once it is opened.
TEST_F(ReplayTest, AHiddenPromptThatDoesNotFitContradictsItsReceipt) {
  const Issued issued = issuer().issue(sampled_request(), answer_of(sampled_request()), {.hide_prompt = true});
  const Receipt honest = parse_statement(issued.envelope.payload, "it");
  for (const std::int64_t context : {44, 43}) {
    Receipt altered = honest;
    altered.artifacts.context = context;
    const Report report =
        examine(sign(statement_of(altered)).text(), "it", key_.public_key(), {*issued.opening}).report;
    EXPECT_EQ(report.problem, context == 44 ? ""
                                            : "it contradicts itself: a prompt of 20 tokens and an answer of 24 do "
                                              "not fit into its context of 43");
  }
}

TEST_F(ReplayTest, WhatTheSignerAloneKnowsIsNotProven) {
  LocalArtifacts here = local();
  here.any_date = here.any_context = true;
  here.artifacts.unicode = "of another library";
  Evidence evidence = examine(issue(sampled_request()).text(), "it", key_.public_key());
  check_artifacts(evidence, here);
  ASSERT_TRUE(evidence.report.is_open()) << evidence.report.problem;
  const std::string not_proven = fmt::format("{}", fmt::join(evidence.report.not_proven, "\n"));
  EXPECT_TRUE(contains(not_proven, "date 2024-07-26 and context ")) << not_proven;
  EXPECT_TRUE(contains(not_proven, "that a text gives these prompt tokens: ")) << not_proven;
  here.longest = artifacts_.context - 1;
  evidence = examine(issue(sampled_request()).text(), "it", key_.public_key());
  check_artifacts(evidence, here);
  EXPECT_TRUE(contains(evidence.report.problem, "settings: the longest text")) << evidence.report.problem;
}

// A replay that computes nothing has no step to hash.
TEST_F(ReplayTest, AnAnswerOfNoLengthIsNoReceiptAndDivergesInAReplay) {
  for (const ReceiptOptions& options : {ReceiptOptions(), kWithRoots}) {
    Receipt none = parse_statement(issue(sampled_request(), options).payload, "it");
    none.request.max_tokens = 0;
    const Report report = verify(sign(statement_of(none)).text());
    EXPECT_EQ(report.verdict, Verdict::kSignature);
    EXPECT_TRUE(contains(report.problem, "'0' is below 1")) << report.problem;
    Evidence evidence;
    evidence.claim =
        Claim{.contract = none.contract, .request = none.request, .answer = none.answer, .steps_root = none.steps_root};
    replay_all(*model_, bundled_tokenizer(), {&evidence}, Level::kLogits, 0);
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

TEST_F(ReplayTest, AVerdictSaysHowFarItWent) {
  const std::string text = issue(sampled_request()).text();
  EXPECT_EQ(verify(text, Level::kSignature).verdict_text(), "holds as far as signature");
  EXPECT_EQ(verify(text, Level::kArtifacts).verdict_text(), "holds as far as artifacts");
  EXPECT_EQ(verify(text, Level::kTokens).verdict_text(), "holds as far as tokens");
  EXPECT_EQ(verify(text).verdict_text(), "equal");
  EXPECT_EQ(verify(text, Level::kLogits, 3).verdict_text(), "missing: roots");
}

TEST_F(ReplayTest, WhatIsNotWrittenAsAReceiptIsNamed) {
  const Json statement = Json::parse(issue(sampled_request()).payload);
  const auto problem_of = [&](const std::string& payload) { return verify(sign(payload).text()).problem; };
  Json altered = statement;
  altered["subject"][0]["digest"]["sha256"] = std::string(64, '0');
  EXPECT_TRUE(contains(problem_of(altered.dump()), "'/subject/0/digest/sha256' is '0000"));
  altered = statement;
  altered["predicate"]["more"] = 1;
  EXPECT_TRUE(
      contains(problem_of(altered.dump()), "'/predicate/more' is 1, and in a receipt of its answer it is not there"));
  EXPECT_TRUE(contains(problem_of(statement.dump(1)), "not canonical"));
  EXPECT_EQ(problem_of(statement.dump()), "");
}

TEST_F(ReplayTest, ANonceIsComparedWhereOneIsExpected) {
  const auto examined = [&](const std::optional<std::string>& nonce, const std::optional<std::string>& expected) {
    Evidence evidence = examine(issue(short_request({5, 6, 7}), {.nonce = nonce}).text(), "it", key_.public_key());
    check_nonce(evidence, expected);
    return evidence.report;
  };
  EXPECT_TRUE(contains(fmt::format("{}", fmt::join(examined("mine", "mine").proven, " ")), "nonce: "));
  EXPECT_TRUE(contains(fmt::format("{}", fmt::join(examined("mine", {}).not_proven, " ")), "nonce: "));
  EXPECT_FALSE(contains(fmt::format("{}", fmt::join(examined({}, {}).not_proven, " ")), "nonce"));
  EXPECT_TRUE(contains(examined("theirs", "mine").problem, "nonce: it is 'theirs' in the receipt"));
  EXPECT_EQ(examined({}, "mine").verdict, Verdict::kArtifact);
}

TEST_F(ReplayTest, MemoryIsSetAsideForTheAnswerAndNotForWhatItMightHaveBeen) {
  Claim claim;
  claim.request.prompt = {1, 2, 3};
  claim.request.max_tokens = 999'900;
  claim.answer.tokens.assign(19, 1);
  EXPECT_EQ(Replay(claim, Level::kLogits).longest_text(), 3 + 20) << "one more shows that it goes on";
  EXPECT_EQ(Replay(claim, Level::kLogits).request().max_tokens, 20);
  claim.request.max_tokens = 19;
  EXPECT_EQ(Replay(claim, Level::kLogits).longest_text(), 3 + 19);
  Receipt shorter = parse_statement(issue(sampled_request()).payload, "it");
  shorter.answer.tokens.resize(7);
  shorter.request.stop_strings = {"no such text"};
  shorter.answer.finish_reason = engine::FinishReason::kStop;
  const Report report = verify(sign(statement_of(shorter)).text());
  EXPECT_TRUE(contains(report.problem, "the answer has 7 steps, and the replay goes on with token ")) << report.problem;
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
  replay_all(*model_, bundled_tokenizer(), pointers, Level::kLogits, 0);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].report.is_open(), i != 13) << i;
}

TEST_F(ReplayTest, ArtifactsAreCalledByTheirNames) {
  const auto problem_of = [&](const auto& alter) {
    Artifacts here = artifacts_;
    alter(here);
    LocalArtifacts altered = local();
    altered.artifacts = here;
    return first_difference(artifacts_, altered);
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
  EXPECT_TRUE(problem_of([](Artifacts& here) { here.date = "2025-01-01"; }).starts_with("date: "));
  EXPECT_TRUE(problem_of([](Artifacts& here) { ++here.context; }).starts_with("settings: "));
  LocalArtifacts other_stops = local();
  other_stops.stop_tokens.push_back(1);
  EXPECT_TRUE(first_difference(artifacts_, other_stops).starts_with("settings: their digest"));
}

}  // namespace
}  // namespace reprofuse::receipt
