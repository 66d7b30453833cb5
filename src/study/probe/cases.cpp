#include "study/probe/cases.hpp"

#include <fnmatch.h>

#include <algorithm>

#include "base/check.hpp"

namespace reprofuse::study {
namespace {

constexpr std::size_t kKinds = 7;
constexpr std::uint64_t kSeedStep = 16;  // room for a case's own streams between two cases

}  // namespace

std::vector<ProbeCase> all_probe_cases() {
  constexpr DType kBF16 = DType::kBF16;
  std::vector<ProbeCase> cases = {
      {"decode-bf16", 32, 2048, 3072, kBF16, false, 0},
      {"decode-f16", 32, 2048, 3072, DType::kF16, false, 0},
      {"decode-f32", 32, 2048, 3072, DType::kF32, false, 0},
      {"prefill-bf16", 256, 1024, 2560, kBF16, false, 0},
      {"prefill-f16", 256, 1024, 2560, DType::kF16, false, 0},
      {"prefill-f32", 256, 1024, 2560, DType::kF32, false, 0},
      {"ragged-bf16", 7, 333, 1537, kBF16, true, 0},
      {"decode-qkv-8b", 32, 6144, 4096, kBF16, false, 0},
      {"decode-down-8b", 32, 4096, 14336, kBF16, false, 0},
      {"decode-qkv-qwen3-4b", 32, 6144, 2560, kBF16, false, 0},
      {"decode-down-qwen3-4b", 32, 2560, 9728, kBF16, false, 0},
      {"decode-output", 32, 4096, 4096, kBF16, false, 0},
      {"decode-lm-head-3b", 32, 128256, 3072, kBF16, false, 0},
      {"prefill-qkv-8b", 2048, 6144, 4096, kBF16, false, 0},
      {"prefill-down-8b", 2048, 4096, 14336, kBF16, false, 0},
      {"ragged-probe", 100, 1000, 1000, kBF16, false, 0},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) cases[i].seed = (i + 1) * kSeedStep;
  return cases;
}

std::vector<ProbeCase> quick_probe_cases() {
  auto cases = all_probe_cases();
  cases.resize(kKinds);
  return cases;
}

std::vector<ProbeCase> select_cases(std::span<const ProbeCase> cases, std::span<const std::string> patterns) {
  const auto matches = [](const std::string& pattern, const ProbeCase& spec) {
    return fnmatch(pattern.c_str(), spec.name.c_str(), 0) == 0;
  };
  for (const std::string& pattern : patterns)
    require(std::any_of(cases.begin(), cases.end(), [&](const ProbeCase& spec) { return matches(pattern, spec); }),
            "no probe case matches '{}'", pattern);
  std::vector<ProbeCase> selected;
  for (const ProbeCase& spec : cases)
    if (std::any_of(patterns.begin(), patterns.end(), [&](const std::string& p) { return matches(p, spec); }))
      selected.push_back(spec);
  return selected;
}

Operands make_operands(const ProbeCase& spec, ThreadPool& pool) {
  return {.x = make_activations(spec.seed, spec.m, spec.k),
          .weight = make_weights(spec.seed + 1, spec.weights, spec.n, spec.k, pool),
          .b = spec.bias ? make_activations(spec.seed + 2, 1, spec.n) : std::vector<float>{}};
}

}  // namespace reprofuse::study
