// The sampler on CUDA.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/backend.hpp"

namespace reprofuse::cuda {

// One launch, which a graph may capture. `rows`, what they point to, and `results` are device memory; `count` rows.
// Bits: every result equals that of reference::sample.
void launch_sample(int ordinal, const kernels::SampleRow* rows, std::int64_t count, std::int64_t vocabulary,
                   kernels::SampleResult* results, void* stream);

// Device memory for up to `max_rows` rows at a time.
std::unique_ptr<kernels::SampleBatch> make_sample_batch(int ordinal, std::int64_t vocabulary, std::int64_t max_rows);

}  // namespace reprofuse::cuda
