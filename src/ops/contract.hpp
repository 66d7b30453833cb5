// A numerics contract: a name, the reference that defines its bits, and kernels that reproduce them on each backend.
// Adding one means adding an entry to contract.cpp; no caller changes.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "kernels/linear.hpp"

namespace reprofuse {

struct Contract {
  std::string_view name;
  std::string_view summary;
  void (*reference_linear)(ConstMatrix x, const WeightView& weight, const float* bias, Matrix y);
  std::unique_ptr<kernels::PreparedLinear> (*prepare_cpu)(const kernels::CpuBackend&, std::span<const WeightView>);
  std::unique_ptr<kernels::PreparedLinear> (*prepare_cuda)(const kernels::CudaBackend&, std::span<const WeightView>);
  std::string_view golden;  // the digests of its probe cases, as JSON
};

std::span<const Contract> contracts();

// Throws kUnsupported, listing the names there are.
const Contract& find_contract(std::string_view name);

}  // namespace reprofuse
