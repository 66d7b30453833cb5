// A pointer into shared memory as PTX wants it: an address in the shared window.
#pragma once

#include <cstdint>

namespace reprofuse::cuda::ptx {

__device__ inline std::uint32_t shared_address(const void* shared) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
}

}  // namespace reprofuse::cuda::ptx
