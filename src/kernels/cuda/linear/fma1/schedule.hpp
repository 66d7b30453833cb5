// Which kernel runs a linear layer, and whether K is split over CTAs. The tree is fixed by K, so no choice made here
// can move a bit: it may depend on the device, its size and anything else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cuda/linear/problem.hpp"
#include "kernels/cuda/runtime/device.hpp"
#include "kernels/cuda/runtime/launch.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::cuda::fma1 {

using reprofuse::cuda::Problem;

// How fast a kernel goes on one SM, in multiply-adds of its tile per clock.
struct Rate {
  double full;   // with all the CTAs that fit
  double alone;  // with one
};

// How a kernel reads its operands.
enum class Reads {
  kSingly,   // whatever their alignment
  kVectors,  // needs 16-byte aligned rows and k a multiple of 16 bytes
  kTma,      // likewise, and the TMA of compute capability 9.0 and later
};

struct Kernel {
  const char* name;
  const void* function;
  int tile_m;
  int tile_n;
  int threads;
  Start start;
  Reads reads;
  bool splits;  // a CTA can own one segment
  int shared_bytes;
  int fold_bytes;  // more shared memory, when a CTA folds several segments itself
  Rate rate;
  int stage_bytes = 0;       // more shared memory for each stage, of a kernel that takes as many as fit
  int tile_k = 0;            // of kTma
  int ctas_per_sm = 0;       // on the device at most, when a CTA owns one segment; 0: does not run there
  int ctas_per_sm_fold = 0;  // likewise when it folds
};

std::vector<Kernel> kernels_bf16();
std::vector<Kernel> kernels_f16();
std::vector<Kernel> kernels_f32();

// The kernels of a weight format with their occupancy on the device; ready to launch with all the shared memory they
// ask.
std::vector<Kernel> load_kernels(const Device& device, DType dtype);

struct Schedule {
  int kernel;    // index into the table
  bool split_k;  // one segment per CTA, then a fold kernel
};

// What a launch of so many CTAs, one at least, asks for. The kernel runs on the device.
struct Placement {
  int ctas_per_sm;
  int stages;
  int shared_bytes;
};
Placement place(const Device& device, const Kernel& kernel, std::int64_t ctas, bool folds);

// Every schedule that can run the problem on the device.
std::vector<Schedule> possible_schedules(const std::vector<Kernel>& kernels, const Problem& problem);

// The one expected to be fastest.
Schedule choose_schedule(const Device& device, const std::vector<Kernel>& kernels, const Problem& problem);

std::size_t partial_bytes(const Problem& problem);  // of a split; SIZE_MAX where the number does not fit

}  // namespace reprofuse::cuda::fma1
