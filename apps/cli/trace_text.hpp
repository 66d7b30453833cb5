// What `trace` and `diff` share: the text that is traced, and the trace of it on one device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/generate_request.hpp"
#include "cli/usage.hpp"
#include "engine/model_files.hpp"
#include "study/trace/trace.hpp"

namespace reprofuse::cli {

// The text that is traced, and in which passes.
struct TextArguments {
  std::optional<std::string> model;  // none: the bundled one
  std::optional<std::string> prompt;
  std::optional<std::string> prompt_tokens;
  PromptArguments form;
  std::int64_t max_tokens = 1;
  std::vector<std::int64_t> positions;
  std::int64_t chunk = 512;

  std::vector<const CLI::Option*> about_text;  // the options that a saved trace decides

  bool is_given() const {
    return std::any_of(about_text.begin(), about_text.end(), [](const CLI::Option* one) { return one->count() > 0; });
  }
  bool has_prompt() const { return prompt || prompt_tokens; }
};

// What to trace, and how many tokens each side chooses by itself and reads after it.
struct TextToTrace {
  study::TraceRequest request;
  std::int64_t chosen_tokens = 0;
};

void add_text_options(CLI::App& command, TextArguments& arguments);
TextToTrace text_to_trace(const TextArguments& arguments, const engine::ModelFiles& files);
// With its progress on the terminal.
study::Trace trace_on(const Context& context, const engine::ModelFiles& files, const std::string& model_digest,
                      const TextToTrace& text);
std::string text_of(std::int32_t token, const engine::TextFormat& text);  // " " and a JSON string; empty: no tokenizer

}  // namespace reprofuse::cli
