#include "kernels/backend.hpp"

#include "base/check.hpp"

namespace reprofuse::kernels {

std::int32_t Attention::integer_in_page(const void*, Cached, const ElementInPage&) const {
  fail(ErrorCode::kUnsupported, "this attention does not tell which integers its pages hold");
}

std::unique_ptr<PreparedLinear> Backend::prepare_linear(const LinearScheme& scheme, const LayerOptions& layer,
                                                        std::span<const WeightView> weights) const {
  // Kernels check it again, for tests, fuzz targets and benches that make layers without a backend.
  require(weights[0].k <= scheme.max_terms,
          "linear '{}': k = {} is more than the {} terms whose sum contract {} can hold", layer.name, weights[0].k,
          scheme.max_terms, scheme.name);
  if (const ExternalLinear* kernels = scheme.external_on(name())) return kernels->prepare(*this, layer, weights);
  return prepare_listed_linear(scheme, layer, weights);
}

std::string Backend::library_of(const LinearScheme& scheme) const {
  const ExternalLinear* kernels = scheme.external_on(name());
  return kernels == nullptr || kernels->library == nullptr ? "" : kernels->library(*this);
}

ThreadPool& Backend::required_pool() const {
  if (pool() == nullptr) fail(ErrorCode::kUnsupported, "the {} backend computes on no threads of this process", name());
  return *pool();
}

void Backend::enqueue_read(const void*, std::size_t, void*, void*) const {
  fail(ErrorCode::kUnsupported, "the {} backend has no plain read for benches to compare with", name());
}

void Backend::fail_missing(std::string_view what, std::string_view scheme) const {
  fail(ErrorCode::kUnsupported, "the {} backend has no kernels for {} by '{}'", name(), what, scheme);
}

namespace {

constexpr BackendRow kBackends[] = {
    {.name = "cpu",
     .description = "AVX-512, AVX2, NEON or scalar code on threads of this process",
     .has_ordinals = false,
     .takes_threads = true,
     .count = [] { return 1; },
     .open = open_cpu},
    {.name = "cuda",
     .description = "an NVIDIA GPU of compute capability 8.0 or higher",
     .has_ordinals = true,
     .takes_threads = false,
     .count = count_cuda,
     .open = open_cuda,
     .act_as = act_as_cuda},
};

}  // namespace

std::span<const BackendRow> backends() {
  return kBackends;
}

}  // namespace reprofuse::kernels
