#include "kernels/cuda/linear/fma1/schedule.hpp"

#include <algorithm>
#include <cmath>

#include "base/math.hpp"
#include "kernels/cuda/linear/fma1/params.hpp"
#include "kernels/cuda/linear/layer.hpp"
#include "kernels/cuda/runtime/check.hpp"
#include "kernels/cuda/runtime/launch.hpp"
#include "numerics/fma1.hpp"

namespace reprofuse::cuda::fma1 {

using reprofuse::fma1::segment_count;

std::vector<Kernel> load_kernels(const Device& device, DType dtype) {
  const DeviceScope scope(device.ordinal);
  check(load_fold_ascending(), "loading fold_ascending");  // now, so that no run has to load it
  std::vector<Kernel> kernels = dtype == DType::kBF16  ? kernels_bf16()
                                : dtype == DType::kF16 ? kernels_f16()
                                                       : kernels_f32();
  for (Kernel& kernel : kernels) {
    KernelFacts facts;
    check(look_up_kernel(kernel.function, facts), "looking up a kernel of fma-1");
    if (kernel.reads == Reads::kTma && !facts.for_sm90) continue;  // code for older devices has no TMA
    const auto occupancy = [&](int shared_bytes) {
      int ctas = 0;
      if (shared_bytes > device.shared_bytes_per_cta) return 0;
      check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&ctas, kernel.function, kernel.threads,
                                                          static_cast<std::size_t>(shared_bytes)),
            "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
      return ctas;
    };
    const int min_bytes = kernel.shared_bytes + kMinStages * kernel.stage_bytes;
    kernel.ctas_per_sm = occupancy(min_bytes);
    kernel.ctas_per_sm_fold = occupancy(min_bytes + kernel.fold_bytes);
  }
  return kernels;
}

std::size_t partial_bytes(const Problem& problem) {
  std::size_t bytes = 0;
  const bool overflows = __builtin_mul_overflow(segment_count(problem.k) * problem.m, problem.columns(), &bytes) ||
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
    if (kernel.reads != Reads::kSingly && !problem.vector_loads) continue;
    if ((segments > 1 ? kernel.ctas_per_sm_fold : kernel.ctas_per_sm) > 0)
      possible.push_back({static_cast<int>(i), false});
    if (can_split && kernel.splits && kernel.ctas_per_sm > 0) possible.push_back({static_cast<int>(i), true});
  }
  invariant(!possible.empty(), "no fma-1 kernel can run this linear layer");
  return possible;
}

// CTAs that start early go where there is room, and would share an SM while others stand empty: a CTA asks for so much
// shared memory that no more fit than the launch needs.
Placement place(const Device& device, const Kernel& kernel, std::int64_t ctas, bool folds) {
  const int fixed = kernel.shared_bytes + (folds ? kernel.fold_bytes : 0);
  const int max_resident = folds ? kernel.ctas_per_sm_fold : kernel.ctas_per_sm;
  if (kernel.stage_bytes == 0) return {.ctas_per_sm = max_resident, .stages = 0, .shared_bytes = fixed};
  const int few = folds ? kMinStages + 1 : kMinStages;  // a CTA that walks all of k must not run dry
  auto resident = static_cast<int>(std::min<std::int64_t>(max_resident, ceil_div<std::int64_t>(ctas, device.sm_count)));
  invariant(resident > 0, "a kernel that does not run, or a launch of no CTAs");
  for (;; --resident) {
    constexpr int kUnit = 128;  // shared memory is given out in such pieces
    const int room = device.shared_bytes_per_sm / resident / kUnit * kUnit - device.reserved_shared_bytes_per_cta;
    const int bytes = std::min(device.shared_bytes_per_cta, room);
    const int stages = std::min(kMaxStages, (bytes - fixed) / kernel.stage_bytes);
    if (stages < few && resident > 1) continue;
    const int too_much_for_more = device.shared_bytes_per_sm / (resident + 1);
    return {.ctas_per_sm = resident,
            .stages = stages,
            .shared_bytes = std::max(fixed + stages * kernel.stage_bytes, std::min(bytes, too_much_for_more))};
  }
}

namespace {

// Clocks that a launch takes before and after its work, and a fold on top of its traffic.
constexpr double kLaunchClocks = 3830;
constexpr double kFoldClocks = 6140;
constexpr double kFoldFloatsPerClock = 670;
constexpr double kOfMemoryPeak = 0.76;  // that weights are read at

std::int64_t ctas_of(const Kernel& kernel, const Problem& problem) {
  std::int64_t columns = 0;
  for (const std::int64_t n : problem.n) columns += ceil_div<std::int64_t>(n, kernel.tile_n);
  return columns * ceil_div<std::int64_t>(problem.m, kernel.tile_m);
}

// The clocks of one SM that runs `ctas` CTAs, `resident` of them at a time.
double clocks_of(const Kernel& kernel, double ctas, int resident, double terms) {
  const double cta = static_cast<double>(kernel.tile_m) * kernel.tile_n * terms;
  const double waves = std::floor(ctas / resident);
  const double rest = ctas - waves * resident;
  const double last = rest == 0 ? 0 : rest / std::min(kernel.rate.full, kernel.rate.alone * std::max(rest, 1.0));
  return cta * (waves * resident / std::min(kernel.rate.full, kernel.rate.alone * resident) + last);
}

// The clocks that the weights take to come from memory.
double read_clocks(const Device& device, const Problem& problem) {
  if (device.memory_bytes_per_clock == 0) return 0;  // the driver does not say
  const double bytes = static_cast<double>(problem.columns() * problem.k) * problem.weight_bytes;
  return bytes / (kOfMemoryPeak * device.memory_bytes_per_clock);
}

double expected_clocks(const Device& device, const Kernel& kernel, const Problem& problem, bool split) {
  const auto segments = static_cast<double>(segment_count(problem.k));
  const bool folds = !split && segments > 1;
  const std::int64_t ctas = ctas_of(kernel, problem) * (split ? segment_count(problem.k) : 1);
  const double per_sm = static_cast<double>(ctas) / device.sm_count;
  const int resident = place(device, kernel, ctas, folds).ctas_per_sm;
  // Few CTAs: the busiest SM decides. Many: they even out.
  const double busiest = per_sm <= 2.0 * resident ? std::ceil(per_sm) : per_sm + 0.25;
  const double terms = std::min<double>(static_cast<double>(problem.k), split ? reprofuse::fma1::kSegment : 1e18);
  const double clocks =
      kLaunchClocks + std::max(clocks_of(kernel, busiest, resident, terms), read_clocks(device, problem));
  if (!split) return clocks;
  const double floats = static_cast<double>(partial_bytes(problem)) / sizeof(float);
  return clocks + kFoldClocks + 2 * floats / kFoldFloatsPerClock;
}

}  // namespace

Schedule choose_schedule(const Device& device, const std::vector<Kernel>& kernels, const Problem& problem) {
  const std::vector<Schedule> possible = possible_schedules(kernels, problem);
  const auto clocks = [&](const Schedule& schedule) {
    return expected_clocks(device, kernels[static_cast<std::size_t>(schedule.kernel)], problem, schedule.split_k);
  };
  return *std::min_element(possible.begin(), possible.end(),
                           [&](const Schedule& a, const Schedule& b) { return clocks(a) < clocks(b); });
}

}  // namespace reprofuse::cuda::fma1
