// Devices, memory and the record of non-finite results: what the kernels' host code and the backend stand on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "kernels/linear.hpp"

namespace reprofuse::cuda {

// Throws kUnsupported, with the reason, unless device `ordinal` exists and has compute capability 8.0 or higher.
void require_device(int ordinal);
std::string device_description(int ordinal);  // "NVIDIA H200 (sm_90)"
std::int64_t free_bytes(int ordinal);

void* allocate(int ordinal, std::size_t bytes);
void* allocate_workspace(int ordinal, std::size_t bytes);  // with its record reset
void release(void* pointer) noexcept;
void copy_to_device(void* to, const void* from, std::size_t bytes);
void copy_to_host(void* to, const void* from, std::size_t bytes);

using kernels::kWorkspaceAlignment;
using kernels::OpPlace;
inline constexpr std::size_t kWorkspaceHead = kWorkspaceAlignment;  // bytes at the start that hold the record

void reset_record(int ordinal, void* workspace, void* stream);
std::optional<OpPlace> take_record(int ordinal, void* workspace, void* stream);  // waits for the stream

std::unique_ptr<kernels::PreparedLinear> prepare_linear_fma1(const kernels::CudaBackend& backend,
                                                             std::span<const WeightView> weights);
std::unique_ptr<kernels::PreparedLinear> prepare_linear_exact1(const kernels::CudaBackend& backend,
                                                               std::span<const WeightView> weights);

}  // namespace reprofuse::cuda
