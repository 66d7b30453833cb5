// A GPU: whether it is there, what schedules and benches need to know of it, its memory, and the record of non-finite
// results at the start of every workspace.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "kernels/schemes.hpp"

namespace reprofuse::cuda {

// Throws kUnsupported, with the reason, unless device `ordinal` exists and has compute capability 8.0 or higher.
void require_device(int ordinal);
std::string device_description(int ordinal);  // "NVIDIA H200 (sm_90)", "NVIDIA H200 (sm_90), as sm_80"

// Whether act_as_cuda() was called: kernels with code for compute capability 9.0 then use nothing that is new there
// (the TMA, clusters, an early start).
bool is_emulated();

struct Device {
  int ordinal;
  int sm_count;
  int shared_bytes_per_cta;  // the most a CTA can have
  int shared_bytes_per_sm;
  int reserved_shared_bytes_per_cta;  // that no CTA can use
  double memory_bytes_per_clock;      // at the peak rates of both; 0 where the driver does not say
  int major, minor;                   // compute capability
  std::string architecture;           // "sm_90"
};

Device read_device(int ordinal);

// What schedules go by: the device's own, or that of the device that it acts as.
int device_attribute(int ordinal, cudaDeviceAttr which);

// Binary32 fused multiply-adds outside tensor cores, two operations each, on every lane at the highest clock.
double peak_fma_gigaflops(int ordinal);

// A plain streaming read of device memory: the floor that benches compare with. `sink` is one word, written only so
// that the reads are not dropped.
cudaError_t launch_read(const void* memory, std::size_t bytes, void* sink, int sm_count, cudaStream_t stream);

// Its memory.
std::int64_t free_bytes(int ordinal);
void* allocate(int ordinal, std::size_t bytes);
void* allocate_workspace(int ordinal, std::size_t bytes);  // with its record reset
void release(void* pointer) noexcept;
void copy_to_device(void* to, const void* from, std::size_t bytes);
void copy_to_host(void* to, const void* from, std::size_t bytes);

using kernels::kWorkspaceAlignment;
using kernels::OpNonFinite;
inline constexpr std::size_t kWorkspaceHead = kWorkspaceAlignment;  // bytes at the start that hold the record

void reset_record(int ordinal, void* workspace, void* stream);
std::optional<OpNonFinite> take_record(int ordinal, void* workspace, void* stream);  // waits for the stream

// The workspace's record of the first non-finite result: one 64-bit word, op then row then column, kept as a minimum.
// An integer minimum does not depend on the order in which threads report.
using Record = unsigned long long;

inline constexpr Record kNothingRecorded = ~Record{0};
inline constexpr int kPlaceBits = 24;                                    // of a row or a column
inline constexpr std::int64_t kMaxRows = std::int64_t{1} << kPlaceBits;  // calls have fewer rows

inline OpNonFinite unpack(Record record) {
  constexpr Record kMask = (Record{1} << kPlaceBits) - 1;
  return {.op = static_cast<unsigned>(record >> (2 * kPlaceBits)),
          .place = {.row = static_cast<std::int64_t>(record >> kPlaceBits & kMask),
                    .column = static_cast<std::int64_t>(record & kMask)}};
}

}  // namespace reprofuse::cuda
