// The sampler on CUDA. Implemented in kernels/cuda/, or in kernels/none/ when the build has no CUDA.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/sample.hpp"

namespace reprofuse::cuda {

// One launch, which a graph may capture. `rows`, what they point to, and `results` are device memory; `count` rows.
// Bits: every result equals that of reference::sample.
void launch_sample(int ordinal, const kernels::SampleRow* rows, std::int64_t count, std::int64_t vocabulary,
                   kernels::SampleResult* results, void* stream);

// Device memory for up to `max_rows` rows at a time.
class SampleBatch {
 public:
  virtual ~SampleBatch() = default;
  // The rows' logits are device memory, their `seen` words host memory. Waits for the stream.
  virtual void run(std::span<const kernels::SampleRow> rows, std::span<kernels::SampleResult> results,
                   void* stream) = 0;
};

std::unique_ptr<SampleBatch> make_sample_batch(int ordinal, std::int64_t vocabulary, std::int64_t max_rows);

}  // namespace reprofuse::cuda
