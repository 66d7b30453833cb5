// Which kernel runs a linear layer of integers, and how many CTAs share K. Sums of integers have no order, so no choice
// made here can move a bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/linear/integer/scheme.hpp"
#include "kernels/cuda/linear/problem.hpp"
#include "kernels/cuda/runtime/device.hpp"

namespace reprofuse::cuda::integer {

using reprofuse::cuda::Problem;

// Looks the kernels up on the device, and how many of their CTAs it holds.
void find_occupancy(const Device& device, std::vector<Kernel>& kernels);

struct Schedule {
  int kernel;  // index into the table
  int splits;  // CTAs that share K (split-K)
};

std::int64_t column_tiles_of(const Kernel& kernel, std::span<const std::int64_t> n);

// The largest number of rows, up to problem.m, that some schedule can run at once.
std::int64_t rows_at_once(const std::vector<Kernel>& kernels, const Problem& problem);

// Every schedule that can run the problem on the device.
std::vector<Schedule> possible_schedules(const std::vector<Kernel>& kernels, const Problem& problem);

// The one expected to be fastest; one by mma.sync only where there is no other.
Schedule choose_schedule(const Device& device, const std::vector<Kernel>& kernels, const Problem& problem);

// The least rows for which weights are prepared, and the column tiles that a launch prepares at a time, which share the
// partials' memory.
inline constexpr std::int64_t kMinPreparedRows = 65;
std::int64_t prepared_at_a_time(std::int64_t column_tiles, std::int64_t k, std::int64_t tile_bytes = kPreparedBytes);

std::size_t partial_bytes(const Problem& problem, int splits);  // SIZE_MAX where the number does not fit

}  // namespace reprofuse::cuda::integer
