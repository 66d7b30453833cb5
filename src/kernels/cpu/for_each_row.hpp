// Rows shared among threads, in tasks large enough to be worth waking one. A single row stays with the caller.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/math.hpp"
#include "base/thread_pool.hpp"

namespace reprofuse::cpu {

inline constexpr std::int64_t kTaskElements = 16384;

// Calls row(m, worker) once for every m in [0, rows). `elements` is how many a row has.
template <class Row>
void for_each_row(ThreadPool& pool, std::int64_t rows, std::int64_t elements, const Row& row) {
  const std::int64_t per_task = std::max<std::int64_t>(1, kTaskElements / std::max<std::int64_t>(1, elements));
  pool.parallel_for(ceil_div(rows, per_task), [&](std::int64_t task, int worker) {
    const std::int64_t end = std::min(rows, (task + 1) * per_task);
    for (std::int64_t m = task * per_task; m < end; ++m) row(m, worker);
  });
}

}  // namespace reprofuse::cpu
