// POST /tokenize and /detokenize.
#include <cstdint>
#include <string>
#include <vector>

#include "server/openai/call.hpp"
#include "server/openai/json.hpp"
#include "server/openai/reply.hpp"

namespace reprofuse::server {
namespace {

std::vector<std::int32_t> read_prompt(Fields& fields, const RequestBody& body, const ServedFacts& facts) {
  const auto prompt = fields.string("prompt");
  if (!prompt) fields.fail_missing("prompt");
  return encode_prompt(*prompt, TextRules(fields, true, body, facts), facts, "prompt");
}

}  // namespace

std::string tokenize(const RequestBody& body, const ServedFacts& facts) {
  OwnedJson root = parse_object(body, "the body", {}, max_numbers(facts));
  Fields fields(*root);
  if (const auto model = fields.string("model")) check_model_name(*model, facts);
  const bool with_names = fields.boolean("return_token_strs").value_or(false);
  const bool is_chat = root->contains("messages");
  const std::vector<std::int32_t> tokens =
      is_chat ? read_chat_prompt(*root, fields, body, facts) : read_prompt(fields, body, facts);
  fields.refuse_the_rest();
  return json_object([&](JsonWriter& json) {
    json.field("count", tokens.size()).field("max_model_len", facts.max_positions).field("tokens", tokens);
    if (!with_names) return;
    const TokenNames names(facts, false);
    json.key("token_strs").array([&] {
      for (const std::int32_t id : tokens) json.value(names.name(id));
    });
  });
}

std::string detokenize(const RequestBody& body, const ServedFacts& facts) {
  OwnedJson root = parse_object(body, "the body", {}, max_numbers(facts));
  Fields fields(*root);
  if (const auto model = fields.string("model")) check_model_name(*model, facts);
  const Json* tokens = fields.find("tokens");
  if (tokens == nullptr) fields.fail_missing("tokens");
  if (!tokens->is_array()) fields.fail_value("tokens", *tokens, "a list of token ids");
  const std::vector<std::int32_t> ids =
      read_token_ids(*tokens, facts.files->checkpoint().config().vocab_size, "tokens");
  fields.refuse_the_rest();
  const std::string text = reading("tokens", [&] { return facts.files->text().tokenizer().decode(ids, false); });
  return json_object([&](JsonWriter& json) { json.field("prompt", text); });
}

}  // namespace reprofuse::server
