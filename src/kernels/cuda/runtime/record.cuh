// The device side of record.hpp.
#pragma once

#include "kernels/cuda/runtime/record.hpp"

namespace reprofuse::cuda {

__device__ inline void record_if_not_finite(Record* record, unsigned op, int row, int column, float value) {
  if ((__float_as_uint(value) & 0x7f800000u) == 0x7f800000u)
    atomicMin(record, Record{op} << (2 * kPlaceBits) | Record(row) << kPlaceBits | Record(column));
}

}  // namespace reprofuse::cuda
