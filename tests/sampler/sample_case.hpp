// Rows of logits and requests for tests of the sampler.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "kernels/op_calls.hpp"
#include "kernels/reference/reference.hpp"
#include "numerics/sampling.hpp"
#include "ops/buffer.hpp"
#include "reprofuse/sampler.hpp"

namespace reprofuse::testing {

// Multiples of 1/64 from about -16 to 16, denser in the middle: few enough for ties to be common.
inline std::vector<float> seeded_logits(std::uint64_t seed, std::int64_t vocabulary) {
  std::vector<float> logits;
  for (std::int64_t id = 0; id < vocabulary; ++id) {
    const std::uint64_t word = philox(seed, static_cast<std::uint64_t>(id), 1);
    const auto sum = static_cast<int>((word & 511) + (word >> 16 & 511) + (word >> 32 & 511) + (word >> 48 & 511));
    logits.push_back(static_cast<float>(sum - 1022) * 0x1p-6F);
  }
  return logits;
}

// Full mantissas, so that every operation rounds.
inline std::vector<float> rough_logits(std::uint64_t seed, std::int64_t vocabulary) {
  std::vector<float> logits = seeded_logits(seed, vocabulary);
  for (std::size_t id = 0; id < logits.size(); ++id)
    logits[id] += static_cast<float>(philox(seed, id, 2) >> 40) * 0x1p-28F;
  return logits;
}

inline std::vector<std::uint32_t> seeded_seen(std::uint64_t seed, std::int64_t vocabulary) {
  std::vector<std::uint32_t> words;
  for (std::int64_t i = 0; i < (vocabulary + 31) / 32; ++i)
    words.push_back(static_cast<std::uint32_t>(philox(seed, static_cast<std::uint64_t>(i), 3)));
  return words;
}

// The same ids, one by one.
inline std::vector<std::int32_t> ids_of(const std::vector<std::uint32_t>& words, std::int64_t vocabulary) {
  std::vector<std::int32_t> ids;
  for (std::int32_t id = 0; id < vocabulary; ++id)
    if (kernels::is_seen(words.data(), id)) ids.push_back(id);
  return ids;
}

// Every filter alone, all together, and the ends of their ranges.
inline std::vector<SamplingParams> all_params() {
  std::vector<SamplingParams> params;
  const auto add = [&](float temperature, int top_k, float top_p, float min_p, float penalty) {
    params.push_back({temperature, top_k, top_p, min_p, penalty, 1234 + params.size()});
  };
  add(0, 0, 1, 0, 1);
  add(0, 0, 1, 0, 1.3F);
  for (const float temperature : {0x1p-149F, 0.3F, 0.8F, 1.0F, 5.0F, 1e30F}) add(temperature, 0, 1, 0, 1);
  for (const int top_k : {1, 2, 50, 1'000'000}) add(1.5F, top_k, 1, 0, 1);
  for (const float top_p : {0.0F, 0x1p-149F, 0.1F, 0.9F, 0.99999F}) add(1.5F, 0, top_p, 0, 1);
  for (const float min_p : {0x1p-30F, 0.05F, 1.0F}) add(1.5F, 0, 1, min_p, 1);
  add(2, 40, 0.95F, 0.01F, 1.1F);
  add(3, 700, 0.8F, 0.001F, 0.7F);
  return params;
}

// Vocabularies around the ends of leaves, of levels of the tree and of blocks of a hash.
inline constexpr std::int64_t kLeafEdges[] = {1,   2,   12,  13,  14,   61,   255,  256,  257,    511,    512,
                                              513, 768, 769, 831, 1279, 8191, 8192, 8193, 32'767, 128'256};

// Copies of one row whose roots are all different: as it is, a bit flipped at either end, two leaves swapped.
inline std::vector<std::vector<float>> rows_with_other_roots(std::int64_t vocabulary) {
  const std::vector<float> row = rough_logits(7, vocabulary);
  std::vector<std::vector<float>> rows(3, row);
  rows[1].front() = -rows[1].front();
  rows[2].back() = float_from_bits(float_bits(rows[2].back()) ^ 1U);
  if (vocabulary < 2 * sampling::kLogitsPerLeaf) return rows;
  rows.push_back(row);
  std::swap_ranges(rows[3].begin(), rows[3].begin() + sampling::kLogitsPerLeaf,
                   rows[3].begin() + sampling::kLogitsPerLeaf);
  return rows;
}

inline bool equal(const kernels::SampleResult& a, const kernels::SampleResult& b) {
  bool same = a.token == b.token && a.not_finite == b.not_finite && a.rank == b.rank &&
              float_bits(a.logprob) == float_bits(b.logprob);
  for (int i = 0; i < sampling::kMaxLogprobs; ++i)
    same = same && a.top[i].id == b.top[i].id && float_bits(a.top[i].logprob) == float_bits(b.top[i].logprob);
  return same && std::ranges::equal(a.logits_root, b.logits_root);
}

// Texts that grow, guess, go on otherwise, and take over or share slots: each row is as the reference has it with the
// whole of its history.
inline void expect_that_slots_move_no_token(const Context& context, std::int64_t vocabulary, int runs) {
  constexpr std::int32_t kSlots = 4, kGuesses = 3;
  const Sampler sampler(context, vocabulary, kSlots * (1 + kGuesses));
  std::uint64_t draws = 0;
  const auto draw = [&](std::int64_t below) {
    return static_cast<std::int32_t>(philox(17, draws++, 4) % static_cast<std::uint64_t>(below));
  };
  std::vector<std::vector<std::int32_t>> texts(kSlots);
  std::int64_t moved = 0;
  for (int run = 0; run < runs; ++run) {
    std::vector<std::vector<std::int32_t>> histories;
    std::vector<std::int32_t> slots;
    for (std::int32_t slot = 0; slot < kSlots; ++slot) {
      std::vector<std::int32_t>& text = texts[static_cast<std::size_t>(slot)];
      const std::int32_t fate = draw(8);
      if (fate == 0) continue;  // it has no row in this run
      if (fate == 1) text.clear();
      if (fate == 2) text.resize(text.size() / 2);
      for (std::int32_t i = fate <= 2 ? 20 : draw(2); i >= 0; --i) text.push_back(draw(vocabulary));
      std::vector<std::int32_t> with_guesses = text;
      for (std::int32_t guesses = draw(1 + kGuesses); guesses >= 0; --guesses) {
        histories.push_back(with_guesses);
        slots.push_back(draw(10) == 0 ? draw(kSlots + 1) - 1 : slot);
        with_guesses.push_back(draw(vocabulary));
      }
    }
    if (run % 2 == 1) std::ranges::reverse(histories), std::ranges::reverse(slots);
    std::vector<float> logits;
    std::vector<SampleInput> inputs;
    for (std::size_t i = 0; i < histories.size(); ++i) {
      std::vector<float> row = rough_logits(draws + i, vocabulary);
      for (int k = 0; k < 3; ++k)
        row[static_cast<std::size_t>(draw(2) == 0 ? draw(vocabulary) : histories[i].back())] += 9;
      logits.insert(logits.end(), row.begin(), row.end());
      inputs.push_back({.params = {.temperature = i % 2 == 0 ? 0.0F : 0.7F, .repetition_penalty = 3.0F},
                        .history = histories[i],
                        .position = histories[i].size(),
                        .slot = slots[i]});
    }
    const Buffer device(context, logits.size() * sizeof(float));
    copy_to_device(context, device.as<void>(), logits.data(), device.bytes());
    const auto rows = static_cast<std::int64_t>(inputs.size());
    const auto results = sampler.run_each({device.as<float>(), rows, vocabulary, vocabulary}, inputs);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      std::vector<std::uint32_t> words(static_cast<std::size_t>((vocabulary + 31) / 32));
      for (const std::int32_t id : histories[i]) words[static_cast<std::size_t>(id / 32)] |= 1U << (id % 32);
      kernels::SampleRow row{.logits = logits.data() + static_cast<std::int64_t>(i) * vocabulary,
                             .seen = words.data(),
                             .params = inputs[i].params,
                             .position = inputs[i].position};
      const SampleResult expected = reference::sample(row, vocabulary);
      EXPECT_TRUE(equal(results[i], expected)) << vocabulary << " run " << run << " row " << i;
      words[static_cast<std::size_t>(histories[i].back() / 32)] ^= 1U << (histories[i].back() % 32);
      moved += reference::sample(row, vocabulary).token != expected.token ? 1 : 0;
    }
  }
  EXPECT_GT(moved, 0) << "one id less is not seen";
}

}  // namespace reprofuse::testing
