// /v1/completions: what clients send, what it means to the engine, and what is refused.
#include "server/api_support.hpp"
#include "server/openai/call.hpp"

namespace reprofuse::server {
namespace {

using Ids = std::vector<std::int32_t>;

CompletionCall parsed(const std::string& body, const CallRules& rules = {}, const Caller& caller = {}) {
  return parse_completion(body, served(), rules, caller);
}

engine::Request request_of(const std::string& fields, const CallRules& rules = {}, const Caller& caller = {}) {
  return parsed(with(R"({"prompt":"12"})", fields), rules, caller).requests.at(0);
}

TEST(ApiCompletion, ABarePromptHasOpenAisDefaults) {
  const CompletionCall call = parsed(R"({"model":"arithmetic-7m","prompt":"12"})");
  ASSERT_EQ(call.requests.size(), 1U);
  const engine::Request& request = call.requests[0];
  EXPECT_EQ(request.prompt, (Ids{1019, 49, 50}));
  EXPECT_EQ(request.max_tokens, 16);
  EXPECT_EQ(request.choices, 1);
  EXPECT_EQ(request.priority, 0);
  EXPECT_EQ(request.sampling.temperature, 0.0F) << "as generation_config.json says";
  EXPECT_EQ(request.sampling.seed, 0U);
  EXPECT_EQ(request.stop_tokens, served().files->stop_tokens());
  EXPECT_TRUE(request.stop_strings.empty());
  EXPECT_TRUE(request.skip_special_tokens);
  EXPECT_FALSE(request.keep_stop_string || request.digest != DigestKind::kNone);
  EXPECT_EQ(request.logprobs, -1);
  EXPECT_EQ(request.prompt_logprobs, -1);
  EXPECT_FALSE(call.stream || call.include_usage || call.continuous_usage || call.echo || call.return_token_ids);
}

TEST(ApiCompletion, EveryKindOfPromptBecomesTokens) {
  const struct {
    const char* prompt;
    std::vector<Ids> expected;
  } cases[] = {{R"("12")", {{1019, 49, 50}}},
               {R"("")", {{1019}}},
               {R"(["12"])", {{1019, 49, 50}}},
               {R"(["1","2"])", {{1019, 49}, {1019, 50}}},
               {"[49]", {{49}}},
               {"[49,0,1023]", {{49, 0, 1023}}},
               {"[[49,50]]", {{49, 50}}},
               {"[[49],[50,51]]", {{49}, {50, 51}}}};
  for (const auto& [prompt, expected] : cases) {
    std::vector<Ids> prompts;
    for (const engine::Request& request : parsed(R"({"prompt":)" + std::string(prompt) + "}").requests)
      prompts.push_back(request.prompt);
    EXPECT_EQ(prompts, expected) << prompt;
  }
  EXPECT_EQ(request_of(R"({"add_special_tokens":false})").prompt, (Ids{49, 50}));
}

TEST(ApiCompletion, EveryFieldReachesTheEngine) {
  const engine::Request request = request_of(
      R"({"max_tokens":7,"temperature":0.7,"top_p":0.9,"top_k":40,"min_p":0.05,"repetition_penalty":1.1,"seed":42,
          "n":3,"best_of":3,"stop":["a","\n"],"stop_token_ids":[5,6],"include_stop_str_in_output":true,
          "skip_special_tokens":false,"logprobs":5,"prompt_logprobs":2,"priority":-4,"digest":true})",
      {.allow_priority = true, .report_cached_tokens = false});
  EXPECT_EQ(request.max_tokens, 7);
  EXPECT_EQ(request.sampling.temperature, 0.7F);
  EXPECT_EQ(request.sampling.top_p, 0.9F);
  EXPECT_EQ(request.sampling.top_k, 40);
  EXPECT_EQ(request.sampling.min_p, 0.05F);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.1F);
  EXPECT_EQ(request.sampling.seed, 42U);
  EXPECT_EQ(request.choices, 3);
  EXPECT_EQ(request.stop_strings, (std::vector<std::string>{"a", "\n"}));
  EXPECT_EQ(request.stop_tokens, (Ids{5, 6, 1023, 1020}));
  EXPECT_TRUE(request.keep_stop_string && request.digest == DigestKind::kTree1);
  EXPECT_FALSE(request.skip_special_tokens);
  EXPECT_EQ(request.logprobs, 5);
  EXPECT_EQ(request.prompt_logprobs, 2);
  EXPECT_EQ(request.priority, -4);
  EXPECT_EQ(request_of(R"({"cache_salt":"a"})", {}, {.cache_salt = "key"}).cache_salt, "key a");
  EXPECT_NE(request_of("{}", {}, {.cache_salt = "key"}).cache_salt,
            request_of("{}", {}, {.cache_salt = "other"}).cache_salt);
  EXPECT_EQ(request_of(R"({"ignore_eos":true,"stop_token_ids":[5]})").stop_tokens, Ids{5});
  EXPECT_EQ(request_of(R"({"stop":"a"})").stop_strings, std::vector<std::string>{"a"});
  EXPECT_TRUE(request_of(R"({"stop":[]})").stop_strings.empty());
  for (const char* all : {R"({"top_k":-1})", R"({"top_k":0})"}) EXPECT_EQ(request_of(all).sampling.top_k, 0);
}

TEST(ApiCompletion, ASeedIsAny64Bits) {
  EXPECT_EQ(request_of(R"({"seed":-1})").sampling.seed, UINT64_MAX);
  EXPECT_EQ(request_of(R"({"seed":-9223372036854775808})").sampling.seed, std::uint64_t{1} << 63);
  EXPECT_EQ(request_of(R"({"seed":18446744073709551615})").sampling.seed, UINT64_MAX);
  EXPECT_EQ(request_of(R"({"seed":null})").sampling.seed, 0U);
}

TEST(ApiCompletion, SamplingIsTheModelsUnlessTheClientSays) {
  const AlteredModel model("generation_config.json",
                           R"({"do_sample":true,"temperature":0.6,"top_k":20,"top_p":0.95,"repetition_penalty":1.05})");
  const auto sampling = [&](const char* body) { return parse_completion(body, model.facts()).requests[0].sampling; };
  const SamplingParams own = sampling(R"({"prompt":"1"})");
  EXPECT_EQ(own.temperature, 0.6F);
  EXPECT_EQ(own.top_k, 20);
  EXPECT_EQ(own.top_p, 0.95F);
  EXPECT_EQ(own.repetition_penalty, 1.05F);
  const SamplingParams asked = sampling(R"({"prompt":"1","temperature":0,"top_k":-1,"top_p":1})");
  EXPECT_EQ(asked.temperature, 0.0F);
  EXPECT_EQ(asked.top_k, 0);
  EXPECT_EQ(asked.top_p, 1.0F);
  EXPECT_EQ(asked.repetition_penalty, 1.05F);
}

TEST(ApiCompletion, AnAnswerHasTheRoomThatThePromptLeaves) {
  const auto tokens_for = [](int prompt, const std::string& fields) {
    const Json body = {{"prompt", Ids(static_cast<std::size_t>(prompt), 49)}};
    return parsed(with(body.dump(), fields)).requests[0].max_tokens;
  };
  EXPECT_EQ(tokens_for(1000, "{}"), 16);
  EXPECT_EQ(tokens_for(1020, "{}"), 4);
  EXPECT_EQ(tokens_for(1020, R"({"max_tokens":4})"), 4);
  EXPECT_EQ(tokens_for(1024, R"({"max_tokens":0})"), 0);
  const auto refused = [&](int prompt, const std::string& fields) {
    return refusal_of([&] { tokens_for(prompt, fields); });
  };
  const std::string begin = " context_length_exceeded: this model's maximum context length is 1024 tokens; prompt has ";
  EXPECT_EQ(refused(1020, R"({"max_tokens":5})"),
            "400 max_tokens" + begin + "1020 tokens and max_tokens is 5: at most 4 fit");
  EXPECT_EQ(refused(1024, "{}"), "400 prompt" + begin + "1024 tokens, which leaves no room for an answer");
  EXPECT_EQ(refused(1024, R"({"max_tokens":5})"),
            "400 prompt" + begin + "1024 tokens, which leaves no room for an answer");
  EXPECT_EQ(refused(1025, R"({"max_tokens":0})"), "400 prompt" + begin + "1025 tokens");
  EXPECT_EQ(refused(1, R"({"max_tokens":9223372036854775807})"),
            "400 max_tokens" + begin + "1 tokens and max_tokens is 9223372036854775807: at most 1023 fit");
}

TEST(ApiCompletion, AnEchoIsThePromptAsItWasGiven) {
  const auto echoed = [](const std::string& fields) {
    return parsed(with(R"({"echo":true,"max_tokens":0})", fields)).prompt_texts;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(echoed(R"({"prompt":"1 <|eot_id|> 2"})"), Texts{"1 <|eot_id|> 2"});
  EXPECT_EQ(echoed(R"({"prompt":[1019,49,50]})"), Texts{"12"});
  EXPECT_EQ(echoed(R"({"prompt":[1019,49],"skip_special_tokens":false})"), Texts{"<|begin_of_text|>1"});
  EXPECT_EQ(echoed(R"({"prompt":["1","2"]})"), (Texts{"1", "2"}));
  EXPECT_TRUE(parsed(R"({"prompt":"1"})").prompt_texts.empty());
  EXPECT_EQ(request_of(R"({"echo":true,"logprobs":3})").prompt_logprobs, 3);
  EXPECT_EQ(request_of(R"({"echo":true,"logprobs":3,"prompt_logprobs":5})").prompt_logprobs, 5);
  EXPECT_EQ(request_of(R"({"echo":false,"logprobs":3})").prompt_logprobs, -1);
}

TEST(ApiCompletion, TheRequestsOfKnownClientsAreTaken) {
  const char* bodies[] = {
      // lm-evaluation-harness, local-completions: log-likelihoods, then text
      R"({"model":"arithmetic-7m","prompt":[[1019,49,50],[1019,51]],"temperature":0,"max_tokens":1,"logprobs":1,
          "seed":1234,"echo":true})",
      R"({"prompt":["1 + 1 =","2 + 2 ="],"model":"arithmetic-7m","max_tokens":256,"temperature":0,
          "stop":["\n\n","Question:","</s>"],"seed":1234})",
      // openai-python and openai-node
      R"({"model":"arithmetic-7m","prompt":"1","best_of":1,"echo":false,"frequency_penalty":0,"logit_bias":{},
          "logprobs":null,"max_tokens":16,"n":1,"presence_penalty":0,"seed":0,"stop":null,"stream":true,
          "stream_options":{"include_usage":true},"suffix":null,"temperature":1,"top_p":1,"user":"user-1234"})",
      // langchain
      R"({"model":"arithmetic-7m","temperature":0.7,"top_p":1,"frequency_penalty":0,"presence_penalty":0,"n":1,
          "logit_bias":{},"max_tokens":256,"prompt":["1"]})",
      // vLLM's benchmark_serving and its extra parameters
      R"({"model":"arithmetic-7m","prompt":"1","temperature":0.0,"repetition_penalty":1.0,"max_tokens":128,
          "logprobs":null,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},
          "ignore_eos":true,"min_tokens":0,"spaces_between_special_tokens":true,"use_beam_search":false,
          "length_penalty":1.0,"priority":0,"return_tokens_as_token_ids":true,"request_id":"r"})",
  };
  for (const char* body : bodies) EXPECT_EQ(refusal_of([&] { parsed(body); }), "accepted") << body;
  const CompletionCall call = parsed(bodies[4]);
  EXPECT_TRUE(call.stream && call.include_usage && call.continuous_usage && call.tokens_as_ids);
}

TEST(ApiCompletion, WhatItCannotDoOrUnderstandIsRefused) {
  const Refusal cases[] = {
      {R"({"temprature":0.5})",
       "400 temprature unknown_parameter: unrecognized request argument supplied: 'temprature'; did you mean "
       "'temperature'?"},
      {R"({"messages":[]})", "400 messages unknown_parameter: unrecognized request argument supplied: 'messages'"},
      {R"({"model":"gpt-4o"})",
       "404 model model_not_found: the model 'gpt-4o' does not exist; this server has 'arithmetic-7m'"},
      {R"({"model":7})", "400 model invalid_value: model is 7, not a string"},
      {R"({"prompt":null})", "400 prompt missing_required_parameter: prompt is missing"},
      {R"({"max_tokens":-1})", "400 max_tokens invalid_value: max_tokens is -1, not an integer of 64 bits, at least 0"},
      {R"({"temperature":-0.1})",
       "400 temperature invalid_value: temperature is -0.1, not a number of at least 0 that FP32 can hold"},
      {R"({"temperature":1e300})",
       "400 temperature invalid_value: temperature is 1e+300, not a number of at least 0 that FP32 can hold"},
      {R"({"temperature":"hot"})",
       "400 temperature invalid_value: temperature is 'hot', not a number of at least 0 that FP32 can hold"},
      {R"({"top_p":1.5})", "400 top_p invalid_value: top_p is 1.5, not a number from 0 to 1"},
      {R"({"top_k":-2})", "400 top_k invalid_value: top_k is -2, not an integer of 32 bits, at least -1"},
      {R"({"repetition_penalty":0})",
       "400 repetition_penalty invalid_value: repetition_penalty is 0, not a number from 0.01 to 100"},
      {R"({"seed":1.5})", "400 seed invalid_value: seed is 1.5, not an integer of 64 bits"},
      {R"({"seed":18446744073709551616})",
       "400 seed invalid_value: seed is 1.8446744073709552e+19, not an integer of 64 bits"},
      {R"({"n":0})", "400 n invalid_value: n is 0, not an integer from 1 to 128"},
      {R"({"n":129})", "400 n invalid_value: n is 129, not an integer from 1 to 128"},
      {R"({"n":2,"best_of":3})",
       "400 best_of unsupported_value: best_of is 3; only the value of n, which is 2, is supported"},
      {R"({"stop":""})", "400 stop invalid_value: stop is '', not a string of 1 to 1024 bytes, or a list of them"},
      {R"({"stop":["a",7]})",
       R"(400 stop invalid_value: stop is ["a",7], not a string of 1 to 1024 bytes, or a list of them)"},
      {R"({"stop":{}})", "400 stop invalid_value: stop is {}, not a string of 1 to 1024 bytes, or a list of them"},
      {R"({"stop_token_ids":[1024]})",
       "400 stop_token_ids invalid_value: stop_token_ids[0] is 1024, not a token id from 0 to 1023"},
      {R"({"logprobs":21})", "400 logprobs invalid_value: logprobs is 21, not an integer from 0 to 20"},
      {R"({"logprobs":true})", "400 logprobs invalid_value: logprobs is true, not an integer from 0 to 20"},
      {R"({"prompt_logprobs":-1})",
       "400 prompt_logprobs invalid_value: prompt_logprobs is -1, not an integer from 0 to 20"},
      {R"({"prompt_logprobs":1,"stream":true})",
       "400 prompt_logprobs invalid_value: prompt_logprobs do not go with stream"},
      {R"({"stream_options":{"include_usage":true}})",
       "400 stream_options invalid_value: stream_options go with stream"},
      {R"({"stream":true,"stream_options":{"usage":true}})",
       "400 stream_options.usage unknown_parameter: unrecognized request argument supplied: 'stream_options.usage'"},
      {R"({"stream":true,"stream_options":{"include_usage":1}})",
       "400 stream_options.include_usage invalid_value: stream_options.include_usage is 1, not true or false"},
      {R"({"suffix":"end"})", "400 suffix unsupported_value: suffix is 'end'; only null is supported"},
      {R"({"presence_penalty":0.5})",
       "400 presence_penalty unsupported_value: presence_penalty is 0.5; only 0 is supported"},
      {R"({"logit_bias":{"50256":-100}})",
       R"(400 logit_bias unsupported_value: logit_bias is {"50256":-100}; only {} is supported)"},
      {R"({"response_format":{"type":"json_object"}})",
       R"(400 response_format unsupported_value: response_format is {"type":"json_object"}; only {"type":"text"} is )"
       "supported"},
      {R"({"min_tokens":5})", "400 min_tokens unsupported_value: min_tokens is 5; only 0 is supported"},
      {R"({"priority":2147483648})", "400 priority invalid_value: priority is 2147483648, not an integer of 32 bits"},
  };
  for (const Refusal& refusal : cases)
    EXPECT_EQ(refusal_of([&] { request_of(refusal.body); }), refusal.expected) << refusal.body;
}

TEST(ApiCompletion, APromptOfAnotherTypeIsRefused) {
  for (const char* prompt : {"7", "true", "{}", "[]", "[\"1\",2]", "[[1],\"2\"]", "[null]", "[[1],2]", "[true]"}) {
    const std::string body = R"({"prompt":)" + std::string(prompt) + "}";
    EXPECT_EQ(refusal_of([&] { parsed(body); }), "400 prompt invalid_value: prompt is " + std::string(prompt) +
                                                     ", not a string, a list of token ids, or a list of either");
  }
  const Refusal cases[] = {
      {R"({"prompt":[1,2.5]})", "400 prompt invalid_value: prompt[1] is 2.5, not a token id from 0 to 1023"},
      {R"({"prompt":[1024]})", "400 prompt invalid_value: prompt[0] is 1024, not a token id from 0 to 1023"},
      {R"({"prompt":[-1]})", "400 prompt invalid_value: prompt[0] is -1, not a token id from 0 to 1023"},
      {R"({"prompt":[[1],[1,1024]]})",
       "400 prompt[1] invalid_value: prompt[1][1] is 1024, not a token id from 0 to 1023"},
      {R"({"prompt":[[]]})", "400 prompt invalid_value: prompt has no tokens"},
      {R"({"prompt":[[1],[]]})", "400 prompt[1] invalid_value: prompt[1] has no tokens"},
      {R"({"prompt":"","add_special_tokens":false})", "400 prompt invalid_value: prompt has no tokens"},
  };
  for (const Refusal& refusal : cases)
    EXPECT_EQ(refusal_of([&] { parsed(refusal.body); }), refusal.expected) << refusal.body;
}

TEST(ApiCompletion, WhoGoesFirstIsTheServersToSay) {
  EXPECT_EQ(refusal_of([] { request_of(R"({"priority":-1})"); }),
            "400 priority unsupported_value: priority is -1; this server was started without --allow-priority and "
            "takes only 0");
  EXPECT_EQ(request_of(R"({"priority":0})").priority, 0);
  EXPECT_EQ(request_of(R"({"priority":-1})", {.allow_priority = true, .report_cached_tokens = false}).priority, -1);
}

TEST(ApiCompletion, WithoutATokenizerTokenIdsAreTaken) {
  const AlteredModel model("tokenizer.json", std::nullopt);
  const ServedFacts facts = model.facts();
  const CompletionCall call = parse_completion(R"({"prompt":[49,50],"echo":true})", facts);
  EXPECT_EQ(call.requests[0].prompt, (Ids{49, 50}));
  EXPECT_EQ(call.prompt_texts, std::vector<std::string>{""});
  const std::string refusal = refusal_of([&] { parse_completion(R"({"prompt":"12"})", facts); });
  EXPECT_EQ(refusal.find("400 prompt unsupported: there is no tokenizer, only token ids: "), 0U) << refusal;
}

}  // namespace
}  // namespace reprofuse::server
