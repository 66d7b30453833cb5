// Many requests under many schedules of the engine: proof by trial that no schedule changes a bit of any answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.hpp"

namespace reprofuse::study {

// Requests of mixed kinds: prompts of 1 to 320 tokens, some with a long start in common, greedy and sampled, with and
// without likelihoods, several choices, stop tokens and stop strings. A function of the seed and the vocabulary.
std::vector<engine::Request> stress_requests(std::uint64_t seed, std::int64_t count, std::int64_t vocabulary,
                                             bool with_texts, DigestKind digest = DigestKind::kTree1);

// How an engine goes about it. No bit may depend on any of it.
struct StressSchedule {
  engine::EngineOptions engine;
  std::uint64_t arrival_seed = 0;  // order, priorities, and how many come between two passes
  int threads = 1;                 // CPU
};

// Schedule 0 is one at a time: no batch, no cache of prefixes, no guesses. The others are random: batches, chunks and
// page sizes, caches small enough to preempt, prefixes and guesses on and off, 1 and 2 threads.
StressSchedule stress_schedule(std::uint64_t seed, std::int64_t index);

struct StressOutcome {
  StressSchedule schedule;
  std::vector<std::string> digests;  // per request: SHA-256 over all its updates, bit for bit
  engine::EngineStats stats;
  double seconds = 0;
};

StressOutcome run_stress(const model::Model& model, const std::vector<engine::Request>& requests,
                         const StressSchedule& schedule, const std::optional<Tokenizer>& tokenizer);

// Of the model that comes with ReproFuse, whose answers the committed digests are of.
inline constexpr std::string_view kStressModelDigest =
    "447e901bd6b4c4e47cbc76bdca09afff547bb424313e0351b8db1438f9de7930";

// The committed digest of all its answers, if there is one for these requests.
std::optional<std::string> golden_stress_digest(std::string_view numerics, std::uint64_t seed, std::int64_t requests,
                                                DigestKind kind = DigestKind::kTree1);

// One digest over the digests of all requests.
std::string combined_digest(const std::vector<std::string>& digests);

}  // namespace reprofuse::study
