// Which kernel runs an exact-1 linear layer, and how many blocks share K. Sums of integers have no order, so no
// choice made here can move a bit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cuda/linear/exact1/params.hpp"
#include "kernels/cuda/runtime/device.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::cuda::exact1 {

// How blocks that share K bring their sums together.
enum class Exchange {
  kNone,      // they cannot: a block has all of K, and takes one tile after another
  kCluster,   // through each other's shared memory
  kPartials,  // through the workspace and another kernel
};

// How long a block takes, in one unit for all kernels, with all the blocks beside it that fit.
struct Cost {
  double chunk;  // for a chunk of its tile
  double start;  // before the first and after the last, in chunks
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
  int blocks_per_sm = 0;                   // on the device
  std::array<int, kMostSplits> at_once{};  // clusters of 1, 2, ... blocks that the device holds
};

// With the products of a warp group of compute capability 9.0; empty where the format has none.
std::vector<Kernel> wgmma_kernels(DType dtype);
// For every device.
std::vector<Kernel> mma_kernels(DType dtype);

// The kernels of a weight format that run on the device, with their occupancy there.
std::vector<Kernel> load_kernels(const Device& device, DType dtype);

struct Problem {
  std::int64_t m;
  std::int64_t k;
  std::vector<std::int64_t> n;  // of each output of the launch
  bool vector_loads;            // the operands allow them
};

struct Schedule {
  int kernel;  // index into the table
  int splits;  // blocks that share K
};

// The most rows, up to problem.m, that some schedule can run at once.
std::int64_t rows_at_once(const std::vector<Kernel>& kernels, const Problem& problem);

// Every schedule that can run the problem on the device.
std::vector<Schedule> possible_schedules(const std::vector<Kernel>& kernels, const Problem& problem);

// The one expected to be fastest.
Schedule choose_schedule(const Device& device, const std::vector<Kernel>& kernels, const Problem& problem);

inline constexpr std::size_t kMaxPartialBytes = std::size_t{64} << 20;
std::size_t partial_bytes(const Problem& problem, int splits);  // SIZE_MAX where the number does not fit

}  // namespace reprofuse::cuda::exact1
