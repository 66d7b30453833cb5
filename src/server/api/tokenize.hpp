// POST /tokenize and /detokenize, in vLLM's shapes. Both return the reply's body, and throw an ApiError, and nothing
// else, for a body that makes no sense.
#pragma once

#include <string>
#include <string_view>

#include "server/api/facts.hpp"

namespace reprofuse::server {

// {"prompt"} or {"messages"} to {"count", "max_model_len", "tokens"}.
std::string tokenize(std::string_view body, const ModelFacts& facts);
// {"tokens"} to {"prompt"}, special tokens included.
std::string detokenize(std::string_view body, const ModelFacts& facts);

}  // namespace reprofuse::server
