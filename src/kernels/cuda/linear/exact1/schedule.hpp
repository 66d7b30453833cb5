// Which kernel runs an exact-1 linear layer, and how many CTAs share K. Sums of integers have no order, so no
// choice made here can move a bit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cuda/linear/exact1/params.hpp"
#include "kernels/cuda/linear/problem.hpp"
#include "kernels/cuda/runtime/device.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::cuda::exact1 {

using reprofuse::cuda::Problem;

// How CTAs that share K (split-K) bring their sums together.
enum class Exchange {
  kNone,      // they cannot: a persistent CTA has all of K, and takes one tile after another
  kCluster,   // through each other's shared memory
  kPartials,  // through the workspace and another kernel
};

// How long a CTA takes, in one unit for all kernels, with all the CTAs beside it that fit.
struct Cost {
  double k_tile;  // for one k-tile
  double start;   // before the first and after the last, in k-tiles
};

struct Kernel {
  const char* name;
  const void* function;
  int tile_m;
  int tile_n;
  int threads;
  int shared_bytes;
  bool vector_loads;  // needs 16-byte aligned weight rows of 16-bit weights
  Exchange exchange;
  Cost cost;
  int ctas_per_sm = 0;                    // on the device
  std::array<int, kMaxSplits> at_once{};  // clusters of 1, 2, ... CTAs that the device holds
};

// With wgmma, of compute capability 9.0; empty where the format has none.
std::vector<Kernel> wgmma_kernels(DType dtype);
// For every device.
std::vector<Kernel> mma_kernels(DType dtype);

// The kernels of a weight format that run on the device, with their occupancy there.
std::vector<Kernel> load_kernels(const Device& device, DType dtype);

struct Schedule {
  int kernel;  // index into the table
  int splits;  // CTAs that share K (split-K)
};

// The largest number of rows, up to problem.m, that some schedule can run at once.
std::int64_t rows_at_once(const std::vector<Kernel>& kernels, const Problem& problem);

// Every schedule that can run the problem on the device.
std::vector<Schedule> possible_schedules(const std::vector<Kernel>& kernels, const Problem& problem);

// The one expected to be fastest.
Schedule choose_schedule(const Device& device, const std::vector<Kernel>& kernels, const Problem& problem);

std::size_t partial_bytes(const Problem& problem, int splits);  // SIZE_MAX where the number does not fit

}  // namespace reprofuse::cuda::exact1
