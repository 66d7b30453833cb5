// What every op of chosen steps left, bit for bit, and the first op where two such traces differ.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/runner.hpp"

namespace reprofuse::study {

// A row that an op left.
struct TracedResult {
  std::string op = {};  // "model.layers.0.mlp.down_proj"
  DType dtype = DType::kF32;
  std::int64_t elements = 0;
  std::string sha256 = {};             // of the elements, little-endian, in hex
  std::vector<std::byte> values = {};  // the same bytes; empty where a trace has digests alone

  std::uint32_t word(std::int64_t element) const;  // of its values
  float value(std::int64_t element) const;
};

struct Candidate {
  std::int32_t token = 0;
  float logit = 0;
};

// One token that was read, and what was computed for it.
struct TracedStep {
  std::int64_t position = 0;
  std::array<Candidate, 2> likeliest = {};  // of the token that follows; ties go to the lowest id
  std::vector<TracedResult> results = {};   // in the order of the pass
};

struct Trace {
  std::string version = {}, numerics = {}, device = {}, model_digest = {};
  std::int64_t chunk = 0;                 // tokens of the prompt in a pass
  std::int64_t prompt_tokens = 0;         // the rest was read one by one
  std::vector<std::int32_t> tokens = {};  // the whole text that was read
  std::vector<TracedStep> steps = {};     // by ascending position
};

struct TraceRequest {
  std::vector<std::int32_t> prompt = {};
  std::vector<std::int32_t> answer = {};     // read after it, one by one
  std::vector<std::int64_t> positions = {};  // to trace, in ascending order; empty: from the prompt's last one on
  std::int64_t chunk = 512;
  bool values = true;  // false: digests alone
};

// Throws kInvalidArgument for positions that a text of this length does not have, or that do not ascend.
void check_positions(const std::vector<std::int64_t>& positions, std::int64_t length);

// Fills all but version and model_digest. Checks positions, too.
Trace make_trace(const model::Model& model, const TraceRequest& request);

// A safetensors file: its tensors are the values, named "POSITION/OP"; what else there is, is JSON in its metadata.
void write_trace(const std::string& path, const Trace& trace);
// Throws kInvalidArgument, with the file's name, for what is no trace or whose values do not have their digests.
Trace read_trace(const std::string& path);
std::string trace_to_json(const Trace& trace);  // all but the values

struct Difference {
  std::int64_t position = 0;
  std::string op = {};
  std::string before = {};  // the op before it, which left the same; empty: it is the first
  std::string other = {};   // why elements cannot be compared: another shape or type, or an op that one trace lacks

  // Where both traces have values.
  std::optional<std::int64_t> element = {};
  std::uint32_t word_a = 0, word_b = 0;
  float value_a = 0, value_b = 0;
  std::int64_t differing = 0, elements = 0;

  std::int64_t positions_unseen = 0;  // before this one, of which a trace has no results; attention reads them, too
};

struct Flip {
  std::int64_t position = 0;  // of the step that chose
  std::array<Candidate, 2> a = {}, b = {};
};

struct Comparison {
  std::int64_t positions = 0;            // that both traces have, after the same tokens
  std::int64_t equal = 0;                // of those
  std::optional<Difference> first = {};  // by position, then by the order of the pass
  std::optional<Flip> flip = {};         // the first choice that differs
  std::optional<std::int64_t> text_differs_at = {};
  std::int64_t only_a = 0, only_b = 0;  // positions that one trace alone has, or has after other tokens
};

// What computes a trace again: the same text in the same passes.
TraceRequest request_of(const Trace& trace);

// Throws kInvalidArgument for traces of different models, and for such as have no position in common.
Comparison compare_traces(const Trace& a, const Trace& b);

}  // namespace reprofuse::study
