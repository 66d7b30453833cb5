#include "kernels/cuda/linear_fma1_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/math.hpp"
#include "kernels/cuda/check.hpp"
#include "kernels/cuda/linear_fma1_params.hpp"
#include "kernels/cuda/operands.hpp"
#include "numerics/order.hpp"

namespace reprofuse::cuda::fma1 {

using reprofuse::fma1::segment_count;

std::vector<Kernel> load_kernels(const Device& device, DType dtype) {
  const DeviceScope scope(device.ordinal);
  check(load_fold_ascending(), "loading fold_ascending");  // now, so that no run has to load it
  std::vector<Kernel> kernels = dtype == DType::kBF16  ? kernels_bf16()
                                : dtype == DType::kF16 ? kernels_f16()
                                                       : kernels_f32();
  for (Kernel& kernel : kernels) {
    const int most = std::min(device.shared_bytes_per_block, kernel.shared_bytes + kernel.fold_bytes);
    check(cudaFuncSetAttribute(kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize, most),
          "cudaFuncSetAttribute");
    const auto occupancy = [&](int shared_bytes) {
      int blocks = 0;
      if (shared_bytes > device.shared_bytes_per_block) return 0;
      check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel.function, kernel.threads, shared_bytes),
            "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
      return blocks;
    };
    kernel.blocks_per_sm = occupancy(kernel.shared_bytes);
    kernel.blocks_per_sm_fold = occupancy(kernel.shared_bytes + kernel.fold_bytes);
  }
  return kernels;
}

std::size_t partial_bytes(const Problem& problem) {
  const std::int64_t columns = std::accumulate(problem.n.begin(), problem.n.end(), std::int64_t{0});
  std::size_t bytes = 0;
  const bool overflows = __builtin_mul_overflow(segment_count(problem.k) * problem.m, columns, &bytes) ||
                         __builtin_mul_overflow(bytes, sizeof(float), &bytes);
  return overflows ? SIZE_MAX : bytes;
}

std::vector<Schedule> possible_schedules(const std::vector<Kernel>& kernels, const Problem& problem) {
  std::vector<Schedule> possible;
  const std::int64_t segments = segment_count(problem.k);
  const bool can_split =
      segments > 1 && segments <= kMaxGridYZ && problem.m <= kMaxGridYZ && partial_bytes(problem) <= kMaxPartialBytes;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const Kernel& kernel = kernels[i];
    if (kernel.vector_loads && !problem.vector_loads) continue;
    if ((segments > 1 ? kernel.blocks_per_sm_fold : kernel.blocks_per_sm) > 0)
      possible.push_back({static_cast<int>(i), false});
    if (can_split && kernel.blocks_per_sm > 0) possible.push_back({static_cast<int>(i), true});
  }
  invariant(!possible.empty(), "no fma-1 kernel can run this linear layer");
  return possible;
}

namespace {

// Clocks that a launch takes before and after its work, and a fold on top of its traffic.
constexpr double kLaunchClocks = 3400;
constexpr double kFoldClocks = 4200;
constexpr double kFoldFloatsPerClock = 670;

double blocks_of(const Kernel& kernel, const Problem& problem) {
  std::int64_t columns = 0;
  for (const std::int64_t n : problem.n) columns += ceil_div<std::int64_t>(n, kernel.tile_n);
  return static_cast<double>(columns * ceil_div<std::int64_t>(problem.m, kernel.tile_m));
}

// The clocks of one multiprocessor that works off `blocks` blocks, `resident` of them at a time.
double clocks_of(const Kernel& kernel, double blocks, int resident, double terms) {
  const double block = static_cast<double>(kernel.tile_m) * kernel.tile_n * terms;
  const double rounds = std::floor(blocks / resident);
  const double rest = blocks - rounds * resident;
  const double last = rest == 0 ? 0 : rest / std::min(kernel.rate.full, kernel.rate.alone * std::max(rest, 1.0));
  return block * (rounds * resident / std::min(kernel.rate.full, kernel.rate.alone * resident) + last);
}

double expected_clocks(const Device& device, const Kernel& kernel, const Problem& problem, bool split) {
  const auto segments = static_cast<double>(segment_count(problem.k));
  const bool folds = !split && segments > 1;
  const double per_sm = blocks_of(kernel, problem) * (split ? segments : 1) / device.sm_count;
  const int resident = folds ? kernel.blocks_per_sm_fold : kernel.blocks_per_sm;
  // Few blocks: the busiest multiprocessor decides. Many: they even out.
  const double busiest = per_sm <= 2.0 * resident ? std::ceil(per_sm) : per_sm + 0.25;
  const double terms = std::min<double>(static_cast<double>(problem.k), split ? reprofuse::fma1::kSegment : 1e18);
  const double clocks = kLaunchClocks + clocks_of(kernel, busiest, resident, terms);
  if (!split) return clocks;
  const double floats = static_cast<double>(partial_bytes(problem)) / sizeof(float);
  return clocks + kFoldClocks + 2 * floats / kFoldFloatsPerClock;
}

}  // namespace

Schedule choose_schedule(const Device& device, const std::vector<Kernel>& kernels, const Problem& problem) {
  const std::vector<Schedule> possible = possible_schedules(kernels, problem);
  const auto clocks = [&](const Schedule& schedule) {
    return expected_clocks(device, kernels[static_cast<std::size_t>(schedule.kernel)], problem, schedule.split);
  };
  return *std::min_element(possible.begin(), possible.end(),
                           [&](const Schedule& a, const Schedule& b) { return clocks(a) < clocks(b); });
}

}  // namespace reprofuse::cuda::fma1
