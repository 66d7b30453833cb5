#include "ops/contract.hpp"

#include "base/check.hpp"
#include "kernels/cpu/linear_fma1.hpp"
#include "kernels/cuda/backend.hpp"
#include "kernels/reference/linear.hpp"
#include "ops/golden.hpp"

namespace reprofuse {
namespace {

constexpr Contract kContracts[] = {
    {.name = "fma-1",
     .summary = "binary32 fused multiply-adds in 512-term chains, folded in ascending order",
     .reference_linear = reference::linear_fma1,
     .prepare_cpu = cpu::prepare_linear_fma1,
     .prepare_cuda = cuda::prepare_linear_fma1,
     .golden = golden::kFma1},
};

}  // namespace

std::span<const Contract> contracts() {
  return kContracts;
}

const Contract& find_contract(std::string_view name) {
  std::string known;
  for (const Contract& contract : contracts()) {
    if (contract.name == name) return contract;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", contract.name);
  }
  fail(ErrorCode::kUnsupported, "numerics '{}' does not exist; there is {}", name, known);
}

std::vector<std::string_view> numerics_names() {
  std::vector<std::string_view> names;
  for (const Contract& contract : contracts()) names.push_back(contract.name);
  return names;
}

}  // namespace reprofuse
