// Receipts over HTTP: asked for, kept, and verified again.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "receipt/replay.hpp"
#include "server/openai/call.hpp"
#include "server/openai/error.hpp"
#include "server/openai/reply.hpp"
#include "server/server_test_support.hpp"
#include "support/files.hpp"

namespace reprofuse::server {
namespace {

class ServerReceipts : public testing::Test {
 protected:
  ServerReceipts() { server_->serve_model(model_); }

  Json ask(const Json& more) {
    Json body = question_;
    body.update(more);
    auto client = server_.client();
    const auto result = post(client, "/v1/chat/completions", body);
    EXPECT_TRUE(result);
    return Json::parse(result->body);
  }
  Json verify(const Json& body) {
    auto client = server_.client();
    const auto result = post(client, "/v1/receipts/verify", body);
    EXPECT_TRUE(result);
    return Json::parse(result->body);
  }
  receipt::Evidence examine(const Json& envelope) const {
    return receipt::examine(envelope.dump(), "it", key_.public_key());
  }

  TemporaryFolder folder_;
  receipt::SigningKey key_ = receipt::SigningKey::make(folder_.file("key"));
  std::shared_ptr<ServedModel> model_ = load_model([&](ServedModelOptions& options) {
    std::filesystem::create_directory(folder_.file("log"));
    options.key = key_;
    options.receipt_log = std::make_shared<receipt::Log>(folder_.file("log"), key_.public_key());
  });
  Json question_ = {{"messages", {{{"role", "user"}, {"content", "What is 12 + 30?"}}}}};
  TestServer server_;
};

TEST_F(ServerReceipts, EveryChoiceHasOneThatNamesTheOneBeforeAndIsKept) {
  const Json answer =
      ask({{"receipt", {{"roots", true}, {"nonce", "mine"}}}, {"n", 2}, {"temperature", 1.5}, {"seed", 5}});
  ASSERT_EQ(answer["choices"].size(), 2U) << answer;
  std::optional<std::string> previous;
  for (const Json& choice : answer["choices"]) {
    const receipt::Evidence evidence = examine(choice["receipt"]);
    ASSERT_TRUE(evidence.report.is_open()) << evidence.report.problem;
    EXPECT_EQ(evidence.receipt->answer.digest, choice["digest"]);
    EXPECT_EQ(evidence.receipt->request.sampling.seed, 5U + choice["index"].get<std::uint64_t>());
    EXPECT_EQ(evidence.receipt->nonce, "mine");
    const Json verified = verify({{"receipt", choice["receipt"]}});
    EXPECT_EQ(verified["verdict"], "equal") << verified;
    EXPECT_EQ(verified["status"], 0);
    EXPECT_TRUE(contains(verified["not_proven"].dump(), "previous: ")) << verified;
    EXPECT_EQ(verified["text"], choice["message"]["content"]);
    EXPECT_EQ(verified["digest"], choice["digest"]);
  }
  for (const char* number : {"1", "2"}) {
    const std::string file = folder_.file("log/00000000000" + std::string(number) + ".receipt.json");
    const receipt::Evidence kept = receipt::examine(read_whole_file(file), file, key_.public_key());
    ASSERT_TRUE(kept.report.is_open()) << kept.report.problem;
    EXPECT_EQ(kept.receipt->previous, previous);
    previous = kept.envelope->payload_hash();
  }
}

TEST_F(ServerReceipts, AStreamHasItInTheChunkThatEndsTheChoice) {
  Json body = question_;
  body.update({{"receipt", true}, {"stream", true}});
  auto client = server_.client();
  const std::string events = post(client, "/v1/chat/completions", body)->body;
  const std::size_t at = events.rfind("data: {");
  const Json last = Json::parse(events.substr(at + 6, events.find("\n\n", at) - at - 6));
  const Json whole = ask({{"receipt", true}});
  const receipt::Evidence streamed = examine(last["choices"][0]["receipt"]);
  ASSERT_TRUE(streamed.report.is_open()) << last;
  EXPECT_EQ(streamed.receipt->answer.tokens, examine(whole["choices"][0]["receipt"]).receipt->answer.tokens);
  EXPECT_EQ(events.find("\"receipt\""), events.rfind("\"receipt\"")) << "once";
}

TEST_F(ServerReceipts, AHiddenPromptIsVerifiedWithItsOpening) {
  const Json choice = ask({{"receipt", {{"hide_prompt", true}}}})["choices"][0];
  EXPECT_EQ(verify({{"receipt", choice["receipt"]}})["verdict"], "missing: opening");
  const Json other = ask({{"receipt", {{"hide_prompt", true}}}})["choices"][0]["receipt_opening"];
  EXPECT_EQ(verify({{"receipt", choice["receipt"]}, {"opening", other}})["verdict"], "artifact");
  const Json opened = verify({{"receipt", choice["receipt"]}, {"opening", choice["receipt_opening"]}});
  EXPECT_EQ(opened["verdict"], "equal") << opened;
}

TEST_F(ServerReceipts, WhatIsNotTrueHasAVerdictAndWhatIsNoReceiptToo) {
  const Json honest = ask({{"receipt", true}})["choices"][0]["receipt"];
  Json altered = honest;
  altered["signatures"][0]["sig"] = std::string(84, 'A') + "A===";
  EXPECT_EQ(verify({{"receipt", altered}})["verdict"], "signature");
  EXPECT_EQ(verify({{"receipt", Json::object()}})["status"], 3);
  // Signed, and not true.
  receipt::Receipt lie = *examine(honest).receipt;
  const auto verdict_of = [&](const receipt::Receipt& said) {
    const std::string payload = statement_of(said);
    const receipt::Envelope envelope{payload, key_.public_key().id(), key_.sign(receipt::pre_authentication(payload))};
    return verify({{"receipt", Json::parse(envelope.text())}});
  };
  EXPECT_EQ(verdict_of(lie)["verdict"], "equal");
  lie.answer.tokens[2] ^= 1;
  EXPECT_EQ(verdict_of(lie)["verdict"], "diverged");
  lie = *examine(honest).receipt;
  lie.contract = "exact-1";
  EXPECT_TRUE(contains(verdict_of(lie)["problem"], "this server computes by fma-1"));
  lie = *examine(honest).receipt;
  lie.artifacts.date = "2025-01-01";
  EXPECT_TRUE(contains(verdict_of(lie)["problem"], "date: "));
  lie = *examine(honest).receipt;
  lie.request.stop_strings.assign(17, "x");
  EXPECT_EQ(verdict_of(lie)["status"], 2) << "more than a request may ask for";
  lie = *examine(honest).receipt;
  lie.request.max_tokens = 1 << 20;
  EXPECT_EQ(verdict_of(lie)["verdict"], "diverged") << "longer than the context";
  lie = *examine(honest).receipt;
  lie.answer.tokens[2] = 1 << 30;
  EXPECT_EQ(verdict_of(lie)["verdict"], "diverged") << "no token of the model's";
  lie = *examine(honest).receipt;
  lie.request.max_tokens = 0;
  EXPECT_EQ(verdict_of(lie)["verdict"], "signature");
  EXPECT_EQ(verdict_of(*examine(honest).receipt)["verdict"], "equal") << "the server goes on";
}

// A replay that ends in an error of the answer's own has diverged. One that this server could not complete has no
// verdict.
TEST_F(ServerReceipts, AFailureOfTheServerIsNoVerdict) {
  const std::string body = Json{{"receipt", ask({{"receipt", true}})["choices"][0]["receipt"]}}.dump();
  const auto replayed = [&](bool at_fault, bool by_stop) -> std::string {
    const VerifyCall call = parse_verify(body, model_->facts(), model_->service().engine());
    const std::unique_ptr<Reply> reply = make_reply(call, model_->facts());
    engine::Update update;
    update.end.emplace();
    update.end->finish_reason = engine::FinishReason::kError;
    update.end->error = "why";
    update.end->at_fault = at_fault;
    update.end->by_stop = by_stop;
    try {
      reply->add(0, update);
    } catch (const ApiError& error) {
      return std::to_string(error.status());
    }
    return Json::parse(reply->body())["verdict"];
  };
  EXPECT_EQ(replayed(true, false), "diverged");
  EXPECT_EQ(replayed(false, false), "500");
  EXPECT_EQ(replayed(false, true), "503");
}

// What a receipt holds is asked for as what a body holds is, and not read when nobody waits.
TEST_F(ServerReceipts, WhatIsToBeVerifiedIsCountedAndLimited) {
  class Guard final : public ReadGuard {
   public:
    explicit Guard(std::size_t limit) : limit_(limit) {}
    void claim_memory(std::size_t bytes) override {
      taken_ += bytes;
      if (taken_ > limit_) throw ApiError(503, "server_error", "nobody waits", std::nullopt, "stopped");
    }

   private:
    std::size_t limit_, taken_ = 0;
  };
  const auto verified = [&](const Json& given, std::size_t limit) -> std::string {
    Guard guard(limit);
    const std::string body = Json{{"receipt", given}}.dump();
    try {
      const VerifyCall call = parse_verify({body, &guard}, model_->facts(), model_->service().engine());
      return call.choices.front()->evidence.report.problem;
    } catch (const ApiError& error) {
      return fmt::format("{} {}", error.status(), error.what());
    }
  };
  const auto envelope_of = [&](int keys) {
    std::string payload = R"({"a":0)";
    for (int i = 0; i < keys; ++i) payload += fmt::format(",\"{}\":0", i);
    return Json::parse(receipt::Envelope{payload + "}", "", ""}.text());
  };
  EXPECT_TRUE(contains(verified(envelope_of(100'000), SIZE_MAX), "it has no 'predicateType'"));
  EXPECT_EQ(verified(envelope_of(100'000), 4U << 20), "503 nobody waits");
  EXPECT_TRUE(contains(verified(envelope_of(200'000), SIZE_MAX), "has more than 131072 values"));
  const Json many = {{"choices", std::vector<Json>(129, Json::object())}};
  EXPECT_EQ(verified(many, SIZE_MAX), "400 a reply of 129 choices; at most 128 are verified in one request");
}

TEST_F(ServerReceipts, AKeyThatIsExpectedMustHaveSigned) {
  const Json reply = ask({{"receipt", true}, {"return_token_ids", true}});
  write_file(folder_.file("key.pem"), key_.public_key().pem());
  const Json envelope = reply["choices"][0]["receipt"];
  const auto base64 = [](const receipt::PublicKey& key) {
    return receipt::to_base64({reinterpret_cast<const char*>(key.raw().data()), key.raw().size()});
  };
  const std::string other = base64(receipt::SigningKey::make(folder_.file("other")).public_key());
  EXPECT_EQ(verify({{"receipt", envelope}, {"public_key", base64(key_.public_key())}})["verdict"], "equal");
  EXPECT_EQ(verify({{"receipt", envelope}, {"public_key", other}})["verdict"], "signature");
  EXPECT_TRUE(verify({{"receipt", envelope}, {"public_key", "x"}}).contains("error"));
  const std::string pem = receipt::PublicKey::load(folder_.file("key.pem")).pem();
  EXPECT_EQ(verify({{"receipt", envelope}, {"public_key", pem}})["verdict"], "equal");
  const Json own = verify({{"receipt", envelope}});
  EXPECT_TRUE(contains(own["proven"].dump(), "whose key that is: it is this server's")) << own;
  EXPECT_FALSE(contains(verify({{"receipt", envelope}, {"public_key", pem}})["proven"].dump(), "whose key")) << "given";
  Json whole = reply;
  EXPECT_EQ(verify({{"receipt", whole}})["verdict"], "equal") << "a reply with its receipt";
  whole["choices"][0]["message"]["content"] = "a million";
  EXPECT_EQ(verify({{"receipt", whole}})["verdict"], "diverged");
  whole = reply;
  whole["choices"][0].erase("receipt");
  EXPECT_EQ(verify({{"receipt", whole}})["verdict"], "equal, unsigned");
}

TEST_F(ServerReceipts, EachChoiceOfAReplyIsVerified) {
  const Json reply = ask({{"receipt", true}, {"return_token_ids", true}, {"n", 2}, {"temperature", 1.5}, {"seed", 5}});
  const Json equal = verify({{"receipt", reply}});
  EXPECT_EQ(equal["verdict"], "equal") << equal;
  ASSERT_EQ(equal["choices"].size(), 2U) << equal;
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(equal["choices"][i]["verdict"], "equal");
    EXPECT_EQ(equal["choices"][i]["text"], reply["choices"][i]["message"]["content"]);
  }
  Json altered = reply;
  altered["choices"][1]["message"]["content"] = "a million";
  const Json diverged = verify({{"receipt", altered}});
  EXPECT_EQ(diverged["verdict"], "diverged") << diverged;
  EXPECT_EQ(diverged["status"], 1);
  EXPECT_EQ(diverged["choices"][0]["verdict"], "equal");
  EXPECT_EQ(diverged["choices"][1]["verdict"], "diverged");
  EXPECT_TRUE(diverged["choices"][1]["text"].is_null()) << "of what is not true nothing is shown";
  altered = reply;
  altered["choices"][1].erase("receipt");
  altered["choices"][1]["digest"] = std::string(64, '0');
  const Json unlike = verify({{"receipt", altered}});
  EXPECT_EQ(unlike["choices"][0]["verdict"], "equal") << unlike;
  EXPECT_EQ(unlike["choices"][1]["verdict"], "diverged") << unlike;
}

TEST_F(ServerReceipts, TheModelsCardNamesTheKey) {
  auto client = server_.client();
  const Json card = Json::parse(client.Get("/v1/models")->body)["data"][0];
  EXPECT_EQ(card["receipts"], true);
  EXPECT_EQ(card["receipts_key"], key_.public_key().id());
}

TEST_F(ServerReceipts, WhatMakesNoSenseIsA400) {
  auto client = server_.client();
  for (const Json& wrong :
       {Json{{"receipt", 1}}, Json{{"receipt", {{"salt", 1}}}}, Json{{"receipt", {{"roots", 1}}}},
        Json{{"receipt", {{"nonce", std::string(257, 'x')}}}}, Json{{"receipt", true}, {"digest", "chain-1"}}})
    EXPECT_TRUE(ask(wrong).contains("error")) << wrong;
  for (const Json& wrong : {Json::object(), Json{{"receipt", "x"}}, Json{{"receipt", Json::object()}, {"more", 1}},
                            Json{{"receipt", Json::object()}, {"opening", 1}}})
    EXPECT_EQ(post(client, "/v1/receipts/verify", wrong)->status, 400) << wrong;
  EXPECT_EQ(client.Get("/v1/receipts/verify")->status, 405);
}

TEST_F(ServerReceipts, AReceiptThatCannotBeKeptIsAnErrorAlsoInAStream) {
  std::filesystem::remove_all(folder_.file("log"));
  EXPECT_EQ(ask({{"receipt", true}})["error"]["code"], "receipt_failed");
  Json body = question_;
  body.update({{"receipt", true}, {"stream", true}});
  auto client = server_.client();
  const std::string events = post(client, "/v1/chat/completions", body)->body;
  EXPECT_TRUE(contains(events, "receipt_failed")) << events;
  EXPECT_FALSE(contains(events, "[DONE]")) << events;
  EXPECT_FALSE(contains(events, folder_.path())) << "the server's files are not the client's affair";
  const std::vector<RequestLogEntry> entries = server_.log_entries();
  const bool is_told = std::any_of(entries.begin(), entries.end(), [&](const RequestLogEntry& entry) {
    return contains(entry.note, "receipt_failed: " + folder_.file("log")) && contains(entry.note, "No such file");
  });
  EXPECT_TRUE(is_told) << "the log says which file, and why";
  EXPECT_FALSE(ask(Json::object()).contains("error")) << "without a receipt all is well";
}

TEST(ServerWithoutKey, RefusesToSign) {
  TestServer server;
  server->serve_model(load_model());
  auto client = server.client();
  const auto result = post(client, "/v1/completions", {{"prompt", "12"}, {"receipt", true}});
  EXPECT_EQ(result->status, 400);
  EXPECT_TRUE(contains(result->body, "REPROFUSE_KEY")) << result->body;
  EXPECT_EQ(post(client, "/v1/completions", {{"prompt", "12"}, {"receipt", false}})->status, 200);
}

TEST(ServerWithApiKey, VerifiesForThoseWhoHaveIt) {
  TestServer server([](ServerOptions& options) { options.api_keys = {"secret"}; });
  server->serve_model(load_model());
  auto client = server.client();
  EXPECT_EQ(post(client, "/v1/receipts/verify", {{"receipt", Json::object()}})->status, 401);
  EXPECT_EQ(
      post(client, "/v1/receipts/verify", {{"receipt", Json::object()}}, {{"Authorization", "Bearer secret"}})->status,
      200);
}

}  // namespace
}  // namespace reprofuse::server
