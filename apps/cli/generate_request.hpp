// How options of `generate`, `trace` and `diff` make prompts, and those of `generate` make requests.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model_files.hpp"
#include "engine/request.hpp"
#include "text/date.hpp"

namespace reprofuse::cli {

// How text becomes a prompt.
struct PromptArguments {
  bool chat = false;
  std::optional<std::string> system;
  std::optional<std::string> date;
  std::string special_tokens = "as-tokens";
};

// From the command line; a line of --jsonl may say otherwise.
struct AnswerArguments : PromptArguments {
  std::optional<std::int64_t> max_tokens;
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<int> top_k;
  std::uint64_t seed = 0;
  std::vector<std::string> stop_strings;
  bool ignore_stop = false;
  int logprobs = -1;  // that are shown; -1: none
  std::string digest = "none";
};

void add_prompt_options(CLI::App& command, PromptArguments& arguments);
// `has_text`: there is one that --chat is for; `has_lines`: of which some may be messages without it.
void check_prompt_usage(const PromptArguments& arguments, bool has_text, bool has_lines = false);
void add_answer_options(CLI::App& command, AnswerArguments& arguments);  // the prompt options included
text::DateTime date_of(const PromptArguments& arguments);                // a usage error for what is no date
engine::SpecialTokens special_tokens_of(const PromptArguments& arguments);

// A request by these options, and what they leave open by the model's generation_config.json. It has no prompt yet.
engine::Request request_of(const AnswerArguments& arguments, const engine::ModelFiles& files);

// Text as it is or, with --chat, as a user's message; and messages, which always go through the chat template.
std::vector<std::int32_t> encode_text_or_chat(std::string_view prompt, const PromptArguments& arguments,
                                              const engine::TextFormat& text, const text::DateTime& date);
std::vector<std::int32_t> encode_messages(const nlohmann::ordered_json& messages, const PromptArguments& arguments,
                                          const engine::TextFormat& text, const text::DateTime& date);

// An answer ends at the latest where the context does. Throws where there is no room for any.
void limit_to_context(engine::Request& request, std::int64_t context);

}  // namespace reprofuse::cli
