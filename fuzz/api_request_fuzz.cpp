// The target: any bytes as the body of a request to the server. It is refused with an ApiError, or means something that
// the engine can answer; and the reply to it is JSON.
#include <algorithm>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "bytes_target.hpp"
#include "engine/model_files.hpp"
#include "server/openai/call.hpp"
#include "server/openai/error.hpp"
#include "server/openai/reply.hpp"

namespace reprofuse::fuzz {
namespace {

using server::Json;
using Violation = std::optional<std::string>;

constexpr server::CallRules kRules{.allow_priority = true, .report_cached_tokens = true};

const server::ServedFacts& facts() {
  static const engine::ModelFiles kFiles(engine::bundled_model_folder());
  static const server::ServedFacts kFacts = {.id = std::string(engine::kBundledModel),
                                             .files = &kFiles,
                                             .fingerprint = "fuzz",
                                             .max_positions = 1024,
                                             .created = 0,
                                             .date = {}};
  return kFacts;
}

Violation check_refusal(const server::ApiError& error) {
  if (error.status() < 400 || error.status() > 499) return std::string("not the client's fault: ") + error.what();
  const Json body = Json::parse(server::error_body(error));
  if (body["error"]["message"].get<std::string>().empty()) return "a refusal without a reason";
  if (server::error_body(error).size() > 4096) return "a refusal that repeats the request";
  return std::nullopt;
}

Violation check_request(const engine::Request& request) {
  const auto vocabulary = static_cast<std::int32_t>(facts().files->checkpoint().config().vocab_size);
  const auto in_vocabulary = [&](std::int32_t id) { return id >= 0 && id < vocabulary; };
  if (request.prompt.empty()) return "a prompt without tokens";
  if (!std::all_of(request.prompt.begin(), request.prompt.end(), in_vocabulary)) return "a token that does not exist";
  if (!std::all_of(request.stop_tokens.begin(), request.stop_tokens.end(), in_vocabulary))
    return "a stop token that does not exist";
  const auto taken = static_cast<std::int64_t>(request.prompt.size());
  if (request.max_tokens < 0 || request.max_tokens > facts().max_positions - taken) return "more tokens than fit";
  if (request.choices < 1 || request.choices > engine::kMaxChoices) return "too many choices, or none";
  if (request.logprobs > kMaxLogprobs || request.prompt_logprobs > kMaxLogprobs)
    return "more logprobs than a sampler tells";
  check_sampling_params(request.sampling);
  return std::nullopt;
}

engine::Likelihood some_likelihood(std::int32_t id) {
  return {.logprob = -1.5F, .rank = 2, .top = {{0, -0.5F}, {id, -1.5F}}};
}

// An answer that says the prompt's last token again.
engine::Update some_answer(const engine::Request& request, int choice) {
  engine::Update update;
  update.choice = choice;
  if (choice == 0 && request.prompt_logprobs >= 0) {
    for (const std::int32_t id : request.prompt) update.prompt.push_back({id, some_likelihood(id)});
    update.prompt.front().likelihood.reset();
  }
  engine::AnswerToken token;
  token.id = request.prompt.back();
  token.text = "\xe2\x82\xac";
  if (request.logprobs >= 0) token.likelihood = some_likelihood(token.id);
  update.tokens.push_back(token);
  update.end.emplace();
  return update;
}

template <typename Call>
Violation check_reply(const Call& call) {
  const std::unique_ptr<server::Reply> whole = server::make_reply(call, facts(), "id", 0);
  const std::unique_ptr<server::Reply> streamed = server::make_reply(call, facts(), "id", 0);
  std::size_t answers = 0;
  for (std::size_t prompt = 0; prompt < call.requests.size(); ++prompt) {
    for (int choice = 0; choice < call.requests[prompt].choices; ++choice, ++answers) {
      const engine::Update update = some_answer(call.requests[prompt], choice);
      whole->add(prompt, update);
      std::string events;
      streamed->add_chunks(prompt, update, events);
      for (std::size_t at = 0; at < events.size();
           at = events.find('\n', at) + 2) {  // of lines, each before an empty one
        const std::size_t data = at + server::kEventBegin.size();
        if (Json::parse(events.substr(data, events.find('\n', data) - data))["choices"].size() != 1)
          return "a chunk without its choice";
      }
    }
  }
  if (!whole->finished() || !streamed->finished()) return "a reply that does not end";
  if (Json::parse(whole->body())["choices"].size() != answers) return "a reply without all answers";
  return std::nullopt;
}

template <typename Call>
Violation check_call(Call call, Sabotage sabotage) {
  if (sabotage == Sabotage::kAlterResult) call.requests.back().prompt.push_back(-1);
  for (const engine::Request& request : call.requests)
    if (Violation violation = check_request(request)) return violation;
  return check_reply(call);
}

Violation check_tokens(const Json& reply, Sabotage sabotage) {
  const auto altered = sabotage == Sabotage::kAlterResult ? 1U : 0U;
  if (reply["count"] != reply["tokens"].size() + altered) return "a count that is not that of the tokens";
  return std::nullopt;
}

Violation check_text(const Json& request, const Json& reply, Sabotage sabotage) {
  std::string text = reply["prompt"].get<std::string>();
  if (sabotage == Sabotage::kAlterResult) text += '!';
  const auto ids = request["tokens"].get<std::vector<std::int32_t>>();
  if (text != facts().files->text().tokenizer().decode(ids, false)) return "a text that is not that of the tokens";
  return std::nullopt;
}

// Unlike a reader of files, a parser of requests throws ApiErrors and nothing else.
template <typename Read>
void try_reader(Outcome& all, Read read) {
  try {
    const Violation violation = read();
    all.accepted = true;
    if (violation) all.violation = violation;
  } catch (const server::ApiError& error) {
    if (const Violation violation = check_refusal(error)) all.violation = violation;
  } catch (const std::exception& error) {
    all.violation = std::string("an exception that is no ApiError: ") + error.what();
  }
}

}  // namespace

Outcome try_input(std::span<const std::uint8_t> input, Sabotage sabotage) {
  const std::string_view body(reinterpret_cast<const char*>(input.data()), input.size());
  Outcome all;
  try_reader(all, [&] { return check_call(server::parse_completion(body, facts(), kRules), sabotage); });
  try_reader(all, [&] { return check_call(server::parse_chat(body, facts(), kRules), sabotage); });
  try_reader(all, [&] { return check_tokens(Json::parse(server::tokenize(body, facts())), sabotage); });
  try_reader(all, [&] {
    const std::string reply = server::detokenize(body, facts());
    return check_text(Json::parse(body), Json::parse(reply), sabotage);
  });
  return all;
}

std::vector<Bytes> valid_inputs() {
  constexpr std::string_view kBodies[] = {
      R"({"model":"arithmetic-7m","prompt":"1 + 2 =","max_tokens":8,"temperature":0.7,"top_p":0.9,"top_k":40,
          "min_p":0.1,"repetition_penalty":1.1,"seed":-7,"n":2,"best_of":2,"stop":["\n","\u20ac"],"stop_token_ids":[5],
          "echo":true,"logprobs":3,"prompt_logprobs":2,"user":"u","logit_bias":{},"presence_penalty":0,"digest":true})",
      R"({"prompt":[[1019,49],[50]],"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},
          "echo":true,"logprobs":1,"max_tokens":0,"return_token_ids":true,"return_tokens_as_token_ids":true})",
      R"({"prompt":[1019,49,50],"ignore_eos":true,"skip_special_tokens":false,"include_stop_str_in_output":true})",
      R"({"prompt":["1","2"],"add_special_tokens":false,"priority":-1,"suffix":null})",
      R"({"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"1"}]},
          {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f",
          "arguments":"{\"a\":[1,2.5,null]}"}}]},{"role":"tool","tool_call_id":"1","content":"\ud83d\ude00"}],
          "logprobs":true,"top_logprobs":2,"max_completion_tokens":9,"response_format":{"type":"text"},
          "chat_template_kwargs":{},"add_generation_prompt":true,"tool_choice":"none",
          "tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"prompt_logprobs":1})",
      R"({"prompt":"12","add_special_tokens":true,"return_token_strs":true})",
      R"({"messages":[{"role":"user","content":"12"}],"add_generation_prompt":false})",
      R"({"tokens":[1019,49,226,0,1023],"model":"arithmetic-7m"})",
  };
  std::vector<Bytes> inputs;
  for (const std::string_view body : kBodies) inputs.emplace_back(body.begin(), body.end());
  return inputs;
}

std::vector<std::string_view> dictionary() {
  return {R"("prompt":)",
          R"("prompt":"",)",
          R"("prompt":[],)",
          R"("messages":[],)",
          R"("n":128,)",
          R"("seed":18446744073709551615,)",
          R"("temperature":1e300,)",
          R"("stop":[],)",
          R"("tools":null,)",
          R"("echo":true,)",
          R"("logprobs":20,)",
          R"("logprobs":true,)",
          R"("foo":1,)",
          R"("arguments":"{\"a\":1,\"a\":2}",)",
          R"({"type":"text","text":"x"})",
          R"({"type":"image_url"})",
          "<|eot_id|>",
          "[[[[[[[[[[[[[[[[[[[[",
          "{\"a\":",
          "}",
          "]",
          ",",
          "null",
          "true",
          "NaN",
          "-1",
          "\\ud800",
          "\\u0000",
          "\xff",
          "1e999",
          "99999999999999999999"};
}

bool takes_every_input() {
  return false;
}

void repair(Bytes&) {}  // JSON alone has no length to keep in step

}  // namespace reprofuse::fuzz
