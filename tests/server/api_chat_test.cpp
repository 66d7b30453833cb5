// /v1/chat/completions: what clients send, what it means to the engine, and what is refused.
#include "server/api_support.hpp"
#include "server/openai/call.hpp"

namespace reprofuse::server {
namespace {

const std::string kHello = R"({"messages":[{"role":"user","content":"12"}]})";

ChatCall parsed_chat(const std::string& body) {
  return parse_chat(body, served());
}

engine::Request chat_request(const std::string& fields) {
  return parsed_chat(with(kHello, fields)).requests.at(0);
}

std::string with_message(const std::string& message) {
  return R"({"messages":[)" + message + "]}";
}

std::string prompt_text(const std::string& body, const ServedFacts& facts) {
  return facts.files->text().tokenizer().decode(parse_chat(body, facts).requests[0].prompt, false);
}

TEST(ApiChat, AMessageGoesThroughTheTemplate) {
  const ChatCall call = parsed_chat(kHello);
  ASSERT_EQ(call.requests.size(), 1U);
  const engine::Request& request = call.requests[0];
  EXPECT_EQ(request.prompt,
            (std::vector<std::int32_t>{1019, 1021, 282, 1022, 263, 49, 50, 1023, 1021, 281, 1022, 263}));
  EXPECT_EQ(request.max_tokens, 400) << "as generation_config.json says";
  EXPECT_EQ(request.stop_tokens, served().files->stop_tokens());
  EXPECT_EQ(request.logprobs, -1);
  EXPECT_FALSE(call.stream);
  EXPECT_EQ(prompt_text(with(kHello, R"({"add_generation_prompt":false})"), served()),
            "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n12<|eot_id|>");
}

TEST(ApiChat, EveryRoleAndKindOfContentIsTaken) {
  EXPECT_EQ(prompt_text(R"({"messages":[{"role":"system","content":"Be brief."},
                            {"role":"developer","content":[{"type":"text","text":"Add."}]},
                            {"role":"user","content":[{"type":"text","text":"1"},{"type":"text","text":"2"}]},
                            {"role":"assistant","content":"3","refusal":null,"annotations":[],"tool_calls":[]},
                            {"role":"user","content":"","name":"Tom"}]})",
                        served()),
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
            "<|start_header_id|>developer<|end_header_id|>\n\nAdd.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\n1\n2<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n3<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\n<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

TEST(ApiChat, TheAnswersLengthHasTwoNames) {
  EXPECT_EQ(chat_request(R"({"max_tokens":5})").max_tokens, 5);
  EXPECT_EQ(chat_request(R"({"max_completion_tokens":6})").max_tokens, 6);
  EXPECT_EQ(chat_request(R"({"max_completion_tokens":6,"max_tokens":6})").max_tokens, 6);
  EXPECT_EQ(chat_request(R"({"max_completion_tokens":6,"max_tokens":null})").max_tokens, 6);
  EXPECT_EQ(refusal_of([] { chat_request(R"({"max_completion_tokens":6,"max_tokens":5})"); }),
            "400 max_completion_tokens invalid_value: max_tokens is 5 and max_completion_tokens, which means the same, "
            "6");
  EXPECT_EQ(refusal_of([] { chat_request(R"({"max_tokens":1013})"); }),
            "400 max_tokens context_length_exceeded: this model's maximum context length is 1024 tokens; messages has "
            "12 tokens and max_tokens is 1013: at most 1012 fit");
  EXPECT_EQ(refusal_of([] {
              chat_request(R"({"max_completion_tokens":1013})");
            }).find("400 max_completion_tokens context_length_exceeded"),
            0U);
  EXPECT_EQ(chat_request(R"({"max_tokens":1012})").max_tokens, 1012);
  const AlteredModel silent("generation_config.json", "{}");
  EXPECT_EQ(parse_chat(kHello, silent.facts()).requests[0].max_tokens, 1012) << "the rest of the context";
}

TEST(ApiChat, LogprobsAreAFlagAndANumber) {
  EXPECT_EQ(chat_request(R"({"logprobs":true})").logprobs, 0);
  EXPECT_EQ(chat_request(R"({"logprobs":true,"top_logprobs":20})").logprobs, 20);
  EXPECT_EQ(chat_request(R"({"logprobs":false,"top_logprobs":0})").logprobs, -1);
  EXPECT_EQ(refusal_of([] { chat_request(R"({"top_logprobs":5})"); }),
            "400 top_logprobs invalid_value: top_logprobs is 5, but logprobs is not true");
  EXPECT_EQ(refusal_of([] { chat_request(R"({"logprobs":1})"); }),
            "400 logprobs invalid_value: logprobs is 1, not true or false");
  EXPECT_EQ(refusal_of([] { chat_request(R"({"logprobs":true,"top_logprobs":21})"); }),
            "400 top_logprobs invalid_value: top_logprobs is 21, not an integer from 0 to 20");
}

TEST(ApiChat, TheRequestsOfKnownClientsAreTaken) {
  const char* fields[] = {
      // openai-python and openai-node
      R"({"model":"arithmetic-7m","frequency_penalty":0,"presence_penalty":0,"logit_bias":null,"logprobs":false,
          "top_logprobs":null,"n":1,"seed":7,"stop":["\n"],"stream":true,"stream_options":{"include_usage":true},
          "temperature":0.2,"top_p":0.95,"user":"u","store":false,"metadata":{"k":"v"},"service_tier":"auto",
          "response_format":{"type":"text"},"parallel_tool_calls":true,"modalities":["text"],"tool_choice":"none",
          "safety_identifier":"s","prompt_cache_key":"k"})",
      // @langchain/openai
      R"({"model":"arithmetic-7m","temperature":1,"top_p":1,"frequency_penalty":0,"presence_penalty":0,"n":1,
          "stream":false,"max_completion_tokens":20,"tools":[],"tool_choice":"auto"})",
      // vLLM's examples
      R"({"model":"arithmetic-7m","chat_template_kwargs":{},"add_generation_prompt":true,
          "continue_final_message":false,"top_k":20,"min_p":0.0,"repetition_penalty":1.05,"skip_special_tokens":false,
          "echo":false,"include_stop_str_in_output":false,"documents":null})",
      // lm-evaluation-harness, local-chat-completions
      R"({"messages":[{"role":"user","content":"1 + 1 =","type":"text"}],"model":"arithmetic-7m","max_tokens":256,
          "temperature":0,"stop":["\n\n"],"seed":1234})",
  };
  for (const char* more : fields) EXPECT_EQ(refusal_of([&] { parsed_chat(with(kHello, more)); }), "accepted") << more;
}

TEST(ApiChat, WhatItCannotDoOrUnderstandIsRefused) {
  const Refusal cases[] = {
      {R"({"temprature":0.5})",
       "400 temprature unknown_parameter: unrecognized request argument supplied: 'temprature'; did you mean "
       "'temperature'?"},
      {R"({"prompt":"1"})", "400 prompt unknown_parameter: unrecognized request argument supplied: 'prompt'"},
      {R"({"suffix":null})", "400 suffix unknown_parameter: unrecognized request argument supplied: 'suffix'"},
      {R"({"messages":null})", "400 messages missing_required_parameter: messages is missing"},
      {R"({"messages":[]})", "400 messages invalid_value: messages is [], not a list of at least one message"},
      {R"({"messages":"hi"})", "400 messages invalid_value: messages is 'hi', not a list of at least one message"},
      {R"({"max_tokens":0})", "400 max_tokens invalid_value: max_tokens is 0, not an integer of 64 bits, at least 1"},
      {R"({"continue_final_message":true})",
       "400 continue_final_message unsupported_value: continue_final_message is true; only false is supported"},
      {R"({"chat_template":"{{ 1 }}"})",
       "400 chat_template unsupported_value: chat_template is '{{ 1 }}'; only null is supported"},
      {R"({"chat_template_kwargs":[]})",
       "400 chat_template_kwargs invalid_value: chat_template_kwargs is [], not an object"},
      {R"({"chat_template_kwargs":{"messages":[]}})",
       "400 chat_template_kwargs unsupported_value: chat_template_kwargs has 'messages', which the chat template is "
       "given "
       "anyway: messages, tools and add_generation_prompt are fields of the request, tokens are the tokenizer's"},
      {R"({"tools":[{"type":"function","function":{"name":"f"}}]})",
       "400 tools unsupported_value: tools are not supported: this server does not read the calls that a model writes; "
       "leave them out, or say tool_choice 'none', with which the model is not told of them"},
      {R"({"tools":[7]})", "400 tools invalid_value: tools is [7], not a list of objects"},
      {R"({"tool_choice":"required"})",
       "400 tool_choice invalid_value: tool_choice is 'required', not 'auto' or 'none', which alone are supported"},
      {R"({"functions":[{"name":"f"}]})",
       R"(400 functions unsupported_value: functions is [{"name":"f"}]; only null is supported)"},
      {R"({"reasoning_effort":"high"})",
       "400 reasoning_effort unsupported_value: reasoning_effort is 'high'; only null is supported"},
      {R"({"response_format":{"type":"json_schema","json_schema":{}}})",
       R"(400 response_format unsupported_value: response_format is {"type":"json_schema","json_schema":{}}; only )"
       R"({"type":"text"} is supported)"},
  };
  for (const Refusal& refusal : cases)
    EXPECT_EQ(refusal_of([&] { chat_request(refusal.body); }), refusal.expected) << refusal.body;
}

TEST(ApiChat, AMessageThatMakesNoSenseIsRefused) {
  const std::string roles = "one of 'system', 'developer', 'user', 'assistant', 'tool'";
  const Refusal cases[] = {
      {R"("hi")", "400 messages[0] invalid_value: messages[0] is 'hi', not an object"},
      {"{}", "400 messages[0].role missing_required_parameter: messages[0].role is missing"},
      {R"({"role":7,"content":""})", "400 messages[0].role invalid_value: messages[0].role is 7, not a string"},
      {R"({"role":"robot","content":""})",
       "400 messages[0].role invalid_value: messages[0].role is 'robot', not " + roles},
      {R"({"role":"user"})", "400 messages[0].content missing_required_parameter: messages[0].content is missing"},
      {R"({"role":"assistant","content":null})",
       "400 messages[0].content missing_required_parameter: messages[0].content is missing"},
      {R"({"role":"user","content":7})",
       "400 messages[0].content invalid_value: messages[0].content is 7, not a string or a list of text parts"},
      {R"({"role":"user","content":["hi"]})",
       "400 messages[0].content[0] invalid_value: messages[0].content[0] is 'hi', not an object"},
      {R"({"role":"user","content":[{"type":"image_url","image_url":{"url":"data:"}}]})",
       "400 messages[0].content[0].type unsupported_value: messages[0].content[0].type is 'image_url'; only 'text' is "
       "supported"},
      {R"({"role":"user","content":[{"text":"hi"}]})",
       "400 messages[0].content[0].type unsupported_value: messages[0].content[0].type is missing; only 'text' is "
       "supported"},
      {R"({"role":"user","content":[{"type":"text"}]})",
       "400 messages[0].content[0].text missing_required_parameter: messages[0].content[0].text is missing"},
      {R"({"role":"user","content":"hi","mood":"good"})",
       "400 messages[0].mood unknown_parameter: unrecognized request argument supplied: 'messages[0].mood'"},
      {R"({"role":"assistant","content":"","refusal":"no"})",
       "400 messages[0].refusal unsupported_value: messages[0].refusal is 'no'; only null is supported"},
      {R"({"role":"assistant","tool_calls":7})",
       "400 messages[0].tool_calls invalid_value: messages[0].tool_calls is 7, not a list"},
      {R"({"role":"assistant","tool_calls":[{"function":"f"}]})",
       R"(400 messages[0].tool_calls[0] invalid_value: messages[0].tool_calls[0] is {"function":"f"}, not a call of a )"
       "function"},
      {R"({"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"[1]"}}]})",
       "400 - -: messages[0].tool_calls[0].function.arguments is [1], not a JSON object"},
      {R"({"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":7}}]})",
       "400 messages[0].tool_calls[0] invalid_value: messages[0].tool_calls[0].function.arguments is 7, not an object"},
  };
  for (const Refusal& refusal : cases)
    EXPECT_EQ(refusal_of([&] { parsed_chat(with_message(refusal.body)); }), refusal.expected) << refusal.body;
}

TEST(ApiChat, ToolCallsReachTheTemplateAsValues) {
  Json messages = Json::parse(R"([
    {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function",
      "function":{"name":"add","arguments":"{\"z\":1,\"a\":[2]}"}},{"function":{"name":"now","arguments":""}}]},
    {"role":"tool","tool_call_id":"1","content":"3"},
    {"role":"assistant","content":"3","reasoning_content":"1 + 2","function_call":null}])");
  make_template_messages(messages, SIZE_MAX);
  EXPECT_EQ(messages.dump(),
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function",)"
            R"("function":{"name":"add","arguments":{"z":1,"a":[2]}}},{"function":{"name":"now","arguments":{}}}]},)"
            R"({"role":"tool","content":"3","tool_call_id":"1"},)"
            R"({"role":"assistant","content":"3","reasoning_content":"1 + 2"}])");
}

TEST(ApiChat, VariablesReachATemplateThatTakesThemAndToolsDoNot) {
  const AlteredModel model("chat_template.jinja",
                           "{{ tools | tojson if tools else 'none' }} {{ mood }} {{ add_generation_prompt }}");
  const ServedFacts facts = model.facts();
  const std::string tools = R"([{"type":"function","function":{"name":"f","parameters":{"z":1,"a":2}}}])";
  const auto prompt = [&](const std::string& fields) { return prompt_text(with(kHello, fields), facts); };
  EXPECT_EQ(prompt(R"({"chat_template_kwargs":{"mood":"good"}})"), "none good True");
  for (const char* choice : {"", R"("tool_choice":"auto",)"})
    EXPECT_TRUE(refusal_of([&] {
                  prompt(std::string("{") + choice + R"("tools":)" + tools + "}");
                }).starts_with("400 tools unsupported_value: tools are not supported: this server does not read"));
  EXPECT_EQ(prompt(R"({"tool_choice":"none","tools":)" + tools + "}"), "none  True");
  EXPECT_EQ(prompt(R"({"tools":[],"add_generation_prompt":false})"), "none  False");
  EXPECT_EQ(refusal_of([&] { prompt(R"({"chat_template_kwargs":{"mood":"good","moood":"bad"}})"); }),
            "400 chat_template_kwargs unknown_parameter: chat_template_kwargs has 'moood', which the chat template of "
            "this model does not take; it takes mood");
}

TEST(ApiChat, ATemplateThatRefusesTheMessagesSaysWhy) {
  const AlteredModel model("chat_template.jinja", "{{ raise_exception('roles must alternate') }}");
  const std::string refusal = refusal_of([&] { parse_chat(kHello, model.facts()); });
  EXPECT_EQ(refusal.find("400 messages -: "), 0U) << refusal;
  EXPECT_NE(refusal.find("roles must alternate"), std::string::npos) << refusal;
}

TEST(ApiChat, WithoutATemplateTheReasonIsTold) {
  const AlteredModel model("chat_template.jinja", std::nullopt);
  const std::string refusal = refusal_of([&] { parse_chat(kHello, model.facts()); });
  EXPECT_EQ(refusal.find("400 messages unsupported: "), 0U) << refusal;
  EXPECT_NE(refusal.find("has no chat template"), std::string::npos) << refusal;
}

}  // namespace
}  // namespace reprofuse::server
