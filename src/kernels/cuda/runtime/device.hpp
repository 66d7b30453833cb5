// A GPU: whether it is there, and what schedules and benches need to know of it.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <string>

namespace reprofuse::cuda {

// Throws kUnsupported, with the reason, unless device `ordinal` exists and has compute capability 8.0 or higher.
void require_device(int ordinal);
std::string device_description(int ordinal);  // "NVIDIA H200 (sm_90)", "NVIDIA H200 (sm_90), as sm_80"

// Whether act_as() was called: kernels with code for compute capability 9.0 then use nothing that is new there (the
// TMA, clusters, an early start).
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

}  // namespace reprofuse::cuda
