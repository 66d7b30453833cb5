// What schedules need to know of a GPU.
#pragma once

#include <string>

namespace reprofuse::cuda {

struct Device {
  int ordinal;
  int sm_count;
  int shared_bytes_per_block;  // the most a block can have
  int shared_bytes_per_sm;
  int reserved_shared_bytes_per_block;  // that no block can use
  double memory_bytes_per_clock;        // at the peak rates of both; 0 where the driver does not say
  int major, minor;                     // compute capability
  std::string architecture;             // "sm_90"
};

Device read_device(int ordinal);

}  // namespace reprofuse::cuda
