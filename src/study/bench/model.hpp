// How fast a whole model decodes, with random weights of a published shape.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/config.hpp"
#include "model/model.hpp"
#include "reprofuse/context.hpp"
#include "study/bench/linear.hpp"

namespace reprofuse::study {

inline constexpr std::int64_t kPublishedPositions = 131072;  // the longest text of each of these shapes
inline constexpr std::int64_t kWarmUpSteps = 8;              // of each text, before those that are timed: room for them

// Throws kInvalidArgument, listing the names there are.
checkpoint::ModelConfig published_shape(std::string_view name);
std::vector<std::string_view> published_shapes();

struct ModelBenchRow {
  std::string numerics;
  std::int64_t batch;
  std::int64_t context;       // tokens of each text when the steps begin
  double prefill_per_second;  // tokens, all texts together
  Times step;                 // one token for every text: inputs copied, computed, waited for
  double weight_bytes;        // read by one step
  double kv_bytes;            // read by one step

  double tokens_per_second() const { return static_cast<double>(batch) / step.median; }
  double bytes_per_second() const { return (weight_bytes + kv_bytes) / step.median; }
};

struct PromptBenchRow {
  std::string numerics;
  std::int64_t tokens;       // of one prompt
  double tokens_per_second;  // of its prefill, the better of two
};

struct ModelBenchOptions {
  checkpoint::ModelConfig config;
  std::vector<std::int64_t> batches;
  std::vector<std::int64_t> prompts = {};  // lengths
  std::int64_t context = 1024;
  std::int64_t prefill_rows = 1024;  // tokens per pass
  int steps = 20;
};

// Of random weights; in a team, the share of this rank.
std::unique_ptr<model::Model> make_bench_model(const Context& context, const ModelBenchOptions& options,
                                               const model::TeamPlace& place = {});

// One row per batch, reported as soon as it is known.
void bench_model(const model::Model& model, const ModelBenchOptions& options,
                 const std::function<void(const ModelBenchRow&)>& report);

// One row per length, of a prompt alone.
void bench_prompts(const model::Model& model, const ModelBenchOptions& options,
                   const std::function<void(const PromptBenchRow&)>& report);

// Bytes per second of a plain streaming read on the context's device.
double streaming_bandwidth(const Context& context);

}  // namespace reprofuse::study
