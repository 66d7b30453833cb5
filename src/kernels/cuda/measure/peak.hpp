// What a device could compute at most: the floor that benchmarks compare with.
#pragma once

namespace reprofuse::cuda {

// Binary32 fused multiply-adds outside tensor cores, two operations each, on every lane at the highest clock.
double peak_fma_gigaflops(int ordinal);

}  // namespace reprofuse::cuda
