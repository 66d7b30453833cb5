// A GPU: whether it is there, what schedules and benches need to know of it, CUDA runtime errors as exceptions, and a
// current device that is given back.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <string>

#include "base/check.hpp"

namespace reprofuse::cuda {

inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess)
    fail(ErrorCode::kDevice, "{} failed: {} ({})", call, cudaGetErrorString(status), cudaGetErrorName(status));
}

// What schedules go by: the device's own, or those of the device that it acts as (`--as`).
int device_attribute(int ordinal, cudaDeviceAttr which);

// Makes `ordinal` the calling thread's device for its lifetime.
class DeviceScope {
 public:
  explicit DeviceScope(int ordinal) : ordinal_(ordinal) {
    check(cudaGetDevice(&before_), "cudaGetDevice");
    if (before_ != ordinal_) check(cudaSetDevice(ordinal_), "cudaSetDevice");
  }
  ~DeviceScope() {
    if (before_ != ordinal_) cudaSetDevice(before_);
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int ordinal_;
  int before_ = 0;
};

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

// Binary32 fused multiply-adds outside tensor cores, two operations each, on every lane at the highest clock.
double peak_fma_gigaflops(int ordinal);

// A plain streaming read of device memory: the floor that benches compare with. `sink` is one word, written only so
// that the reads are not dropped.
cudaError_t launch_read(const void* memory, std::size_t bytes, void* sink, int sm_count, cudaStream_t stream);

}  // namespace reprofuse::cuda
