// /tokenize and /detokenize, in vLLM's shapes.
#include "server/api_support.hpp"
#include "server/openai/call.hpp"

namespace reprofuse::server {
namespace {

Json tokenized(const std::string& body) {
  return Json::parse(tokenize(body, served()));
}

TEST(ApiTokenize, APromptHasTheTokensThatTheModelSees) {
  EXPECT_EQ(tokenized(R"({"prompt":"12"})"), Json::parse(R"({"count":3,"max_model_len":1024,"tokens":[1019,49,50]})"));
  EXPECT_EQ(tokenized(R"({"model":"arithmetic-7m","prompt":"12","add_special_tokens":false})")["tokens"],
            Json::parse("[49,50]"));
  EXPECT_EQ(tokenized(R"({"prompt":"","add_special_tokens":false})"),
            Json::parse(R"({"count":0,"max_model_len":1024,"tokens":[]})"));
  EXPECT_EQ(tokenized(R"({"prompt":"1\u20ac","return_token_strs":true})")["token_strs"],
            Json::parse(R"(["<|begin_of_text|>","1","bytes:\\xe2","bytes:\\x82","bytes:\\xac"])"));
}

TEST(ApiTokenize, AChatGoesThroughTheTemplate) {
  const std::string body = R"({"messages":[{"role":"user","content":"12"}]})";
  const Json tokens = Json::parse("[1019,1021,282,1022,263,49,50,1023,1021,281,1022,263]");
  EXPECT_EQ(tokenized(body)["tokens"], tokens);
  EXPECT_EQ(tokenized(with(body, R"({"add_generation_prompt":false})"))["count"], 8);
  EXPECT_EQ(tokenized(with(body, R"({"add_special_tokens":true})"))["count"], 13) << "one more <|begin_of_text|>";
}

TEST(ApiTokenize, TokensBecomeTheirTextAgain) {
  const auto text_of = [](const std::string& tokens) {
    return Json::parse(detokenize(R"({"tokens":)" + tokens + "}", served()))["prompt"].get<std::string>();
  };
  EXPECT_EQ(text_of("[1019,49,50]"), "<|begin_of_text|>12");
  EXPECT_EQ(text_of("[]"), "");
  for (const char* prompt : {"Tom has 3 boxes.\n", "\u20ac\U0001f600 \u00e9", "<|eot_id|>"}) {
    const Json tokens = tokenized(Json{{"prompt", prompt}, {"add_special_tokens", false}}.dump())["tokens"];
    EXPECT_EQ(text_of(tokens.dump()), prompt);
  }
}

TEST(ApiTokenize, WhatMakesNoSenseIsRefused) {
  const Refusal cases[] = {
      {"{}", "400 prompt missing_required_parameter: prompt is missing"},
      {R"({"prompt":["1"]})", R"(400 prompt invalid_value: prompt is ["1"], not a string)"},
      {R"({"prompt":"1","messages":[{"role":"user","content":"1"}]})",
       "400 prompt unknown_parameter: unrecognized request argument supplied: 'prompt'"},
      {R"({"prompt":"1","temperature":0})",
       "400 temperature unknown_parameter: unrecognized request argument supplied: 'temperature'"},
      {R"({"messages":null})", "400 messages missing_required_parameter: messages is missing"},
      {R"({"model":"m","prompt":"1"})",
       "404 model model_not_found: the model 'm' does not exist; this server has 'arithmetic-7m'"},
  };
  for (const Refusal& refusal : cases)
    EXPECT_EQ(refusal_of([&] { tokenize(refusal.body, served()); }), refusal.expected) << refusal.body;
}

TEST(ApiDetokenize, WhatMakesNoSenseIsRefused) {
  const Refusal cases[] = {
      {"{}", "400 tokens missing_required_parameter: tokens is missing"},
      {R"({"tokens":"1"})", "400 tokens invalid_value: tokens is '1', not a list of token ids"},
      {R"({"tokens":[1,1024]})", "400 tokens invalid_value: tokens[1] is 1024, not a token id from 0 to 1023"},
      {R"({"tokens":[[1]]})", "400 tokens invalid_value: tokens[0] is [1], not a token id from 0 to 1023"},
      {R"({"tokens":[1],"prompt":"1"})",
       "400 prompt unknown_parameter: unrecognized request argument supplied: 'prompt'"},
      {R"({"model":"m","tokens":[1]})",
       "404 model model_not_found: the model 'm' does not exist; this server has 'arithmetic-7m'"},
  };
  for (const Refusal& refusal : cases)
    EXPECT_EQ(refusal_of([&] { detokenize(refusal.body, served()); }), refusal.expected) << refusal.body;
}

TEST(ApiTokenize, WithoutATokenizerTheReasonIsTold) {
  const AlteredModel model("tokenizer.json", std::nullopt);
  const std::string begin = "400 prompt unsupported: there is no tokenizer, only token ids: ";
  EXPECT_EQ(refusal_of([&] { tokenize(R"({"prompt":"1"})", model.facts()); }).find(begin), 0U);
}

}  // namespace
}  // namespace reprofuse::server
