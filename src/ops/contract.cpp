#include "ops/contract.hpp"

#include "base/check.hpp"
#include "kernels/reference/reference.hpp"
#include "reprofuse/context.hpp"

namespace reprofuse {
namespace {

using namespace reference;  // NOLINT(google-build-using-namespace): the schemes

constexpr Numerics kContracts[] = {
    {.name = "fma-1",
     .summary = "binary32 fused multiply-adds in 512-term chains, folded in ascending order",
     .linear = &kLinearFma1,
     .attention = &kAttentionFma1,
     .cache = &kCacheF32,
     .elementwise = &kElementwiseFma1},
    {.name = "fma-1-kv16",
     .summary = "fma-1 with keys and values rounded to BF16 in the cache",
     .linear = &kLinearFma1,
     .attention = &kAttentionFma1,
     .cache = &kCacheBf16,
     .elementwise = &kElementwiseFma1},
    {.name = "exact-1",
     .summary = "operands snapped to fixed point, exact integer sums in any order, one rounding",
     .linear = &kLinearExact1,
     .attention = &kAttentionFma1,
     .cache = &kCacheF32,
     .elementwise = &kElementwiseFma1},
    {.name = "exact-1-kv16",
     .summary = "exact-1 with keys and values rounded to BF16 in the cache",
     .linear = &kLinearExact1,
     .attention = &kAttentionFma1,
     .cache = &kCacheBf16,
     .elementwise = &kElementwiseFma1},
    {.name = "exact-2",
     .summary = "exact-1 with attention and cache in integers of 24 bits that share powers of two, exact sums",
     .linear = &kLinearExact1,
     .attention = &kAttentionExact2,
     .cache = &kCacheInt24,
     .elementwise = &kElementwiseFma1},
    {.name = "int16-1",
     .summary = "16-bit operands that share powers of two, exact integer sums; attention and cache likewise",
     .linear = &kLinearInt16,
     .attention = &kAttentionInt16,
     .cache = &kCacheInt16,
     .elementwise = &kElementwiseFma1},
};

// Where measurements favour another contract than kDefaultNumerics.
struct Favoured {
  std::string_view backend;
  std::string_view contract;
};
constexpr Favoured kFavoured[] = {{"cuda", "int16-1"}};

std::string listed(std::span<const std::string_view> names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::span<const Numerics> contracts() {
  return kContracts;
}

std::vector<const Numerics*> all_numerics() {
  std::vector<const Numerics*> rows;
  for (const Numerics& contract : contracts()) rows.push_back(&contract);
  for (const Numerics& baseline : baselines()) rows.push_back(&baseline);
  return rows;
}

std::string contract_names() {
  std::vector<std::string_view> names;
  for (const Numerics& contract : contracts()) names.push_back(contract.name);
  return listed(names);
}

std::string_view default_numerics_on(std::string_view backend) {
  for (const auto& favoured : kFavoured)
    if (favoured.backend == backend) return favoured.contract;
  return kDefaultNumerics;
}

const Numerics& find_numerics(std::string_view name) {
  for (const Numerics* row : all_numerics())
    if (row->name == name) return *row;
  fail(ErrorCode::kUnsupported, "numerics '{}' does not exist; there are {}", name, listed(numerics_names()));
}

const Numerics& find_contract(std::string_view name) {
  const Numerics& found = find_numerics(name);
  if (!found.is_contract())
    fail(ErrorCode::kUnsupported, "numerics '{}' pins no bits; this needs a contract: {}", name, contract_names());
  return found;
}

const Numerics& require_pinned(const Numerics& contract) {
  if (contract.draft)
    fail(ErrorCode::kUnsupported, "contract '{}' is a draft: its bits may change with the next version", contract.name);
  return contract;
}

std::vector<std::string_view> numerics_names() {
  std::vector<std::string_view> names;
  for (const Numerics* row : all_numerics()) names.push_back(row->name);
  return names;
}

}  // namespace reprofuse
