// The baselines: a vendor's linear layers, the rest as in fma-1. Part of the library reprofuse_vendor.
#include "kernels/reference/reference.hpp"
#include "kernels/vendor/libraries.hpp"
#include "ops/contract.hpp"

namespace reprofuse {
namespace {

using namespace reference;  // NOLINT(google-build-using-namespace): the schemes
using kernels::ExternalLinear;
using kernels::LinearScheme;
using kernels::Multiplier;

constexpr ExternalLinear on_cpu(kernels::PrepareLinear prepare) {
  return {.backend = "cpu", .prepare = prepare, .library = vendor::describe_openblas};
}
constexpr ExternalLinear on_cuda(kernels::PrepareLinear prepare, Multiplier multiplier = Multiplier::kBinary32) {
  return {.backend = "cuda", .prepare = prepare, .multiplier = multiplier, .library = vendor::describe_cublas};
}
constexpr ExternalLinear kLayercast[] = {on_cpu(vendor::prepare_openblas_layercast),
                                         on_cuda(vendor::prepare_cublas_layercast)};
constexpr ExternalLinear kBf16[] = {on_cpu(vendor::prepare_openblas_bf16),
                                    on_cuda(vendor::prepare_cublas_bf16, Multiplier::kBf16)};
constexpr ExternalLinear kSgemm[] = {on_cpu(vendor::prepare_openblas_sgemm), on_cuda(vendor::prepare_cublas_sgemm)};

constexpr LinearScheme kLinearSgemm{.name = "sgemm", .external = kSgemm};
constexpr LinearScheme kLinearLayercast{.name = "layercast", .external = kLayercast, .same_results_as = &kLinearSgemm};
constexpr LinearScheme kLinearBf16{.name = "bf16", .multiplier = Multiplier::kBf16, .external = kBf16};

constexpr kernels::ElementwiseScheme kElementwiseBf16 = [] {
  kernels::ElementwiseScheme scheme = kElementwiseFma1;
  scheme.bf16_results = true;
  return scheme;
}();

constexpr Numerics kBaselines[] = {
    {.name = "layercast",
     .summary = "16-bit weights cast to binary32 at each call, then the vendor's SGEMM",
     .linear = &kLinearLayercast,
     .attention = &kAttentionFma1,
     .cache = &kCacheF32,
     .elementwise = &kElementwiseFma1},
    {.name = "bf16",
     .summary = "BF16 weights and activations, the vendor's GEMM (CPU: SGEMM between roundings)",
     .linear = &kLinearBf16,
     .attention = &kAttentionFma1,
     .cache = &kCacheBf16,
     .elementwise = &kElementwiseBf16},
    {.name = "sgemm",
     .summary = "a binary32 copy of the weights, twice their memory, and the vendor's SGEMM",
     .linear = &kLinearSgemm,
     .attention = &kAttentionFma1,
     .cache = &kCacheF32,
     .elementwise = &kElementwiseFma1},
};

}  // namespace

std::span<const Numerics> baselines() {
  return kBaselines;
}

}  // namespace reprofuse
