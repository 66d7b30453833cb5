// A task: prompts to answer, some with the right answer beside them; and answering them by one numerics after another,
// many at once.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.hpp"
#include "engine/model_files.hpp"
#include "engine/text_format.hpp"
#include "study/runs/run_file.hpp"

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

struct RunRequest {
  std::vector<std::vector<std::int32_t>> prompts;  // of the header's problems
  std::int64_t max_tokens = 256;
  SamplingParams sampling;  // its seed is the same in every cell
  std::vector<std::int32_t> stop_tokens;
  std::int64_t batch = 32;  // answers at once
};

struct RunProgress {
  std::uint32_t cell = 0;
  std::int64_t answers = 0;  // of this cell that are there
  std::int64_t new_tokens = 0;
  double seconds = 0;  // in which they came
};

// The order in which the problems arrive under a seed: 0 is that of the task.
std::vector<std::uint32_t> arrival_order(std::uint64_t seed, std::size_t problems);

// Fills in one cell: what the writer has already is not asked for again. The model is one of the cell's numerics.
void make_cell(RunWriter& writer, std::uint32_t cell, const model::Model& model, const RunRequest& request,
               const Tokenizer* tokenizer, const std::function<void(const RunProgress&)>& progress);

// The library behind a baseline; empty for a contract, which is computed here.
std::string vendor_of(const Context& context);

// The SHA-256 of token ids, each a little-endian word, in hex.
std::string tokens_sha256(const std::vector<std::int32_t>& tokens);

}  // namespace reprofuse::study
