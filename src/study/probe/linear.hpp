// A linear layer over host operands, wherever it is computed, so that a study can be run on kernels, on the reference
// and, to prove that it can fail, on a deliberately wrong order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/thread_pool.hpp"
#include "ops/contract.hpp"
#include "reprofuse/context.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::study {

class HostLinear {
 public:
  virtual ~HostLinear() = default;
  virtual void run(ConstMatrix x, const float* bias, Matrix y) = 0;  // bias may be null
  virtual std::string implementation() const = 0;                    // what really ran: "avx512", "cuda sm_90"
};

// Makes a layer ready for batches of up to max_m rows. The weights must outlive the layer.
using PrepareLinear = std::function<std::unique_ptr<HostLinear>(const WeightView& weight, std::int64_t max_m)>;

// The context's kernels; on CUDA the operands are copied to the device and the results back.
PrepareLinear kernels_of(const Context& context);

// The loops that define the contract's bits, the rows of x shared out over `pool`. The pool must outlive the layers.
PrepareLinear reference_of(const Contract& contract, ThreadPool& pool);

}  // namespace reprofuse::study
