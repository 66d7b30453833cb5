// `reprofuse generate --jsonl`: many prompts with one load of the model, a JSON object per line in and out.
#pragma once

#include <cstdint>
#include <string>

#include "cli/generate_output.hpp"
#include "cli/generate_request.hpp"
#include "cli/input_files.hpp"
#include "model/model.hpp"

namespace reprofuse::cli {

struct JsonlArguments {
  std::string file;         // empty: there is one prompt, on the command line; "-" is stdin
  std::int64_t batch = 32;  // answers that are computed together
};

void add_jsonl_options(CLI::App& command, JsonlArguments& arguments);

// What the lines are answered with.
struct JsonlJob {
  const AnswerArguments& answer;  // for what a line leaves open
  const GenerateOutput& output;
  const model::Model& model;
  std::int64_t batch;
  std::int64_t prefill_chunk;
  text::DateTime date;
};

// Writes a line for each line in, in their order and as soon as it and those before it are complete. A line that cannot
// be answered gets one with the reason; then it throws in the end.
void answer_lines(LineReader& lines, const JsonlJob& job);

}  // namespace reprofuse::cli
