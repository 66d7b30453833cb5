// Small integer helpers shared by host and device code.
#pragma once

#if defined(__CUDACC__)
#define REPROFUSE_HOST_DEVICE __host__ __device__
#else
#define REPROFUSE_HOST_DEVICE
#endif

namespace reprofuse {

template <typename T>
REPROFUSE_HOST_DEVICE constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

template <typename T>
REPROFUSE_HOST_DEVICE constexpr T round_up(T a, T multiple) {
  return ceil_div(a, multiple) * multiple;
}

}  // namespace reprofuse
