// The sampler on CUDA.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/backend.hpp"
#include "kernels/op_calls.hpp"

namespace reprofuse::cuda {

// What becomes of a set of ids before its row is looked at, by the row's own CTA. `to` = null: nothing.
struct SeenUpdate {
  std::uint32_t* to = nullptr;          // the row's `seen`
  const std::uint32_t* from = nullptr;  // null: the empty set
  const std::int32_t* added = nullptr;
  std::int32_t count = 0;
};

// One launch, which a graph may capture. `rows`, `updates`, what they point to, and `results` are device memory;
// `count` rows. Bits: every result equals that of reference::sample.
void launch_sample(int ordinal, const kernels::SampleRow* rows, const SeenUpdate* updates, std::int64_t count,
                   std::int64_t vocabulary, kernels::SampleResult* results, void* stream);

// Device memory for up to `max_rows` rows at a time.
std::unique_ptr<kernels::SamplerBackend> make_sampler(int ordinal, std::int64_t vocabulary, std::int64_t max_rows);

}  // namespace reprofuse::cuda

// Between the host code of the sampler and its kernels.
namespace reprofuse::cuda::sampler {

cudaError_t launch_sample_rows(const kernels::SampleRow* rows, const SeenUpdate* updates, int count, int vocabulary,
                               kernels::SampleResult* results, cudaStream_t stream);

}  // namespace reprofuse::cuda::sampler

namespace reprofuse::cuda::hash {

// For launch_logits_roots() of up to so many rows.
std::size_t logits_root_workspace(std::int64_t max_rows, std::int64_t vocabulary);

// To `roots`, 32 bytes per row; those of rows that do not ask for it are left as they are.
cudaError_t launch_logits_roots(const kernels::SampleRow* rows, int count, int vocabulary, void* workspace,
                                std::uint8_t* roots, cudaStream_t stream);

}  // namespace reprofuse::cuda::hash
