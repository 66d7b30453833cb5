#include "study/ablation/cases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace reprofuse::study {

const std::vector<AblationCase>& ablation_cases() {
  static const std::vector<AblationCase> kCases = {{"QKV, 8B", CaseKind::kDecode, 32, 6144, 4096},
                                                   {"Down, 8B", CaseKind::kDecode, 32, 4096, 14336},
                                                   {"QKV, Qwen3-4B", CaseKind::kDecode, 32, 6144, 2560},
                                                   {"Down, Qwen3-4B", CaseKind::kDecode, 32, 2560, 9728},
                                                   {"Output proj.", CaseKind::kDecode, 32, 4096, 4096},
                                                   {"lm_head, 3B", CaseKind::kDecode, 32, 128256, 3072},
                                                   {"Prefill QKV, 8B", CaseKind::kPrefill, 2048, 6144, 4096},
                                                   {"Prefill down, 8B", CaseKind::kPrefill, 2048, 4096, 14336},
                                                   {"Ragged probe", CaseKind::kRagged, 100, 1000, 1000}};
  return kCases;
}

std::vector<AblationCase> decode_cases() {
  std::vector<AblationCase> cases;
  std::copy_if(ablation_cases().begin(), ablation_cases().end(), std::back_inserter(cases),
               [](const AblationCase& each) { return each.kind == CaseKind::kDecode; });
  return cases;
}

int wave_sized_splits(std::int64_t m, std::int64_t n, const ablation::Tile& tile, int multiprocessors) {
  const std::int64_t tiles = ceil_div<std::int64_t>(m, tile.m) * ceil_div<std::int64_t>(n, tile.n);
  // Compared as fractions of whole numbers: blocks / places, where places fill whole waves.
  std::int64_t best_blocks = 0, best_places = 1;
  int best = 1;
  for (const int splits : kSweptSplits) {
    const std::int64_t blocks = tiles * splits;
    const std::int64_t places = round_up<std::int64_t>(blocks, multiprocessors);
    if (blocks * best_places <= best_blocks * places) continue;
    best_blocks = blocks;
    best_places = places;
    best = splits;
  }
  return best;
}

std::vector<ablation::Tile> for_batch(std::vector<ablation::Tile> tiles, std::int64_t m) {
  constexpr std::int64_t kMaxDecodeRows = 128;
  if (m <= kMaxDecodeRows) return tiles;
  int tallest = 0;
  for (const ablation::Tile& tile : tiles) tallest = std::max(tallest, tile.m);
  std::erase_if(tiles, [&](const ablation::Tile& tile) { return tile.m < tallest; });
  return tiles;
}

std::vector<ablation::Variant> candidates(std::span<const ablation::Tile> tiles, std::span<const int> splits) {
  std::vector<ablation::Variant> variants;
  for (const ablation::Tile& tile : tiles)
    for (const int parts : splits) variants.push_back({.tile = tile, .splits = parts});
  return variants;
}

std::string to_string(const ablation::Variant& variant) {
  const ablation::Tile& tile = variant.tile;
  const std::string splits =
      variant.splits == ablation::kOnePerSegment ? "by segment" : fmt::format("S={}", variant.splits);
  return fmt::format("({},{},{}) {}", tile.m, tile.n, tile.k, splits);
}

}  // namespace reprofuse::study
