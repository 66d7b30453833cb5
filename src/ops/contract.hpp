// Numerics by name. A contract pins every bit: a reference defines them and kernels reproduce them on each backend.
// A baseline runs a vendor's library through the same layer and pins nothing. Adding either means adding a row to the
// table in contract.cpp; no caller changes.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "kernels/linear.hpp"

namespace reprofuse {

struct Contract {
  std::string_view name;
  std::string_view summary;
  bool reproducible;                   // false: a baseline
  DType kv_dtype = DType::kF32;        // of the keys and values that a model keeps
  bool bf16_activations = false;       // every activation is rounded to BF16 between ops, as frameworks do
  std::string_view linear_contract{};  // whose linear layer, reference and golden digests it has; empty: a baseline
  void (*reference_linear)(ConstMatrix x, const WeightView& weight, const float* bias, Matrix y) = nullptr;
  std::unique_ptr<kernels::PreparedLinear> (*prepare_cpu)(const kernels::CpuBackend&, std::span<const WeightView>);
  std::unique_ptr<kernels::PreparedLinear> (*prepare_cuda)(const kernels::CudaBackend&, std::span<const WeightView>);
  std::string_view golden{};  // the digests of its probe cases, as JSON; empty: a baseline
};

// Everything a context can compute by: the contracts, then the baselines.
std::span<const Contract> all_numerics();
// Those that pin bits.
std::span<const Contract> contracts();
// The others.
std::span<const Contract> baselines();

// "fma-1, fma-1-kv16, ...": the contracts, for a sentence.
std::string contract_names();

// Throws kUnsupported, listing the names there are.
const Contract& find_numerics(std::string_view name);

// The same for work that is about pinned bits: a baseline is refused too.
const Contract& find_contract(std::string_view name);

}  // namespace reprofuse
