// What a Context handle shares.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/thread_pool.hpp"
#include "ops/contract.hpp"
#include "reprofuse/context.hpp"

namespace reprofuse {

// Names the ops of a context, so that a record made on a device can be told to a person.
class OpNames {
 public:
  unsigned add(std::string name, std::vector<std::int64_t> columns);
  // "linear 'qkv' output 1 row 3 column 17: the result is not finite"
  [[noreturn]] void fail_non_finite(unsigned op, kernels::Place place) const;

 private:
  struct Op {
    std::string name;
    std::vector<std::int64_t> columns;  // of each output
  };
  mutable std::mutex mutex_;
  std::vector<Op> ops_;
};

struct ContextState {
  DeviceKind device;
  const Contract* contract;
  Isa isa = Isa::kScalar;            // CPU
  std::unique_ptr<ThreadPool> pool;  // CPU
  int ordinal = 0;                   // CUDA
  mutable OpNames ops;
};

}  // namespace reprofuse
