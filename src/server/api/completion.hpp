// POST /v1/completions
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/api/call.hpp"

namespace reprofuse::server {

struct CompletionCall : Call {
  bool echo = false;
  std::vector<std::string> prompt_texts;  // with echo: as given, or what the token ids stand for
};

// Throws an ApiError, and nothing else, for a body that makes no sense.
CompletionCall parse_completion(std::string_view body, const ModelFacts& facts, const CallRules& rules = {});

}  // namespace reprofuse::server
