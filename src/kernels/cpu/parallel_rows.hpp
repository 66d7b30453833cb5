// Rows shared among threads, and what comes back of their failures.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>
#include <tuple>

#include "base/math.hpp"
#include "base/thread_pool.hpp"
#include "kernels/linear.hpp"

namespace reprofuse::cpu {

inline constexpr std::int64_t kTaskElements =
    16384;  // enough to be worth waking a thread; a single row stays with the caller

// Calls row(m, worker) once for every m in [0, rows). `elements` is how many a row has.
template <class Row>
void for_each_row(ThreadPool& pool, std::int64_t rows, std::int64_t elements, const Row& row) {
  const std::int64_t per_task = std::max<std::int64_t>(1, kTaskElements / std::max<std::int64_t>(1, elements));
  pool.parallel_for(ceil_div(rows, per_task), [&](std::int64_t task, int worker) {
    const std::int64_t end = std::min(rows, (task + 1) * per_task);
    for (std::int64_t m = task * per_task; m < end; ++m) row(m, worker);
  });
}

// The first place, by row and then column, where any task of a parallel loop failed.
class FirstPlace {
 public:
  void add(kernels::Place place) {
    std::lock_guard lock(mutex_);
    if (!first_ || std::tie(place.row, place.column) < std::tie(first_->row, first_->column)) first_ = place;
  }
  std::optional<kernels::Place> get() const { return first_; }

 private:
  std::mutex mutex_;
  std::optional<kernels::Place> first_;
};

}  // namespace reprofuse::cpu
