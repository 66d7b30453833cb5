// How fast the engine answers many requests at once, from the first prompt to the last token; and the memory it takes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/config.hpp"
#include "model/model.hpp"
#include "model/weights.hpp"
#include "reprofuse/context.hpp"
#include "study/bench/linear.hpp"

namespace reprofuse::study {

struct EngineBenchOptions {
  std::vector<std::int64_t> batches;
  std::int64_t prompt = 256;    // tokens of each request's prompt, random and different from the others'
  std::int64_t tokens = 128;    // of each answer: greedy, stopped by nothing else
  std::int64_t max_rows = 512;  // tokens in one pass
  int speculation = 0;          // tokens guessed ahead
};

using Answer = std::vector<std::int32_t>;

struct EngineBenchRow {
  std::string numerics;
  std::int64_t batch = 0;            // requests that came at once
  double seconds = 0;                // from their arrival to the last token
  std::int64_t output_tokens = 0;    // all of them
  double prefill_per_second = 0;     // prompt tokens, until every answer has begun; the first go on meanwhile
  double first_token = 0;            // seconds from arrival, the median of the requests
  std::optional<Times> decode;       // passes in which every answer goes on; none: some ended before the last began
  double decode_per_second = 0;      // tokens of these passes
  std::optional<double> model_step;  // seconds of the same step by the model alone; none: with speculation
  std::int64_t guessed_tokens = 0;
  std::int64_t accepted_tokens = 0;   // of these
  std::int64_t compared_answers = 0;  // requests that an earlier batch has answered, too,
  std::int64_t changed_answers = 0;   // and of these, those that got another answer

  double tokens_per_second() const { return static_cast<double>(output_tokens) / seconds; }
  // The part of a decode pass that is the sampler's and the engine's; none where the model's is not known.
  std::optional<double> outside_model() const;
};

using OnProgress = std::function<void(std::string_view doing)>;  // may be empty

struct EngineBenchObserver {
  std::function<void(const EngineBenchRow&)> on_row;  // as soon as it is known
  OnProgress on_progress{};
};

// For texts of these lengths; in a team, the share of this rank.
std::unique_ptr<model::Model> make_engine_bench_model(const Context& context,
                                                      const std::shared_ptr<const model::WeightSource>& source,
                                                      const EngineBenchOptions& options, const OnProgress& on_progress,
                                                      const model::TeamPlace& place = {});

// One row per batch, after a round of other requests that warms up.
void bench_engine(const model::Model& model, const EngineBenchOptions& options, const EngineBenchObserver& observer);

// Of the requests that both have answered, how many have another answer.
std::int64_t count_changed(std::span<const Answer> before, std::span<const Answer> now);

// The memory that serving a model takes by each method, as the device's allocator counts it; with random weights.

struct MemoryOptions {
  checkpoint::ModelConfig config;
  std::int64_t budget = 0;      // bytes for weights, passes and the KV cache
  std::int64_t batch = 32;      // answers in a decode pass
  std::int64_t rows = 512;      // tokens of a prefill pass
  std::int64_t context = 8192;  // of a text, for which passes have room
};

struct MemoryRow {
  std::string numerics;
  std::int64_t weight_bytes = 0;     // taken by the model, and kept
  std::int64_t transient_bytes = 0;  // at most, beside weights and cache: activations, copies of weights, workspaces
  std::int64_t kv_bytes = 0;         // of the cache that fits into the rest of the budget, and was allocated
  std::int64_t kv_tokens = 0;        // that it holds; 0: nothing fits
};

// Makes the model, answers requests with it, and fills the budget with a cache, out of which it answers again.
MemoryRow measure_memory(const Context& context, const MemoryOptions& options);

// What a budget is without being told: nine tenths of what is free on the device.
std::int64_t default_budget(const Context& context);

}  // namespace reprofuse::study
