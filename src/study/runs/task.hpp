// A task: prompts to answer, some with the right answer beside them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text_format.hpp"

namespace reprofuse::study {

struct Problem {
  std::string id;
  std::string prompt;                // or else
  nlohmann::ordered_json messages;   // of a chat, or else
  std::vector<std::int32_t> tokens;  // the prompt as ids
  std::string answer;                // the right one; empty: not known
};

// A problem per line: JSON objects with `prompt`, `messages` or `prompt_tokens`, perhaps `id` and `answer`, where the
// first line begins with a brace; otherwise each line is a prompt. Empty lines do not count. Throws kInvalidArgument
// with file and line.
std::vector<Problem> parse_task(std::string_view text, const std::string& file);
std::vector<Problem> read_task(const std::string& path);

// Messages go through the chat template, and so do prompts where `chat` says so.
std::vector<std::int32_t> prompt_tokens(const Problem& problem, const engine::TextFormat& text,
                                        const text::DateTime& date, bool chat);

// Whether a text gives the right answer: its last number, if that is a number; its last capital letter that stands
// alone, if that is a letter; or else its last words.
bool is_right(std::string_view text, std::string_view answer);

}  // namespace reprofuse::study
