// The sampler.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "capi/boundary.hpp"

using reprofuse::require;
using namespace reprofuse::capi;

struct reprofuse_sampler {
  reprofuse::Sampler sampler;
  std::int64_t vocabulary;
};

static_assert(std::size(reprofuse_sample{}.top) == reprofuse::kMaxLogprobs);

namespace {

// Counted from 1, so that zero names none.
std::int32_t slot_of(const reprofuse_sample& sample) {
  require(sample.slot >= 0, "slot {} of a sample is below 0", sample.slot);
  return sample.slot - 1;
}

}  // namespace

namespace reprofuse::capi {

SamplingParams sampling(const reprofuse_sampling& s) {
  return {s.temperature, s.top_k, s.top_p, s.min_p, s.repetition_penalty, s.seed};
}

reprofuse_sampling sampling(const SamplingParams& p) {
  return {p.temperature, p.top_k, p.top_p, p.min_p, p.repetition_penalty, p.seed};
}

}  // namespace reprofuse::capi

reprofuse_status reprofuse_sample_init(reprofuse_sample* sample, size_t size) {
  return guarded([&] {
    init_struct(sample, size, "sample", [](auto& made) {
      made.sampling = sampling(reprofuse::SamplingParams{});
      made.given = -1;
      made.logprobs = -1;
      made.token = -1;
    });
  });
}

reprofuse_status reprofuse_sampler_create(const reprofuse_context* context, int64_t vocabulary, int64_t max_rows,
                                          reprofuse_sampler** sampler) {
  return create(sampler, "sampler", [&] {
    return new reprofuse_sampler{{unwrap(context, "context").context, vocabulary, max_rows}, vocabulary};
  });
}

void reprofuse_sampler_destroy(reprofuse_sampler* sampler) {
  delete sampler;
}

reprofuse_status reprofuse_sampler_run(const reprofuse_sampler* sampler, const float* logits, int64_t stride,
                                       reprofuse_sample* samples, size_t count, void* stream) {
  return guarded([&] {
    const reprofuse_sampler& self = unwrap(sampler, "sampler");
    require(samples != nullptr || count == 0, "the array of samples is null");
    // Elements are as far apart as the caller's sizeof says, which may not be this library's.
    const std::size_t step = count == 0 ? 0 : samples->struct_size;
    const auto at = [&](std::size_t i) {
      return reinterpret_cast<reprofuse_sample*>(reinterpret_cast<std::byte*>(samples) + i * step);
    };
    std::vector<reprofuse_sample> rows;
    std::vector<reprofuse::SampleInput> inputs;
    for (std::size_t i = 0; i < count; ++i) {
      const reprofuse_sample& sample = rows.emplace_back(read_struct(at(i), "sample"));
      require(sample.struct_size == step, "sample {} has size {}; the first has size {}", i, sample.struct_size, step);
      inputs.push_back({.params = sampling(sample.sampling),
                        .history = list(sample.history, sample.history_count, "the history"),
                        .position = sample.position,
                        .given = sample.given,
                        .logprobs = sample.logprobs,
                        .logits_root = sample.tell_logits_root != 0,
                        .slot = slot_of(sample)});
    }
    const auto results =
        self.sampler.run({logits, static_cast<std::int64_t>(count), self.vocabulary, stride}, inputs, stream);
    for (std::size_t i = 0; i < count; ++i) {
      rows[i].token = results[i].token;
      rows[i].logprob = results[i].logprob;
      rows[i].rank = results[i].rank;
      std::ranges::copy(results[i].logits_root, rows[i].logits_root);
      for (int j = 0; j < rows[i].logprobs; ++j) rows[i].top[j] = {results[i].top[j].id, results[i].top[j].logprob};
      write_struct(at(i), step, rows[i]);
    }
  });
}
