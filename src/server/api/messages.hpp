// A chat as the API gives it, turned into tokens through the model's template.
#pragma once

#include <cstdint>
#include <vector>

#include "server/api/facts.hpp"
#include "server/api/fields.hpp"

namespace reprofuse::server {

// Reads messages, tools, add_generation_prompt, chat_template_kwargs and their like.
std::vector<std::int32_t> read_chat_prompt(Fields& fields, const ModelFacts& facts);

// Messages as templates know them: a content of text parts becomes one text, the arguments of tool calls, which the API
// gives as JSON in a string, become values, and nulls are left out.
Json template_messages(const Json& messages);

}  // namespace reprofuse::server
