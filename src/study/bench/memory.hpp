// The memory that serving a model takes by each method, as the device's allocator counts it; with random weights.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/config.hpp"
#include "reprofuse/context.hpp"

namespace reprofuse::study {

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
