#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "server/openai/call.hpp"
#include "server/openai/reply.hpp"

namespace reprofuse::server {
namespace {

constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool"};

// What replies contain and clients send back, though it says nothing; and a type that lm-evaluation-harness adds.
constexpr FixedValue kSayNothing[] = {
    {"refusal", "null"}, {"audio", "null"}, {"function_call", "null"}, {"annotations", "[]"}, {"type", R"("text")"}};

constexpr FixedValue kFixedForTemplates[] = {{"chat_template", "null"},
                                             {"documents", "null"},
                                             {"continue_final_message", "false"},
                                             {"mm_processor_kwargs", "null"}};

// The texts of the parts, each on a line of its own, as vLLM joins them.
std::string joined_parts(const Json& parts, const std::string& name) {
  std::string joined;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", name, i);
    if (!parts[i].is_object())
      throw bad_request(fmt::format("{} is {}, not an object", place, shown(parts[i])), place, "invalid_value");
    Fields part(parts[i], place + ".");
    const auto type = part.string("type");
    if (type != "text")
      throw bad_request(fmt::format("{}.type is {}; only 'text' is supported", place, type ? shown(*type) : "missing"),
                        place + ".type", "unsupported_value");
    const auto text = part.string("text");
    if (!text) part.fail_missing("text");
    part.refuse_the_rest();
    joined += i == 0 ? *text : "\n" + *text;
  }
  return joined;
}

std::string read_content(Fields& message, const std::string& place, bool may_be_absent) {
  const Json* content = message.find("content");
  if (content == nullptr && may_be_absent) return {};
  if (content == nullptr) message.fail_missing("content");
  if (content->is_array()) return joined_parts(*content, place + ".content");
  if (!content->is_string()) message.fail_value("content", *content, "a string or a list of text parts");
  return content->get<std::string>();
}

// {"id", "type", "function": {"name", "arguments"}}, with the arguments as values.
void make_template_call(Json& call, const std::string& place, std::size_t max_numbers, ReadGuard* guard) {
  if (!call.is_object() || !call.contains("function") || !call["function"].is_object())
    throw bad_request(fmt::format("{} is {}, not a call of a function", place, shown(call)), place, "invalid_value");
  Json& function = call["function"];
  Json& arguments = function.contains("arguments") ? function["arguments"] : add_key(function, "arguments");
  const auto* text = arguments.get_ptr<const std::string*>();
  if (arguments.is_null() || (text != nullptr && text->empty()))
    arguments = Json::object();
  else if (text != nullptr)
    arguments = std::move(*parse_object({*text, guard}, place + ".function.arguments", {}, max_numbers));
  if (!arguments.is_object())
    throw bad_request(fmt::format("{}.function.arguments is {}, not an object", place, shown(arguments)), place,
                      "invalid_value");
}

void make_template_message(Json& message, const std::string& place, std::size_t max_numbers, ReadGuard* guard) {
  if (!message.is_object())
    throw bad_request(fmt::format("{} is {}, not an object", place, shown(message)), place, "invalid_value");
  Fields fields(message, place + ".");
  const auto role = fields.string("role");
  if (!role) fields.fail_missing("role");
  if (std::find(std::begin(kRoles), std::end(kRoles), *role) == std::end(kRoles))
    fields.fail_value("role", *role, "one of 'system', 'developer', 'user', 'assistant', 'tool'");
  const Json* calls = fields.find("tool_calls");
  if (calls != nullptr && !calls->is_array()) fields.fail_value("tool_calls", *calls, "a list");
  const bool has_calls = calls != nullptr && !calls->empty();

  std::string content = read_content(fields, place, *role == "assistant" && has_calls);
  for (const char* key : {"name", "tool_call_id", "reasoning_content"}) fields.string(key);
  fields.allow_only(kSayNothing);
  fields.refuse_the_rest();
  if (has_calls) {
    Json& list = message["tool_calls"];
    for (std::size_t i = 0; i < list.size(); ++i)
      make_template_call(list[i], fmt::format("{}.tool_calls[{}]", place, i), max_numbers, guard);
  }
  OwnedJson made = Json::object();
  add_key(*made, "role") = *role;
  add_key(*made, "content") = std::move(content);
  for (const char* key : {"tool_calls", "name", "tool_call_id", "reasoning_content"}) {
    const auto found = message.find(key);
    if (found == message.end() || found->is_null() || (!has_calls && found->is_array())) continue;
    add_key(*made, key).swap(*found);
  }
  made->swap(message);
}

// A call that a model makes would come back as the text of an answer, which a client would take for the last word. So
// tools are refused until calls are read, unless the client wants none to be called.
void refuse_tools(Fields& fields) {
  const Json* tools = fields.find("tools");
  const Json* choice = fields.find("tool_choice");
  fields.boolean("parallel_tool_calls");
  if (choice != nullptr && *choice != "auto" && *choice != "none")
    fields.fail_value("tool_choice", *choice, "'auto' or 'none', which alone are supported");
  if (tools == nullptr) return;
  const auto is_object = [](const Json& tool) { return tool.is_object(); };
  if (!tools->is_array() || !std::all_of(tools->begin(), tools->end(), is_object))
    fields.fail_value("tools", *tools, "a list of objects");
  if (tools->empty() || (choice != nullptr && *choice == "none")) return;
  throw bad_request(
      "tools are not supported: this server does not read the calls that a model writes; leave them out, or say "
      "tool_choice 'none', with which the model is not told of them",
      "tools", "unsupported_value");
}

// Others that the template reads. One that it does not read was meant to change the prompt, and would not.
OwnedJson take_template_variables(Json& root, Fields& fields, const engine::TextFormat& format) {
  const Json* variables = fields.find("chat_template_kwargs");
  if (variables == nullptr) return Json::object();
  if (!variables->is_object()) fields.fail_value("chat_template_kwargs", *variables, "an object");
  const std::set<std::string>& known = format.template_variables();
  for (const auto& [name, value] : variables->items()) {
    if (format.given_variables().contains(name))
      throw bad_request(
          fmt::format("chat_template_kwargs has {}, which the chat template is given anyway: messages, tools "
                      "and add_generation_prompt are fields of the request, tokens are the tokenizer's",
                      shown(name)),
          "chat_template_kwargs", "unsupported_value");
    if (format.has_chat_template() && !known.contains(name))
      throw bad_request(
          fmt::format("chat_template_kwargs has {}, which the chat template of this model does not take; it takes {}",
                      shown(name), known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))),
          "chat_template_kwargs", "unknown_parameter");
  }
  return std::move(root["chat_template_kwargs"]);
}

constexpr FixedValue kFixedForChats[] = {
    {"modalities", R"(["text"])"}, {"audio", "null"},         {"prediction", "null"},
    {"reasoning_effort", "null"},  {"verbosity", "null"},     {"web_search_options", "null"},
    {"functions", "null"},         {"function_call", "null"}, {"echo", "false"}};

// Two names for one thing.
AnswerLength read_length(Fields& fields, const ServedFacts& facts) {
  const auto old_name = fields.integer("max_tokens", 1, INT64_MAX);
  const auto new_name = fields.integer("max_completion_tokens", 1, INT64_MAX);
  if (old_name && new_name && *old_name != *new_name)
    throw bad_request(
        fmt::format("max_tokens is {} and max_completion_tokens, which means the same, {}", *old_name, *new_name),
        "max_completion_tokens", "invalid_value");
  return {.given = new_name ? new_name : old_name,
          .preferred = facts.files->checkpoint().generation_config().max_new_tokens.value_or(facts.max_positions),
          .field = new_name ? "max_completion_tokens" : "max_tokens"};
}

int read_chat_logprobs(Fields& fields) {
  const bool wanted = fields.boolean("logprobs").value_or(false);
  const auto top_logprobs = static_cast<int>(fields.integer("top_logprobs", 0, kMaxLogprobs).value_or(0));
  if (top_logprobs > 0 && !wanted)
    throw bad_request(fmt::format("top_logprobs is {}, but logprobs is not true", top_logprobs), "top_logprobs",
                      "invalid_value");
  return wanted ? top_logprobs : -1;
}

}  // namespace

void make_template_messages(Json& messages, std::size_t max_numbers, ReadGuard* guard) {
  for (std::size_t i = 0; i < messages.size(); ++i)
    make_template_message(messages[i], fmt::format("messages[{}]", i), max_numbers, guard);
}

std::vector<std::int32_t> read_chat_prompt(Json& root, Fields& fields, const RequestBody& body,
                                           const ServedFacts& facts) {
  const engine::TextFormat& format = facts.files->text();
  const Json* messages = fields.find("messages");
  if (messages == nullptr) fields.fail_missing("messages");
  if (!messages->is_array() || messages->empty())
    fields.fail_value("messages", *messages, "a list of at least one message");
  text::ChatVariables given;
  given.date = facts.date;
  given.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
  refuse_tools(fields);
  given.variables = take_template_variables(root, fields, format);
  const TextRules rules(fields, false, body, facts);  // as a rule the template itself writes the special tokens
  fields.allow_only(kFixedForTemplates);
  OwnedJson chat = std::move(root["messages"]);
  make_template_messages(*chat, max_numbers(facts), body.guard);
  return encoded([&] { return format.encode_chat(*chat, given, rules.special_tokens, rules.options); }, facts,
                 "messages");
}

ChatCall parse_chat(const RequestBody& body, const ServedFacts& facts, const CallRules& rules, const Caller& caller) {
  OwnedJson root = parse_object(body, "the body", kHarmlessFields, max_numbers(facts));
  Fields fields(*root);
  ChatCall call;
  engine::Request common = read_common_fields(fields, facts, rules, caller, call);
  call.logprobs = read_chat_logprobs(fields);
  common.logprobs = call.logprobs;
  const AnswerLength length = read_length(fields, facts);
  fields.allow_only(kFixedForChats);
  std::vector<std::int32_t> prompt = read_chat_prompt(*root, fields, body, facts);
  fields.refuse_the_rest();
  call.requests.push_back(request_for(std::move(prompt), common, length, facts, "messages"));
  check_prompt_logprobs(call, call.prompt_logprobs + 1, 1, "prompt_logprobs");
  return call;
}

// {"object": "chat.completion"} and {"object": "chat.completion.chunk"}

namespace {

class ChatReply final : public ReplyBase {
 public:
  using ReplyBase::ReplyBase;

 private:
  std::string_view object_name() const override { return "chat.completion"; }
  std::string_view chunk_name() const override { return "chat.completion.chunk"; }
  bool has_opening() const override { return true; }
  void write_whole(JsonWriter& json, const Choice& choice) const override;
  void write_opening(JsonWriter& json, const Choice& choice) const override;
  void write_token(JsonWriter& json, const Choice& choice, const engine::AnswerToken& token) override;
  void write_end(JsonWriter& json, const Choice& choice, const engine::End& end) const override;
  void write_prompt(JsonWriter& json) const override;

  void write_logprobs(JsonWriter& json, std::span<const engine::AnswerToken> tokens) const;
};

// null unless asked for.
void ChatReply::write_logprobs(JsonWriter& json, std::span<const engine::AnswerToken> tokens) const {
  json.key("logprobs");
  if (call().logprobs < 0) return void(json.value(nullptr));
  json.object([&] {
    json.key("content").array([&] {
      for (const engine::AnswerToken& token : tokens)
        if (token.likelihood) write_chat_logprob(json, token.id, *token.likelihood, call().logprobs, names());
    });
    json.field("refusal", nullptr);
  });
}

// A chat has one prompt, so what is known of it stands outside the choices, as in vLLM.
void ChatReply::write_prompt(JsonWriter& json) const {
  const Choice of_the_prompt;
  if (call().prompt_logprobs >= 0)
    write_prompt_logprobs(json, prompt_of(of_the_prompt), call().prompt_logprobs, names());
  if (call().return_token_ids) json.field("prompt_token_ids", request_of(of_the_prompt).prompt);
}

void ChatReply::write_whole(JsonWriter& json, const Choice& choice) const {
  std::string text;
  std::vector<std::int32_t> ids;
  for (const engine::AnswerToken& token : choice.tokens) {
    text += token.text;
    ids.push_back(token.id);
  }
  text += choice.end->text;
  json.field("index", choice.index).key("message").object([&] {
    json.field("role", "assistant").field("content", text).field("refusal", nullptr);
  });
  write_logprobs(json, choice.tokens);
  write_end_facts(json, choice, *choice.end);
  if (call().return_token_ids) json.field("token_ids", ids);
}

void ChatReply::write_opening(JsonWriter& json, const Choice& choice) const {
  json.field("index", choice.index).key("delta").object([&] { json.field("role", "assistant").field("content", ""); });
  json.field("logprobs", nullptr).field("finish_reason", nullptr);
}

void ChatReply::write_token(JsonWriter& json, const Choice& choice, const engine::AnswerToken& token) {
  json.field("index", choice.index).key("delta").object([&] { json.field("content", token.text); });
  write_logprobs(json, {&token, 1});
  write_token_facts(json, token);
}

void ChatReply::write_end(JsonWriter& json, const Choice& choice, const engine::End& end) const {
  json.field("index", choice.index).key("delta").object([&] {
    if (!end.text.empty()) json.field("content", end.text);
  });
  json.field("logprobs", nullptr);
  write_end_facts(json, choice, end);
}

}  // namespace

std::unique_ptr<Reply> make_reply(const ChatCall& call, const ServedFacts& facts, std::string request_id,
                                  std::int64_t created) {
  return std::make_unique<ChatReply>(call, facts, std::move(request_id), created);
}

}  // namespace reprofuse::server
