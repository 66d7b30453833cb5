#include "kernels/cuda/linear/integer/schedule.hpp"

#include <algorithm>
#include <cmath>

#include "base/math.hpp"
#include "kernels/cuda/linear/integer/params.hpp"
#include "kernels/cuda/linear/layer.hpp"
#include "kernels/cuda/runtime/check.hpp"
#include "kernels/cuda/runtime/launch.hpp"

namespace reprofuse::cuda::integer {
namespace {

std::int64_t k_tiles_of(const Problem& problem) {
  return ceil_div<std::int64_t>(problem.k, kTileK);
}

std::int64_t tiles_of(const Kernel& kernel, const Problem& problem) {
  return column_tiles_of(kernel, problem.n) * ceil_div<std::int64_t>(problem.m, kernel.tile_m);
}

bool can_split(const Kernel& kernel, const Problem& problem, int splits) {
  if (splits > k_tiles_of(problem) || ceil_div<std::int64_t>(k_tiles_of(problem), splits) > kernel.max_k_tiles)
    return false;
  if (kernel.takes_digits && !kernel.digits_in_place && (problem.m < kMinPreparedRows || splits > 1)) return false;
  if (kernel.split_k == SplitK::kNone) return splits == 1;
  if (ceil_div<std::int64_t>(problem.m, kernel.tile_m) > kMaxGridYZ) return false;
  if (kernel.split_k == SplitK::kCluster) return kernel.clusters_of(splits) > 0;
  if (tiles_of(kernel, problem) > INT32_MAX) return false;
  if (splits == 1) return true;
  return problem.m <= kMaxGridYZ && partial_bytes(problem, splits) <= kMaxPartialBytes;
}

GridShape one_cluster(const Kernel& kernel, int ctas) {
  return {.grid = dim3(static_cast<unsigned>(ctas)),
          .threads = kernel.threads,
          .shared_bytes = kernel.shared_bytes,
          .cluster = ctas};
}

}  // namespace

std::int64_t column_tiles_of(const Kernel& kernel, std::span<const std::int64_t> n) {
  std::int64_t tiles = 0;
  for (const std::int64_t columns : n) tiles += ceil_div<std::int64_t>(columns, kernel.tile_n);
  return tiles;
}

void find_occupancy(const Device& device, std::vector<Kernel>& kernels) {
  const DeviceScope scope(device.ordinal);
  for (Kernel& kernel : kernels) {
    KernelFacts facts;
    check(look_up_kernel(kernel.function, facts), "looking up a kernel of a linear layer");
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&kernel.ctas_per_sm, kernel.function, kernel.threads,
                                                        static_cast<std::size_t>(kernel.shared_bytes)),
          "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    if (kernel.split_k != SplitK::kCluster) continue;
    for (int ctas = 1; ctas <= kMaxSplits; ++ctas)
      check(count_clusters_at_once(kernel.function, one_cluster(kernel, ctas),
                                   kernel.at_once[static_cast<std::size_t>(ctas - 1)]),
            "counting the clusters that fit");
  }
}

// As few launches as the memory allows, of about as many tiles each.
std::int64_t prepared_at_a_time(std::int64_t column_tiles, std::int64_t k, std::int64_t tile_bytes) {
  const std::int64_t bytes = ceil_div<std::int64_t>(k, kTileK) * tile_bytes;
  const std::int64_t launches = ceil_div(column_tiles, static_cast<std::int64_t>(kMaxPartialBytes) / bytes);
  return ceil_div(column_tiles, launches);
}

std::size_t partial_bytes(const Problem& problem, int splits) {
  const auto bytes = checked_product(splits, problem.m, problem.columns(), sizeof(long long));
  return bytes ? static_cast<std::size_t>(*bytes) : SIZE_MAX;
}

namespace {

std::vector<Schedule> find_schedules(const std::vector<Kernel>& kernels, const Problem& problem) {
  std::vector<Schedule> possible;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (kernels[i].ctas_per_sm == 0 || (kernels[i].vector_loads && !problem.vector_loads)) continue;
    for (int splits = 1; splits <= kMaxSplits; ++splits)
      if (can_split(kernels[i], problem, splits)) possible.push_back({static_cast<int>(i), splits});
  }
  return possible;
}

}  // namespace

// A k that 32-bit sums of one CTA cannot hold has to be split, and partials of many rows can be too many.
std::int64_t rows_at_once(const std::vector<Kernel>& kernels, const Problem& problem) {
  Problem fewer = problem;
  while (fewer.m > 1 && find_schedules(kernels, fewer).empty()) fewer.m = ceil_div<std::int64_t>(fewer.m, 2);
  return fewer.m;
}

std::vector<Schedule> possible_schedules(const std::vector<Kernel>& kernels, const Problem& problem) {
  std::vector<Schedule> possible = find_schedules(kernels, problem);
  invariant(!possible.empty(), "no kernel of integers can run this linear layer");
  return possible;
}

namespace {

// In microseconds, as an H200 showed them: what one k-tile of weights takes from memory, and a byte from the L2 to any
// SM.
constexpr double kReadTile = 0.00745, kReadByte = 1.1e-7;
// And what persistent CTAs lose that have one tile each: they gain by the next.
constexpr double kOneTile = 2;

// The tiles that the device has in hand at once.
double tiles_at_once(const Device& device, const Kernel& kernel, int splits) {
  return kernel.split_k == SplitK::kCluster ? kernel.clusters_of(splits) : device.sm_count * kernel.ctas_per_sm;
}

// Waves: how many tiles an SM multiplies one after another. CTAs by mma.sync that share one take about as long side by
// side, and those that have ended make room for others.
double waves_of(const Device& device, const Kernel& kernel, double tiles, int splits) {
  if (!kernel.mma_sync) return std::ceil(tiles / tiles_at_once(device, kernel, splits));
  const double waves = tiles * splits / device.sm_count;
  return kernel.ctas_per_sm > 1 ? std::max(1.0, (waves + std::ceil(waves)) / 2) : std::ceil(waves);
}

// CTAs multiply while others wait for weights, so the longest counts, and little of what goes on beside it.
double expected_time_of_digits(const Device& device, const Kernel& kernel, const Problem& problem, int splits) {
  const auto tiles = static_cast<double>(tiles_of(kernel, problem));
  const auto column_tiles = static_cast<double>(column_tiles_of(kernel, problem.n));
  const auto k_tiles = static_cast<double>(k_tiles_of(problem));
  const DigitCost& cost = kernel.digit_cost;
  const double waves = waves_of(device, kernel, tiles, splits);
  const double multiply = waves * std::ceil(k_tiles / splits) * cost.k_tile;
  const double from_memory = column_tiles * k_tiles * kReadTile * kernel.tile_n / kPreparedRows;
  const double from_cache = tiles * k_tiles * 2 * (kernel.tile_n + kernel.tile_m) * kTileK * kReadByte;
  // CTAs that meet others at the end of a tile start the next no sooner; partials are added when all are there.
  const double row_tiles = tiles / column_tiles;
  const double start = kernel.split_k == SplitK::kNone && waves == 1 ? cost.start + kOneTile : cost.start;
  const double around = kernel.mma_sync ? start + (splits - 1) * row_tiles * cost.exchange
                        : splits > 1    ? waves * (start + cost.exchange)
                                        : start;
  const double prepare = kernel.takes_digits && !kernel.digits_in_place ? column_tiles * k_tiles * cost.prepare : 0;
  return around + std::max({multiply, from_memory, from_cache}) + multiply / 10 + prepare;
}

// Two units, never compared: a table has digits in place or none, and kernels by mma.sync come last whatever their
// time.
double expected_time(const Device& device, const Kernel& kernel, const Problem& problem, int splits) {
  if (kernel.digits_in_place || kernel.mma_sync) return expected_time_of_digits(device, kernel, problem, splits);
  const auto tiles = static_cast<double>(tiles_of(kernel, problem));
  const double waves = tiles / tiles_at_once(device, kernel, splits);
  const auto k_tiles = static_cast<double>(ceil_div<std::int64_t>(k_tiles_of(problem), splits));
  const double prepare = kernel.cost.prepare * static_cast<double>(column_tiles_of(kernel, problem.n)) * k_tiles;
  if (kernel.split_k == SplitK::kNone || kernel.takes_digits)
    return (std::ceil(waves) * k_tiles + kernel.cost.start) * kernel.cost.k_tile + prepare / device.sm_count;
  // Few waves: the last counts as a whole one. Many: CTAs that end early make room for others.
  return (waves <= 2 ? std::ceil(waves) : waves) * (k_tiles + kernel.cost.start) * kernel.cost.k_tile;
}

}  // namespace

Schedule choose_schedule(const Device& device, const std::vector<Kernel>& kernels, const Problem& problem) {
  const std::vector<Schedule> possible = possible_schedules(kernels, problem);
  const auto time = [&](const Schedule& schedule) {
    return expected_time(device, kernels[static_cast<std::size_t>(schedule.kernel)], problem, schedule.splits);
  };
  const auto is_mma = [&](const Schedule& schedule) {
    return kernels[static_cast<std::size_t>(schedule.kernel)].mma_sync;
  };
  return *std::min_element(possible.begin(), possible.end(), [&](const Schedule& a, const Schedule& b) {
    return is_mma(a) != is_mma(b) ? is_mma(b) : time(a) < time(b);
  });
}

}  // namespace reprofuse::cuda::integer
