// Whole replies, compared with what OpenAI and vLLM send.
#include <cmath>

#include "server/api_reply_support.hpp"
#include "server/openai/reply.hpp"
#include "support/messages.hpp"

namespace reprofuse::server {
namespace {

using engine::FinishReason;

// A reply's body from its head, the text of its choices and its usage.
Json body_of(Json head, const std::string& choices, const Json& usage) {
  head["choices"] = Json::parse(choices);
  head["usage"] = usage;
  return head;
}

TEST(ApiReply, ACompletionIsOneTextPerChoice) {
  const auto reply = completion_reply(R"({"prompt":["1","22"],"n":2})");
  reply->add(1, tokens_of(1, {token(51, "d")}));
  reply->add(1, end_of(1, FinishReason::kLength));
  reply->add(0, tokens_of(0, {token(49, "a"), token(50, "")}));
  reply->add(0, tokens_of(1, {token(50, "b")}));
  reply->add(0, end_of(1, FinishReason::kStop));
  reply->add(1, end_of(0, FinishReason::kStop));
  EXPECT_FALSE(reply->finished());
  reply->add(0, end_of(0, FinishReason::kLength, "held"));
  EXPECT_TRUE(reply->finished());
  EXPECT_EQ(Json::parse(reply->body()), body_of(reply_head("cmpl-1", "text_completion"), R"([
    {"index":0,"text":"aheld","logprobs":null,"finish_reason":"length","stop_reason":null},
    {"index":1,"text":"b","logprobs":null,"finish_reason":"stop","stop_reason":null},
    {"index":2,"text":"","logprobs":null,"finish_reason":"stop","stop_reason":null},
    {"index":3,"text":"d","logprobs":null,"finish_reason":"length","stop_reason":null}])",
                                                usage_of(5, 4)))
      << "a prompt counts once, whatever n is";
}

TEST(ApiReply, AChatIsOneMessagePerChoice) {
  const auto reply = chat_reply(R"({"n":2})");
  reply->add(0, tokens_of(0, {token(49, "1"), token(50, "2")}));
  reply->add(0, tokens_of(1, {token(51, "3")}));
  reply->add(0, end_of(1, FinishReason::kLength));
  reply->add(0, end_of(0, FinishReason::kStop, "."));
  EXPECT_EQ(Json::parse(reply->body()), body_of(reply_head("chatcmpl-1", "chat.completion"), R"([
    {"index":0,"message":{"role":"assistant","content":"12.","refusal":null},"logprobs":null,
     "finish_reason":"stop","stop_reason":null},
    {"index":1,"message":{"role":"assistant","content":"3","refusal":null},"logprobs":null,
     "finish_reason":"length","stop_reason":null}])",
                                                usage_of(12, 3)));
}

TEST(ApiReply, ChatLogprobsAreOpenAis) {
  const auto reply = chat_reply(R"({"logprobs":true,"top_logprobs":2,"return_token_ids":true,"digest":true})");
  reply->add(0, tokens_of(0, {token(50, "2", likely(-1.5F, 3, {{49, -0.25F}, {1023, -0.5F}}), "d1")}));
  engine::Update end = end_of(0, FinishReason::kStop);
  end.end->digest = "d2";
  end.end->stop_token = 1023;
  reply->add(0, end);
  Json expected = body_of(reply_head("chatcmpl-1", "chat.completion"), R"([
    {"index":0,"message":{"role":"assistant","content":"2","refusal":null},
     "logprobs":{"content":[{"token":"2","logprob":-1.5,"bytes":[50],"top_logprobs":[
        {"token":"1","logprob":-0.25,"bytes":[49]},
        {"token":"<|eot_id|>","logprob":-0.5,"bytes":[60,124,101,111,116,95,105,100,124,62]}]}],"refusal":null},
     "finish_reason":"stop","stop_reason":null,"digest":"d2","token_ids":[50]}])",
                          usage_of(12, 1));
  expected["prompt_token_ids"] = Json::parse("[1019,1021,282,1022,263,49,50,1023,1021,281,1022,263]");
  EXPECT_EQ(Json::parse(reply->body()), expected);
}

TEST(ApiReply, CompletionLogprobsCountCharactersOfTheText) {
  const auto reply = completion_reply(R"({"prompt":"1","logprobs":1})");
  std::vector<engine::AnswerToken> tokens = {token(49, "1", likely(-0.5F, 1, {{49, -0.5F}}))};
  const auto euro = served().files->text().tokenizer().encode("\u20ac", false);
  ASSERT_EQ(euro.size(), 3U);
  tokens.push_back(token(euro[0], "", likely(-1, 2, {{50, -0.125F}})));
  tokens.push_back(token(euro[1], "", likely(-2, 2, {{50, -0.125F}})));
  tokens.push_back(token(euro[2], "\u20ac", likely(-4, 1, {{euro[2], -4}})));
  tokens.push_back(token(50, "2", likely(-8, 9, {{1020, -0.125F}})));
  reply->add(0, tokens_of(0, tokens));
  reply->add(0, end_of(0, FinishReason::kLength));
  EXPECT_EQ(Json::parse(reply->body())["choices"][0]["logprobs"], Json::parse(R"({
    "tokens":["1","bytes:\\xe2","bytes:\\x82","bytes:\\xac","2"],
    "token_logprobs":[-0.5,-1.0,-2.0,-4.0,-8.0],
    "top_logprobs":[{"1":-0.5},{"2":-0.125,"bytes:\\xe2":-1.0},{"2":-0.125,"bytes:\\x82":-2.0},{"bytes:\\xac":-4.0},
                    {"<|end_of_text|>":-0.125,"2":-8.0}],
    "text_offset":[0,1,1,1,2]})"));
}

// As lm-evaluation-harness reads it: the sum over the continuation, and whether each token is the likeliest.
TEST(ApiReply, AnEchoHasTheLogprobsOfThePrompt) {
  const auto reply = completion_reply(
      R"({"model":"arithmetic-7m","prompt":[[1019,49,50],[1019,51]],"temperature":0,"max_tokens":1,"logprobs":1,
          "seed":1234,"echo":true})");
  reply->add(1, prompt_of({{1019, {}}, {51, likely(-0.75F, 1, {{51, -0.75F}})}}));
  reply->add(0, prompt_of({{1019, {}}, {49, likely(-1.5F, 4, {{52, -0.25F}})}}));
  reply->add(0, prompt_of({{50, likely(-0.5F, 1, {{50, -0.5F}})}}));
  for (const std::size_t prompt : {1, 0}) {
    reply->add(prompt, tokens_of(0, {token(53, "5", likely(-0.125F, 1, {{53, -0.125F}}))}));
    reply->add(prompt, end_of(0, FinishReason::kLength));
  }
  EXPECT_EQ(Json::parse(reply->body()), body_of(reply_head("cmpl-1", "text_completion"), R"([
    {"index":0,"text":"125","logprobs":{"tokens":["<|begin_of_text|>","1","2","5"],
       "token_logprobs":[null,-1.5,-0.5,-0.125],"top_logprobs":[null,{"4":-0.25,"1":-1.5},{"2":-0.5},{"5":-0.125}],
       "text_offset":[0,0,1,2]},"finish_reason":"length","stop_reason":null},
    {"index":1,"text":"35","logprobs":{"tokens":["<|begin_of_text|>","3","5"],"token_logprobs":[null,-0.75,-0.125],
       "top_logprobs":[null,{"3":-0.75},{"5":-0.125}],"text_offset":[0,0,1]},
     "finish_reason":"length","stop_reason":null}])",
                                                usage_of(5, 2)));
}

TEST(ApiReply, AnEchoHasSpecialTokensWhereTheTextSpellsThem) {
  const std::string text = "1<|end_of_text|>2";
  const auto reply = completion_reply(R"({"prompt":")" + text + R"(","max_tokens":1,"echo":true,"logprobs":0})");
  reply->add(0, prompt_of({{1019, {}}, {49, likely(-1, 2, {})}, {1020, likely(-1, 2, {})}, {50, likely(-1, 2, {})}}));
  reply->add(0, tokens_of(0, {token(51, "3", likely(-1, 2, {}))}));
  reply->add(0, end_of(0, FinishReason::kLength));
  const Json choice = Json::parse(reply->body())["choices"][0];
  EXPECT_EQ(choice["text"], text + "3");
  EXPECT_EQ(choice["logprobs"]["tokens"], Json::parse(R"(["<|begin_of_text|>","1","<|end_of_text|>","2","3"])"));
  EXPECT_EQ(choice["logprobs"]["text_offset"], Json::parse("[0,0,1,16,17]"));
}

TEST(ApiReply, NoTokenBeginsBehindTheTextThatAStopStringLeaves) {
  const std::string body = R"({"prompt":"1","max_tokens":3,"logprobs":0,"stop":"345")";
  const std::vector<engine::AnswerToken> tokens = {token(50, "2", likely(-1, 2, {})), token(51, "", likely(-1, 2, {})),
                                                   token(52, "", likely(-1, 2, {})), token(53, "", likely(-1, 2, {}))};
  const auto whole = completion_reply(body + "}");
  whole->add(0, tokens_of(0, tokens));
  whole->add(0, end_of(0, FinishReason::kStop));
  EXPECT_EQ(Json::parse(whole->body())["choices"][0]["logprobs"]["text_offset"], Json::parse("[0,1,1,1]"));
  const auto stream = completion_reply(body + R"(,"stream":true})");
  std::vector<int> offsets;
  for (const std::string& chunk : chunks_of(*stream, 0, tokens_of(0, tokens)))
    offsets.push_back(Json::parse(chunk)["choices"][0]["logprobs"]["text_offset"][0]);
  EXPECT_EQ(offsets, (std::vector<int>{0, 1, 1, 1}));
}

TEST(ApiReply, AnEchoNeedsNoAnswer) {
  const auto reply = completion_reply(R"({"prompt":"12","max_tokens":0,"echo":true,"logprobs":0})");
  reply->add(0, prompt_of({{1019, {}}, {49, likely(-1, 2, {})}, {50, likely(-2, 2, {})}}));
  reply->add(0, end_of(0, FinishReason::kLength));
  EXPECT_EQ(Json::parse(reply->body()), body_of(reply_head("cmpl-1", "text_completion"), R"([
    {"index":0,"text":"12","logprobs":{"tokens":["<|begin_of_text|>","1","2"],"token_logprobs":[null,-1.0,-2.0],
     "top_logprobs":[null,{"1":-1.0},{"2":-2.0}],"text_offset":[0,0,1]},
     "finish_reason":"length","stop_reason":null}])",
                                                usage_of(3, 0)));
}

TEST(ApiReply, WithoutATokenThereIsNothingToDigest) {
  const auto reply = completion_reply(R"({"prompt":"12","max_tokens":0,"echo":true,"digest":true})");
  reply->add(0, end_of(0, FinishReason::kLength));
  EXPECT_EQ(Json::parse(reply->body())["choices"][0]["digest"], Json());
}

TEST(ApiReply, PromptLogprobsAreVllms) {
  const std::vector<engine::PromptToken> prompt = {{1019, {}},
                                                   {49, likely(-3, 5, {{50, -0.5F}, {51, -1}, {52, -2}})},
                                                   {50, likely(-0.5F, 1, {{50, -0.5F}, {51, -1}, {52, -2}})}};
  const Json expected = Json::parse(R"([null,
    {"49":{"logprob":-3.0,"rank":5,"decoded_token":"1"},"50":{"logprob":-0.5,"rank":1,"decoded_token":"2"},
     "51":{"logprob":-1.0,"rank":2,"decoded_token":"3"}},
    {"50":{"logprob":-0.5,"rank":1,"decoded_token":"2"},"51":{"logprob":-1.0,"rank":2,"decoded_token":"3"}}])");
  const auto completion =
      completion_reply(R"({"prompt":"12","prompt_logprobs":2,"return_token_ids":true,"echo":true,"logprobs":1})");
  const auto chat = chat_reply(R"({"prompt_logprobs":2})");
  for (Reply* reply : {completion.get(), chat.get()}) {
    reply->add(0, prompt_of(prompt));
    reply->add(0, tokens_of(0, {token(53, "5", likely(-1, 1, {{53, -1}}))}));
    reply->add(0, end_of(0, FinishReason::kLength));
  }
  const Json choice = Json::parse(completion->body())["choices"][0];
  EXPECT_EQ(choice["prompt_logprobs"], expected);
  EXPECT_EQ(choice["prompt_token_ids"], Json::parse("[1019,49,50]"));
  EXPECT_EQ(choice["token_ids"], Json::parse("[53]"));
  EXPECT_EQ(choice["logprobs"]["top_logprobs"][1], Json::parse(R"({"2":-0.5,"1":-3.0})")) << "one, as asked";
  EXPECT_EQ(Json::parse(chat->body())["prompt_logprobs"], expected);
}

TEST(ApiReply, CachedTokensAreReportedOnlyIfTheServerIsToldTo) {
  const auto usage_with = [](const CallRules& rules) {
    const auto reply = completion_reply(R"({"prompt":["1","2"],"n":2})", rules);
    for (const std::size_t prompt : {0, 1})
      for (const int choice : {0, 1}) {
        engine::Update end = end_of(choice, FinishReason::kStop);
        end.cached_prompt_tokens = 2;
        reply->add(prompt, end);
      }
    return Json::parse(reply->body())["usage"];
  };
  EXPECT_EQ(usage_with({}), usage_of(4, 0));
  Json reported = usage_of(4, 0);
  reported["prompt_tokens_details"] = {{"cached_tokens", 4}};
  EXPECT_EQ(usage_with({.allow_priority = false, .report_cached_tokens = true}), reported);
}

TEST(ApiReply, TheStopReasonIsWhatTheClientAskedToStopAt) {
  const auto reason = [](std::optional<std::int32_t> stop_token, std::optional<std::string> stop_string) {
    const auto reply = completion_reply(R"({"prompt":"1","stop_token_ids":[5],"stop":"\n"})");
    engine::Update end = end_of(0, FinishReason::kStop);
    end.end->stop_token = stop_token;
    end.end->stop_string = std::move(stop_string);
    reply->add(0, end);
    return Json::parse(reply->body())["choices"][0]["stop_reason"];
  };
  EXPECT_EQ(reason(5, {}), 5);
  EXPECT_EQ(reason({}, "\n"), "\n");
  EXPECT_EQ(reason(1023, {}), nullptr) << "the model's own end";
}

TEST(ApiReply, TokensMayBeNamedByTheirIds) {
  const auto reply = completion_reply(R"({"prompt":"1","logprobs":1,"return_tokens_as_token_ids":true})");
  reply->add(0, tokens_of(0, {token(50, "2", likely(-1, 2, {{1023, -0.5F}}))}));
  reply->add(0, end_of(0, FinishReason::kLength));
  EXPECT_EQ(Json::parse(reply->body())["choices"][0]["logprobs"],
            Json::parse(R"({"tokens":["token_id:50"],"token_logprobs":[-1.0],
                            "top_logprobs":[{"token_id:1023":-0.5,"token_id:50":-1.0}],"text_offset":[0]})"));
}

TEST(ApiReply, NoBitOfALogprobIsLost) {
  for (const float logprob : {-0.1F, -1e-45F, -0.0F, -3.4028235e38F, -1.1754944e-38F, -17.123457F}) {
    const auto reply = chat_reply(R"({"logprobs":true})");
    reply->add(0, tokens_of(0, {token(50, "2", likely(logprob, 1, {}))}));
    reply->add(0, end_of(0, FinishReason::kLength));
    const Json read = Json::parse(reply->body())["choices"][0]["logprobs"]["content"][0]["logprob"];
    EXPECT_EQ(read.get<double>(), static_cast<double>(logprob));
    EXPECT_EQ(std::signbit(read.get<double>()), true);
  }
  EXPECT_EQ(shown_logprob(-INFINITY), -9999.0);
}

TEST(ApiReply, AnAnswerThatFailedIsAnError) {
  const auto reply = completion_reply(R"({"prompt":"1","n":2})");
  engine::Update failed = end_of(1, FinishReason::kError);
  failed.end->error = "attention row 5: a score is not finite";
  reply->add(0, failed);
  EXPECT_TRUE(reply->finished());
  EXPECT_EQ(refusal_of([&] { reply->body(); }), "500 - generation_failed: attention row 5: a score is not finite");
}

TEST(ApiReply, AReplyThatIsNotFinishedHasNoBody) {
  const auto reply = completion_reply(R"({"prompt":"1","n":2})");
  reply->add(0, end_of(0, FinishReason::kStop));
  EXPECT_EQ(error_of([&] { reply->body(); }), "internal error: a reply was asked for before its end");
  EXPECT_EQ(error_of([&] { reply->add(0, end_of(2, FinishReason::kStop)); }),
            "internal error: an update of a choice that was not requested");
}

}  // namespace
}  // namespace reprofuse::server
