// What a request may ask for at most, so that no client takes the memory or the time of all others.
#include <algorithm>

#include "server/api_reply_support.hpp"
#include "server/api_support.hpp"
#include "server/openai/call.hpp"

namespace reprofuse::server {
namespace {

using Ids = std::vector<std::int32_t>;

TEST(ApiLimits, ACallAsksForSoManyAnswersAndNoMore) {
  const auto with_prompts = [](std::size_t prompts, int choices) {
    return Json{{"prompt", std::vector<std::string>(prompts, "1")}, {"n", choices}}.dump();
  };
  EXPECT_EQ(parse_completion(with_prompts(32, 128), served()).requests.size(), 32U);
  EXPECT_EQ(refusal_of([&] { parse_completion(with_prompts(33, 128), served()); }),
            "400 prompt invalid_value: 33 prompts with n = 128 ask for 4224 answers, more than the 4096 that a request "
            "may");
}

TEST(ApiLimits, AReplyHasSoManyLikelihoodsOfPromptsAndNoMore) {
  const auto refusal = [](std::size_t tokens, const std::string& fields) {
    const Json body = {{"prompt", Ids(tokens, 49)}, {"max_tokens", 1}};
    return refusal_of([&] { parse_completion(with(body.dump(), fields), served()); });
  };
  const std::string too_many =
      "1000 tokens of prompts with 21 log-probabilities each, for 128 choices, are 2688000 log-probabilities, more "
      "than the "
      "524288 that a reply may have";
  EXPECT_EQ(refusal(1000, R"({"n":128,"prompt_logprobs":20})"), "400 prompt_logprobs invalid_value: " + too_many);
  EXPECT_EQ(refusal(1000, R"({"n":128,"logprobs":20,"echo":true})"), "400 logprobs invalid_value: " + too_many);
  EXPECT_EQ(refusal(1000, R"({"n":128,"logprobs":20,"echo":true,"stream":true})"),
            "400 logprobs invalid_value: " + too_many);
  EXPECT_EQ(refusal(1000, R"({"n":128,"logprobs":20})"), "accepted") << "of the answers alone";
  EXPECT_EQ(refusal(1000, R"({"n":128,"echo":true})"), "accepted") << "no log-probabilities at all";
  EXPECT_EQ(refusal(256, R"({"n":128,"prompt_logprobs":15})"), "accepted");
  EXPECT_EQ(refusal(257, R"({"n":128,"prompt_logprobs":15})").find("400 prompt_logprobs"), 0U);
  EXPECT_EQ(refusal(256, R"({"n":128,"prompt_logprobs":7,"echo":true,"logprobs":7})"), "accepted");
  EXPECT_EQ(refusal(257, R"({"n":128,"prompt_logprobs":7,"echo":true,"logprobs":7})").find("400 prompt_logprobs"), 0U)
      << "they are shown twice";
  const Json batch = {{"prompt", std::vector<Ids>(33, Ids(1000, 49))}, {"n", 2}, {"prompt_logprobs", 15}};
  EXPECT_EQ(refusal_of([&] {
              parse_completion(batch.dump(), served());
            }).find("400 prompt_logprobs invalid_value: 33000 tokens"),
            0U);
}

TEST(ApiLimits, AReplyHasSoManyLikelihoodsOfAnswersAndNoMore) {
  const engine::AnswerToken four = token(49, "1", likely(-1.0F, 1, {{49, -1.0F}, {50, -2.0F}, {51, -3.0F}}));
  const engine::Update half = tokens_of(0, std::vector<engine::AnswerToken>(std::size_t{1} << 15, four));
  const engine::Update more = tokens_of(1, {four});
  const std::string refusal =
      "400 logprobs invalid_value: the answers have more than the 262144 log-probabilities that a reply may have: "
      "stream "
      "them, "
      "or ask for fewer by logprobs, top_logprobs, n or max_tokens";
  const auto reply = completion_reply(R"({"prompt":"1","n":2,"logprobs":3})");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(refusal_of([&] { reply->add(0, half); }), "accepted");
  EXPECT_EQ(refusal_of([&] { reply->add(0, more); }), refusal) << "of all choices together";
  const auto stream = completion_reply(R"({"prompt":"1","n":2,"logprobs":3,"stream":true})");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(chunks_of(*stream, 0, more).size(), 1U) << "which keeps none";
  const auto plain = completion_reply(R"({"prompt":"1","n":2})");
  for (int i = 0; i < 9; ++i)
    plain->add(0, tokens_of(0, std::vector<engine::AnswerToken>(std::size_t{1} << 15, token(49, "1"))));
}

const std::string kTooLong = " context_length_exceeded: this model's maximum context length is 1024 tokens; ";

TEST(ApiLimits, APromptOfAMillionTokensIsTooLong) {
  const auto refusal = [](std::size_t bytes) {
    return refusal_of([&] { parse_completion(Json{{"prompt", std::string(bytes, '1')}}.dump(), served()); });
  };
  EXPECT_EQ(refusal(1022), "accepted");
  EXPECT_EQ(refusal(1023), "400 prompt" + kTooLong + "prompt has 1024 tokens, which leaves no room for an answer");
  EXPECT_EQ(refusal(1024), "400 prompt" + kTooLong + "prompt has more tokens");
  EXPECT_EQ(refusal(1'000'000), "400 prompt" + kTooLong + "prompt has more tokens");
  const std::string stop = Json{{"prompt", "1"}, {"stop", std::string(1'000'000, '1')}}.dump();
  EXPECT_LT(refusal_of([&] { parse_completion(stop, served()); }).size(), 300U);
}

// Wherever they stand: in no field are they kept.
TEST(ApiLimits, AMillionNumbersAreTooMany) {
  std::string list = "[1";
  for (int i = 0; i < 1'000'000; ++i) list += ",1";
  list += "]";
  const auto is_refused = [](const std::string& refusal) {
    return refusal.find("400 - context_length_exceeded: ") == 0 &&
           refusal.find("has a list of more than 16384 numbers") != std::string::npos;
  };
  for (const char* field : {"prompt", "stop", "temperature", "x"})
    EXPECT_TRUE(is_refused(refusal_of([&] {
      parse_completion("{\"" + std::string(field) + "\":" + list + "}", served());
    }))) << field;
  const auto chat = [](const std::string& calls) {
    return R"({"messages":[{"role":"assistant","tool_calls":)" + calls + "}]}";
  };
  const Json arguments = {{{"function", {{"name", "f"}, {"arguments", "{\"a\":" + list + "}"}}}}};
  for (const std::string& calls : {list, arguments.dump()}) {
    EXPECT_TRUE(is_refused(refusal_of([&] { parse_chat(chat(calls), served()); })));
    EXPECT_TRUE(is_refused(refusal_of([&] { tokenize(chat(calls), served()); })));
  }
  EXPECT_TRUE(is_refused(refusal_of([&] { detokenize("{\"tokens\":" + list + "}", served()); })));
}

TEST(ApiLimits, AChatThatIsFarTooLongIsNotEncoded) {
  const Json body = {{"messages", {{{"role", "user"}, {"content", std::string(1'000'000, '1')}}}}};
  EXPECT_EQ(refusal_of([&] { parse_chat(body.dump(), served()); }),
            "400 messages" + kTooLong + "messages has more tokens");
}

// Encoding asks the guard of the body now and then, whatever kind of text it is.
TEST(ApiLimits, EncodingStopsWhenNobodyWaitsForIt) {
  class Impatient : public ReadGuard {
   public:
    void claim_memory(std::size_t bytes) override {
      if (bytes == 0) throw ApiError(503, "server_error", "nobody waits", std::nullopt, "stopped");
    }
  } guard;
  AlteredModel model("x", std::nullopt);
  ServedFacts facts = model.facts();
  facts.max_positions = 1 << 22;
  const std::string text(1 << 20, '1');
  const std::string chat = Json{{"messages", {{{"role", "user"}, {"content", text}}}}}.dump();
  const std::string prompt = Json{{"prompt", text}}.dump();
  EXPECT_EQ(refusal_of([&] { parse_chat({chat, &guard}, facts); }), "503 - stopped: nobody waits");
  EXPECT_EQ(refusal_of([&] { parse_completion({prompt, &guard}, facts); }), "503 - stopped: nobody waits");
  EXPECT_EQ(refusal_of([&] { tokenize({prompt, &guard}, facts); }), "503 - stopped: nobody waits");
  EXPECT_EQ(refusal_of([&] { tokenize(prompt, facts); }), "accepted");
}

// A chat shows them once, whatever n is.
TEST(ApiLimits, OfAChatTheLikelihoodsOfThePromptAreShownOnce) {
  const Json body = {
      {"messages", {{{"role", "user"}, {"content", std::string(900, '1')}}}}, {"n", 128}, {"prompt_logprobs", 20}};
  EXPECT_EQ(refusal_of([&] { parse_chat(body.dump(), served()); }), "accepted");
}

TEST(ApiLimits, ATextToTokenizeThatNoContextHoldsIsNotEncoded) {
  EXPECT_EQ(refusal_of([] {
              tokenize(Json{{"prompt", std::string(1'000'000, '1')}}.dump(), served());
            }),
            "400 prompt" + kTooLong + "prompt has more tokens");
}

}  // namespace
}  // namespace reprofuse::server
