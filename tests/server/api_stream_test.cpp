// Streams: which chunk carries what, and that it does not depend on how the engine's updates were cut.
#include "server/api_reply_support.hpp"

namespace reprofuse::server {
namespace {

using engine::FinishReason;
using Lines = std::vector<std::string>;

class ApiStream : public testing::Test {
 protected:
  void feed(const engine::Update& update, std::size_t prompt = 0) {
    for (const std::string& line : chunks_of(*reply_, prompt, update)) lines_.push_back(Json::parse(line));
  }
  void finish() {
    EXPECT_TRUE(reply_->finished());
    for (const std::string& line : last_chunks_of(*reply_)) lines_.push_back(Json::parse(line));
  }
  // The chunks whose choices are these, with what else stands beside the choices.
  void expect_chunks(const std::string& id, const std::string& object, const std::string& choices,
                     const Json& beside = Json::object()) {
    Json expected = Json::array();
    for (const Json& choice : Json::parse(choices)) {
      expected.push_back(reply_head(id, object));
      expected.back()["choices"] = Json::array({choice});
      expected.back().update(beside);
    }
    EXPECT_EQ(Json(lines_), expected);
  }

  std::unique_ptr<Reply> reply_;
  std::vector<Json> lines_;
};

TEST_F(ApiStream, AChatOpensWithTheRoleAndEndsWithTheReason) {
  reply_ = chat_reply(R"({"stream":true})");
  feed(tokens_of(0, {token(49, "1"), token(50, "")}));
  feed(tokens_of(0, {token(51, "23")}));
  EXPECT_FALSE(reply_->finished());
  feed(end_of(0, FinishReason::kStop));
  finish();
  expect_chunks("chatcmpl-1", "chat.completion.chunk", R"([
    {"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null},
    {"index":0,"delta":{"content":"1"},"logprobs":null,"finish_reason":null},
    {"index":0,"delta":{"content":"23"},"logprobs":null,"finish_reason":null},
    {"index":0,"delta":{},"logprobs":null,"finish_reason":"stop","stop_reason":null}])");
}

TEST_F(ApiStream, ACompletionHasNoOpening) {
  reply_ = completion_reply(R"({"prompt":["1","2"],"n":2,"stream":true,"stop":"end"})");
  feed(tokens_of(0, {token(49, "1")}), 1);
  feed(tokens_of(1, {token(50, "2")}), 0);
  feed(end_of(1, FinishReason::kLength, "held"), 0);
  engine::Update stopped = end_of(0, FinishReason::kStop);
  stopped.end->stop_string = "end";
  feed(stopped, 1);
  expect_chunks("cmpl-1", "text_completion", R"([
    {"index":2,"text":"1","logprobs":null,"finish_reason":null},
    {"index":1,"text":"2","logprobs":null,"finish_reason":null},
    {"index":1,"text":"held","logprobs":null,"finish_reason":"length","stop_reason":null},
    {"index":2,"text":"","logprobs":null,"finish_reason":"stop","stop_reason":"end"}])");
  EXPECT_FALSE(reply_->finished());
}

TEST_F(ApiStream, EveryTokenHasItsChunkWhenMoreThanItsTextIsAsked) {
  reply_ = chat_reply(R"({"stream":true,"logprobs":true,"top_logprobs":1,"digest":true,"return_token_ids":true})");
  feed(tokens_of(
      0, {token(49, "", likely(-0.5F, 1, {{49, -0.5F}}), "d1"), token(50, "12", likely(-2, 2, {{49, -0.5F}}), "d2")}));
  engine::Update end = end_of(0, FinishReason::kLength, "!");
  end.end->digest = "d2";
  feed(end);
  ASSERT_EQ(lines_.size(), 4U);
  EXPECT_EQ(lines_[0]["prompt_token_ids"].size(), 12U);
  lines_[0].erase("prompt_token_ids");
  expect_chunks("chatcmpl-1", "chat.completion.chunk", R"([
    {"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null},
    {"index":0,"delta":{"content":""},"logprobs":{"content":[{"token":"1","logprob":-0.5,"bytes":[49],
       "top_logprobs":[{"token":"1","logprob":-0.5,"bytes":[49]}]}],"refusal":null},
     "finish_reason":null,"token_ids":[49],"digest":"d1"},
    {"index":0,"delta":{"content":"12"},"logprobs":{"content":[{"token":"2","logprob":-2.0,"bytes":[50],
       "top_logprobs":[{"token":"1","logprob":-0.5,"bytes":[49]}]}],"refusal":null},
     "finish_reason":null,"token_ids":[50],"digest":"d2"},
    {"index":0,"delta":{"content":"!"},"logprobs":null,"finish_reason":"length","stop_reason":null,"digest":"d2"}])");
}

TEST_F(ApiStream, TheUsageComesLastOrWithEveryChunk) {
  reply_ = chat_reply(R"({"stream":true,"stream_options":{"include_usage":true}})");
  feed(tokens_of(0, {token(49, "1"), token(50, "")}));
  feed(end_of(0, FinishReason::kStop));
  finish();
  ASSERT_EQ(lines_.size(), 4U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(lines_[i].contains("usage") && lines_[i]["usage"].is_null());
  Json last = reply_head("chatcmpl-1", "chat.completion.chunk");
  last["choices"] = Json::array();
  last["usage"] = usage_of(12, 2);
  EXPECT_EQ(lines_[3], last);

  lines_.clear();
  reply_ = completion_reply(R"({"prompt":"1","stream":true,"stream_options":{"continuous_usage_stats":true}})");
  feed(tokens_of(0, {token(49, "1"), token(50, "2")}));
  feed(end_of(0, FinishReason::kStop));
  finish();
  ASSERT_EQ(lines_.size(), 3U);
  for (const int i : {0, 1, 2})
    EXPECT_EQ(lines_[static_cast<std::size_t>(i)]["usage"], usage_of(2, std::min(i + 1, 2)));
}

TEST_F(ApiStream, AnEchoOpensEachChoice) {
  reply_ = completion_reply(
      R"({"prompt":"12","echo":true,"logprobs":1,"n":2,"max_tokens":1,"stream":true,"return_token_ids":true})");
  const std::string of_prompt = R"("text":"12","logprobs":{"tokens":["<|begin_of_text|>","1","2"],
    "token_logprobs":[null,-1.0,-2.0],"top_logprobs":[null,{"1":-1.0},{"3":-0.5,"2":-2.0}],"text_offset":[0,0,1]},
    "finish_reason":null,"prompt_token_ids":[1019,49,50],"token_ids":[]})";
  const std::string of_token = R"("text":"5","logprobs":{"tokens":["5"],"token_logprobs":[-1.0],
    "top_logprobs":[{"5":-1.0}],"text_offset":[2]},"finish_reason":null,"token_ids":[53]})";
  const std::string of_end = R"("text":"","logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":[]})";
  const engine::AnswerToken five = token(53, "5", likely(-1, 1, {{53, -1}}));
  feed(prompt_of({{1019, {}}, {49, likely(-1, 1, {{49, -1}})}}));
  feed(tokens_of(1, {five}));
  EXPECT_TRUE(lines_.empty()) << "the prompt is not known yet";
  feed(prompt_of({{50, likely(-2, 2, {{51, -0.5F}})}}));
  EXPECT_EQ(lines_.size(), 3U) << "both prompts, and the token that waited";
  feed(end_of(1, FinishReason::kLength));
  feed(tokens_of(0, {five}));
  feed(end_of(0, FinishReason::kLength));
  finish();
  const auto choice = [](int index, const std::string& rest) {
    return R"({"index":)" + std::to_string(index) + "," + rest;
  };
  expect_chunks("cmpl-1", "text_completion",
                "[" + choice(0, of_prompt) + "," + choice(1, of_prompt) + "," + choice(1, of_token) + "," +
                    choice(1, of_end) + "," + choice(0, of_token) + "," + choice(0, of_end) + "]");
}

TEST_F(ApiStream, TheChunksDoNotDependOnHowTheNewsWereCut) {
  const std::vector<engine::AnswerToken> tokens = {token(49, "1"), token(50, ""), token(51, "23"), token(52, "4")};
  const auto lines_of = [&](std::size_t at_a_time, bool end_apart) {
    const auto reply = chat_reply(R"({"stream":true,"stream_options":{"continuous_usage_stats":true}})");
    Lines all;
    const auto take = [&](const engine::Update& update) {
      for (std::string& line : chunks_of(*reply, 0, update)) all.push_back(std::move(line));
    };
    engine::Update update;
    for (const engine::AnswerToken& next : tokens) {
      update.tokens.push_back(next);
      if (update.tokens.size() < at_a_time) continue;
      take(std::exchange(update, {}));
    }
    if (end_apart) take(std::exchange(update, {}));
    update.end = end_of(0, FinishReason::kStop).end;
    take(update);
    return all;
  };
  const Lines one_by_one = lines_of(1, true);
  ASSERT_EQ(one_by_one.size(), 5U);
  for (const std::size_t at_a_time : {1, 2, 3, 4, 9})
    for (const bool end_apart : {false, true}) EXPECT_EQ(lines_of(at_a_time, end_apart), one_by_one) << at_a_time;
}

TEST_F(ApiStream, TheTextOfAStreamIsTheTextOfTheReply) {
  const engine::Update updates[] = {tokens_of(0, {token(49, "1"), token(50, "")}), tokens_of(0, {token(51, "\u20ac")}),
                                    end_of(0, FinishReason::kLength, "?")};
  const auto whole = completion_reply(R"({"prompt":"1","echo":true})");
  reply_ = completion_reply(R"({"prompt":"1","echo":true,"stream":true})");
  for (const engine::Update& update : updates) {
    whole->add(0, update);
    feed(update);
  }
  std::string text;
  for (const Json& line : lines_) text += line["choices"][0]["text"].get<std::string>();
  EXPECT_EQ(Json::parse(whole->body())["choices"][0]["text"], text);
  EXPECT_EQ(text, "11\u20ac?");
}

TEST_F(ApiStream, AFailureIsTheLastLine) {
  reply_ = chat_reply(R"({"stream":true,"n":2,"stream_options":{"include_usage":true}})");
  feed(tokens_of(0, {token(49, "1")}));
  engine::Update failed = end_of(1, FinishReason::kError);
  failed.end->error = "the GPU was lost";
  feed(failed);
  EXPECT_EQ(lines_.back(), Json::parse(R"({"error":{"message":"the GPU was lost","type":"server_error","param":null,
                                           "code":"generation_failed"}})"));
  const std::size_t so_far = lines_.size();
  feed(tokens_of(0, {token(49, "1")}));
  finish();
  EXPECT_EQ(lines_.size(), so_far);
}

TEST_F(ApiStream, AFailureWhileThePromptIsReadIsToldAtOnce) {
  reply_ = completion_reply(R"({"prompt":"12","echo":true,"logprobs":1,"stream":true})");
  engine::Update failed = end_of(0, FinishReason::kError);
  failed.end->error = "a score is not finite";
  feed(prompt_of({{1019, {}}}));
  feed(failed);
  ASSERT_EQ(lines_.size(), 1U);
  EXPECT_TRUE(lines_[0].contains("error"));
  finish();
}

}  // namespace
}  // namespace reprofuse::server
