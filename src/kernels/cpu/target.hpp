#pragma once

#include "base/thread_pool.hpp"
#include "reprofuse/context.hpp"

namespace reprofuse::cpu {

// What kernels run on.
struct Target {
  Isa isa;
  ThreadPool* pool;
};

}  // namespace reprofuse::cpu
