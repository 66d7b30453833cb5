// The parts a contract is made of. A scheme names one way to compute, with the reference loops that define its bits;
// backends list the kernels they have for it. The instances stand beside their references in kernels/reference.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kernels/linear.hpp"
#include "kernels/op_calls.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::kernels {

class Backend;

// What multiplies, which tells a bench the peak to compare with.
enum class Multiplier { kBinary32, kInteger8, kBf16 };

using PrepareLinear = std::unique_ptr<PreparedLinear> (*)(const Backend& backend, const LayerOptions& layer,
                                                          std::span<const WeightView> weights);

// Kernels that a scheme brings along for a backend that does not list it: a vendor's library, or a test's.
struct ExternalLinear {
  std::string_view backend;
  PrepareLinear prepare;
  Multiplier multiplier = Multiplier::kBinary32;
  std::string (*library)(const Backend& backend) = nullptr;  // its name and version; throws where the machine lacks it
};

struct LinearScheme {
  std::string_view name;  // its golden digests are golden/NAME.json
  // Null: a baseline, which pins no bits. bias may be null.
  void (*reference)(ConstMatrix x, const WeightView& weight, const float* bias, Matrix y) = nullptr;
  std::int64_t max_terms = std::numeric_limits<std::int64_t>::max();  // of a sum: the largest k
  Multiplier multiplier = Multiplier::kBinary32;
  std::span<const ExternalLinear> external{};
  const LinearScheme* same_results_as = nullptr;  // another whose results are equal; only the time differs

  const ExternalLinear* external_on(std::string_view backend) const {  // null: the backend lists the kernels itself
    for (const ExternalLinear& kernels : external)
      if (kernels.backend == backend) return &kernels;
    return nullptr;
  }
  Multiplier multiplier_on(std::string_view backend) const {
    const ExternalLinear* kernels = external_on(backend);
    return kernels == nullptr ? multiplier : kernels->multiplier;
  }
};

// How a cache stores keys and values.
struct CacheFormat {
  std::string_view name;
  std::int32_t element_bytes;
  std::int32_t unit_bytes = 0;  // of the unit of each key and each value of a head
  DType dtype = DType::kF32;    // of an element, in formats of floating-point numbers

  // Of the keys of one page in one layer, and of its values.
  std::int64_t page_bytes(std::int64_t kv_heads, std::int64_t head_dim, std::int64_t page_size) const {
    return kv_heads * head_dim * page_size * element_bytes;
  }
  std::int64_t page_unit_bytes(std::int64_t kv_heads, std::int64_t page_size) const {
    return kv_heads * page_size * unit_bytes;
  }
};

// From q, k and v to what the heads attend to. Writes the cache and reads it.
struct AttentionScheme {
  std::string_view name;
  void (*rotary)(const RotaryCall& call);
  std::optional<NonFinite> (*attention)(const AttentionCall& call);
  std::span<const CacheFormat* const> caches;  // that it has; whoever has kernels for it has them for all of these

  bool supports(const CacheFormat& cache) const {
    return std::find(caches.begin(), caches.end(), &cache) != caches.end();
  }
};

// Embedding, RMS norm and SiLU gate.
struct ElementwiseScheme {
  std::string_view name;
  void (*embedding)(const EmbeddingCall& call);
  std::optional<NonFinite> (*rms_norm)(const RmsNormCall& call);
  void (*silu_gate)(const SiluGateCall& call);
  bool bf16_results = false;  // every result is rounded to BF16 between ops, as frameworks do
};

}  // namespace reprofuse::kernels
