// What the ablations run over: the paper's nine products, its batch sizes, and the rules that it switches.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "study/ablation/kernels/variant.hpp"

namespace reprofuse::study {

enum class CaseKind { kDecode, kPrefill, kRagged };

struct AblationCase {
  std::string name;
  CaseKind kind;
  std::int64_t m, n, k;
};

// Six projections at a batch of 32, two prefills and one awkward shape.
const std::vector<AblationCase>& ablation_cases();
std::vector<AblationCase> decode_cases();

inline constexpr std::int64_t kDecodeBatches[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};
inline constexpr int kTunedSplits[] = {1, 2, 4, 8};
inline constexpr int kSweptSplits[] = {1, 2, 4, 8, 16};
inline constexpr int kMultiprocessorCounts[] = {108, 114, 132, 142};  // A100, H100 PCIe, H100 SXM and H200, L40S

// The split that leaves the fewest multiprocessors idle in the last wave, of kSweptSplits; the smallest of equals.
// This is how a performance-first GEMM sizes its split: the device's size and the batch decide the bits.
int wave_sized_splits(std::int64_t m, std::int64_t n, const ablation::Tile& tile, int multiprocessors);

// What a tuner tries of its tiles for m rows: all of them for a decode batch, the tallest alone beyond, where the
// others are slow beyond hope.
std::vector<ablation::Tile> for_batch(std::vector<ablation::Tile> tiles, std::int64_t m);

// Every tile with every split.
std::vector<ablation::Variant> candidates(std::span<const ablation::Tile> tiles, std::span<const int> splits);

std::string to_string(const ablation::Variant& variant);  // "(32,128,32) S=8"

}  // namespace reprofuse::study
