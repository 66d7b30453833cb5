#include "ops/contract.hpp"

#include <algorithm>
#include <iterator>

#include "base/check.hpp"
#include "kernels/cpu/linear/exact1/linear.hpp"
#include "kernels/cpu/linear/fma1/linear.hpp"
#include "kernels/cuda/runtime/backend.hpp"
#include "kernels/reference/linear.hpp"
#include "kernels/reference/linear_exact1.hpp"
#include "kernels/vendor/linear_cublas.hpp"
#include "kernels/vendor/linear_openblas.hpp"
#include "ops/golden.hpp"

namespace reprofuse {
namespace {

constexpr Contract kNumerics[] = {
    {.name = "fma-1",
     .summary = "binary32 fused multiply-adds in 512-term chains, folded in ascending order",
     .reproducible = true,
     .linear_contract = "fma-1",
     .reference_linear = reference::linear_fma1,
     .prepare_cpu = cpu::prepare_linear_fma1,
     .prepare_cuda = cuda::prepare_linear_fma1,
     .golden = golden::kFma1},
    {.name = "fma-1-kv16",
     .summary = "fma-1 with keys and values rounded to BF16 in the cache",
     .reproducible = true,
     .kv_dtype = DType::kBF16,
     .linear_contract = "fma-1",
     .reference_linear = reference::linear_fma1,
     .prepare_cpu = cpu::prepare_linear_fma1,
     .prepare_cuda = cuda::prepare_linear_fma1,
     .golden = golden::kFma1},
    {.name = "exact-1",
     .summary = "operands snapped to fixed point, exact integer sums in any order, one rounding",
     .reproducible = true,
     .linear_contract = "exact-1",
     .reference_linear = reference::linear_exact1,
     .prepare_cpu = cpu::prepare_linear_exact1,
     .prepare_cuda = cuda::prepare_linear_exact1,
     .golden = golden::kExact1},
    {.name = "exact-1-kv16",
     .summary = "exact-1 with keys and values rounded to BF16 in the cache",
     .reproducible = true,
     .kv_dtype = DType::kBF16,
     .linear_contract = "exact-1",
     .reference_linear = reference::linear_exact1,
     .prepare_cpu = cpu::prepare_linear_exact1,
     .prepare_cuda = cuda::prepare_linear_exact1,
     .golden = golden::kExact1},
    {.name = "layercast",
     .summary = "16-bit weights cast to binary32 at each call, then the vendor's SGEMM",
     .reproducible = false,
     .prepare_cpu = vendor::prepare_openblas_layercast,
     .prepare_cuda = vendor::prepare_cublas_layercast},
    {.name = "bf16",
     .summary = "BF16 weights and activations, the vendor's GEMM (CPU: SGEMM between roundings)",
     .reproducible = false,
     .kv_dtype = DType::kBF16,
     .bf16_activations = true,
     .prepare_cpu = vendor::prepare_openblas_bf16,
     .prepare_cuda = vendor::prepare_cublas_bf16},
    {.name = "sgemm",
     .summary = "a binary32 copy of the weights, twice their memory, and the vendor's SGEMM",
     .reproducible = false,
     .prepare_cpu = vendor::prepare_openblas_sgemm,
     .prepare_cuda = vendor::prepare_cublas_sgemm},
};

constexpr auto kFirstBaseline =
    static_cast<std::size_t>(std::find_if(std::begin(kNumerics), std::end(kNumerics),
                                          [](const Contract& contract) { return !contract.reproducible; }) -
                             std::begin(kNumerics));

std::string listed(std::span<const Contract> rows) {
  std::string names;
  for (const Contract& row : rows) names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  return names;
}

}  // namespace

std::span<const Contract> all_numerics() {
  return kNumerics;
}

std::span<const Contract> contracts() {
  return all_numerics().first(kFirstBaseline);
}

std::span<const Contract> baselines() {
  return all_numerics().subspan(kFirstBaseline);
}

std::string contract_names() {
  return listed(contracts());
}

const Contract& find_numerics(std::string_view name) {
  for (const Contract& row : all_numerics())
    if (row.name == name) return row;
  fail(ErrorCode::kUnsupported, "numerics '{}' does not exist; there are {}", name, listed(all_numerics()));
}

const Contract& find_contract(std::string_view name) {
  const Contract& found = find_numerics(name);
  if (!found.reproducible)
    fail(ErrorCode::kUnsupported, "numerics '{}' pins no bits; this needs a contract: {}", name, contract_names());
  return found;
}

std::vector<std::string_view> numerics_names() {
  std::vector<std::string_view> names;
  for (const Contract& row : all_numerics()) names.push_back(row.name);
  return names;
}

}  // namespace reprofuse
