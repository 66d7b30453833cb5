// Answers the problems of a task by one numerics after another, many at once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/model_files.hpp"
#include "study/runs/run_file.hpp"

namespace reprofuse::study {

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
