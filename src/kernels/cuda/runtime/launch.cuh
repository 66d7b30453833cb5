// The device side of launch.hpp, and of the record in device.hpp.
#pragma once

#include "kernels/cuda/runtime/device.hpp"

namespace reprofuse::cuda {

// Returns when every kernel before this one has finished and its results can be seen. Each kernel calls it in every
// CTA before it touches what others touch, and so before it ends: what has finished, has finished with all before it.
__device__ inline void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel take its place on the device, where it waits for this one: the trigger of programmatic dependent
// launch.
__device__ inline void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ inline void record_if_not_finite(Record* record, unsigned op, int row, int column, float value) {
  if ((__float_as_uint(value) & 0x7f800000u) == 0x7f800000u)
    atomicMin(record, Record{op} << (2 * kPlaceBits) | Record(row) << kPlaceBits | Record(column));
}

}  // namespace reprofuse::cuda
