// POST /v1/chat/completions
#pragma once

#include <string_view>

#include "server/api/call.hpp"

namespace reprofuse::server {

struct ChatCall : Call {};  // one request

// Throws an ApiError, and nothing else, for a body that makes no sense. Tools go to the chat template, if it takes
// them; an answer that calls one comes back as the text that the model wrote.
ChatCall parse_chat(std::string_view body, const ModelFacts& facts, const CallRules& rules = {});

}  // namespace reprofuse::server
