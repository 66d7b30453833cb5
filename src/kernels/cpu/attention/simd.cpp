// Attention by fma-1 for every instruction set with a fused multiply-add, from one source: Highway compiles this file
// once per target. Lanes are keys for the scores, whose chains run over the head dimension, and elements of the head
// for the weighted sums, whose chains run over the keys.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention/simd.cpp"
#include <algorithm>
#include <cfloat>
#include <limits>
#include <type_traits>

#include "base/math.hpp"
#include "kernels/cpu/attention/attention.hpp"
#include "kernels/cpu/highway_targets.hpp"  // before any Highway header
#include "numerics/exp_log.hpp"
#include "numerics/float_ops.hpp"
#include "numerics/fma1.hpp"

#if REPROFUSE_SIMD_TARGET
#include "kernels/cpu/exp-inl.hpp"
#include "kernels/cpu/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace reprofuse::cpu::HWY_NAMESPACE {

// As many accumulators as leave room for a row of operands and a broadcast without a spill.
#if HWY_TARGET == HWY_AVX2
constexpr int kTileLines = 5;
constexpr int kAccumulators = 10;
#else
constexpr int kTileLines = 6;
constexpr int kAccumulators = 24;
#endif
static_assert(kTileLines <= kMaxTileLines);

// Vectors per line of a pass over keys or values, a power of two.
constexpr int strip_vectors(int lines, int max_vectors) {
  int vectors = 1;
  while (vectors * 2 <= max_vectors && vectors * 2 * lines <= kAccumulators) vectors *= 2;
  return vectors;
}

// Lines of one pass. A full tile takes all: its operands come from cache, in narrow strips. A smaller one, as decoding
// has, takes as many as leave strips `vectors` wide, so that memory is read in long runs.
constexpr int pass_lines(int lines, int vectors) {
  const int max_lines = lines == kTileLines ? lines : std::max(1, kAccumulators / vectors);
  return ceil_div(lines, ceil_div(lines, max_lines));
}

// Calls body(count, first) for passes of at most kPass of kLines lines.
template <int kLines, int kPass, class Body>
HWY_INLINE void for_each_pass(const Body& body) {
  int line = 0;
  for (; line + kPass <= kLines; line += kPass) body(std::integral_constant<int, kPass>(), line);
  if constexpr (kLines % kPass != 0) body(std::integral_constant<int, kLines % kPass>(), line);
}

// kAhead: bytes ahead of a load to prefetch. Widening fills the scheduler before enough loads are under way; plain
// loads are better left to the hardware's own prefetching. Measured on Zen 4.
struct F32Element {
  using Type = float;
  static constexpr int kAhead = 0;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const float* from) {
    return hn::LoadU(d, from);
  }
};

struct Bf16Element {
  using Type = std::uint16_t;
  static constexpr int kAhead = 8192;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::uint16_t* from) {
    const hn::RebindToUnsigned<D> words;
    const hn::Rebind<std::uint16_t, D> halves;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(words, hn::LoadU(halves, from))));
  }
};

// The vector at `from`. The next such vector lies `stride` elements on.
template <class Element, class D>
HWY_INLINE hn::Vec<D> stream(D d, const typename Element::Type* from, std::int64_t stride) {
  if constexpr (Element::kAhead > 0) {
    constexpr int kRun = fma1::kKeyBlock * static_cast<int>(sizeof(typename Element::Type));
    __builtin_prefetch(from + stride * (Element::kAhead / kRun), 0, 2);
  }
  return Element::load(d, from);
}

// Per line of a tile: the probabilities of its keys, before that their scores; then what merging multiplies by.
struct TileScratch {
  static constexpr int kLines = round_up(kMaxTileLines, kLanes);
  HWY_ALIGN float probabilities[kMaxTileLines][fma1::kKeyBlock];
  HWY_ALIGN float total_max[kLines];
  HWY_ALIGN float next_max[kLines];
  HWY_ALIGN float total_scale[kLines];
  HWY_ALIGN float next_scale[kLines];
};

// The scores of kLines lines and kVectors vectors of keys, from `line` and `key` on.
template <class Element, int kLines, int kVectors>
HWY_NOINLINE void score_keys(const AttentionTile& tile, int line, int key, TileScratch& scratch) {
  const std::int64_t head_dim = tile.block->head_dim;
  const std::int64_t page_size = tile.block->page_size;
  const typename Element::Type* keys[kVectors];
  Vector chains[kLines][kVectors];
  HWY_UNROLL(16)
  for (int v = 0; v < kVectors; ++v) {
    const int at = key + v * kLanes;
    keys[v] = static_cast<const typename Element::Type*>(tile.block->keys[at / kKeyGroup]) + at % kKeyGroup;
    HWY_UNROLL(8)
    for (int l = 0; l < kLines; ++l) chains[l][v] = hn::Zero(Floats());
  }
  const float* queries[kLines];
  HWY_UNROLL(8)
  for (int l = 0; l < kLines; ++l) queries[l] = tile.lines[line + l].query;
  for (std::int64_t d = 0, row = 0; d < head_dim; ++d, row += page_size) {
    Vector elements[kVectors];
    HWY_UNROLL(16)
    for (int v = 0; v < kVectors; ++v) elements[v] = stream<Element>(Floats(), keys[v] + row, page_size);
    HWY_UNROLL(8)
    for (int l = 0; l < kLines; ++l) {
      const Vector query = hn::Set(Floats(), queries[l][d]);
      HWY_UNROLL(16)
      for (int v = 0; v < kVectors; ++v) chains[l][v] = hn::MulAdd(query, elements[v], chains[l][v]);
    }
  }
  const Vector scale = hn::Set(Floats(), tile.scale);
  HWY_UNROLL(8)
  for (int l = 0; l < kLines; ++l) {
    HWY_UNROLL(16)
    for (int v = 0; v < kVectors; ++v)
      hn::Store(hn::Mul(chains[l][v], scale), Floats(), scratch.probabilities[line + l] + key + v * kLanes);
  }
}

// Turns the scores of a line into probabilities and finds their maximum. False: a score is not finite. Lanes outside
// [first, last) hold anything and count for nothing.
HWY_INLINE bool scores_to_probabilities(float* scores, int first, int last, float* max) {
  const Vector infinity = hn::Set(Floats(), std::numeric_limits<float>::infinity());
  const Vector least = hn::Set(Floats(), -FLT_MAX);
  const int begin = first / kLanes * kLanes;
  Vector largest = least;
  bool finite = true;
  for (int key = begin; key < last; key += kLanes) {
    const Vector index = hn::Iota(Floats(), static_cast<float>(key));
    const auto visible = hn::And(hn::Ge(index, hn::Set(Floats(), static_cast<float>(first))),
                                 hn::Lt(index, hn::Set(Floats(), static_cast<float>(last))));
    const Vector score = hn::IfThenElse(visible, hn::Load(Floats(), scores + key), least);
    finite = finite && hn::AllTrue(Floats(), hn::Lt(hn::Abs(score), infinity));
    largest = hn::Max(largest, score);
  }
  largest = hn::MaxOfLanes(Floats(), largest);
  for (int key = begin; key < last; key += kLanes) {
    const Vector score = hn::Load(Floats(), scores + key);
    hn::Store(exp_nonpositive_f32(Floats(), hn::Sub(score, largest)), Floats(), scores + key);
  }
  *max = hn::GetLane(largest);
  return finite;
}

// The factors by which merging rescales totals and this block: exp(max - larger max), one line per lane.
HWY_INLINE void find_scales(TileScratch& scratch) {
  for (int l = 0; l < TileScratch::kLines; l += kLanes) {
    const Vector total = hn::Load(Floats(), scratch.total_max + l);
    const Vector next = hn::Load(Floats(), scratch.next_max + l);
    const Vector max = hn::Max(total, next);
    hn::Store(exp_nonpositive_f32(Floats(), hn::Sub(total, max)), Floats(), scratch.total_scale + l);
    hn::Store(exp_nonpositive_f32(Floats(), hn::Sub(next, max)), Floats(), scratch.next_scale + l);
  }
}

// Maxima and sums of the tile's lines, before and after. Returns the lines whose scores are not all finite.
template <int kLines>
HWY_NOINLINE unsigned soften(const AttentionTile& tile, TileScratch& scratch) {
  unsigned non_finite = 0;
  float sums[kLines] = {};
  for (int l = 0; l < kLines; ++l) {
    if (!scores_to_probabilities(scratch.probabilities[l], tile.first, tile.last, &scratch.next_max[l]))
      non_finite |= 1U << l;
    scratch.total_max[l] = tile.start ? scratch.next_max[l] : tile.lines[l].max;
  }
  for (int l = kLines; l < TileScratch::kLines; ++l) scratch.total_max[l] = scratch.next_max[l] = 0.0F;
  for (int key = tile.first; key < tile.last; ++key) {
    HWY_UNROLL(8)
    for (int l = 0; l < kLines; ++l) sums[l] = sums[l] + scratch.probabilities[l][key];
  }
  find_scales(scratch);
  for (int l = 0; l < kLines; ++l) {
    QueryLine& line = tile.lines[l];
    const float next = sums[l] * scratch.next_scale[l];
    line.sum = tile.start ? sums[l] : fma_rn(line.sum, scratch.total_scale[l], next);
    line.max = std::max(scratch.total_max[l], scratch.next_max[l]);
  }
  return non_finite;
}

// The weighted sums of kLines lines and kVectors vectors of the head, from `line` and element `from` on, merged into
// the totals.
template <class Element, int kLines, int kVectors, class D>
HWY_NOINLINE void sum_values(D tag, const AttentionTile& tile, int line, std::int64_t from,
                             const TileScratch& scratch) {
  constexpr int kWidth = static_cast<int>(hn::MaxLanes(D()));
  const std::int64_t head_dim = tile.block->head_dim;
  hn::Vec<D> chains[kLines][kVectors];
  HWY_UNROLL(8)
  for (int l = 0; l < kLines; ++l) {
    HWY_UNROLL(16)
    for (int v = 0; v < kVectors; ++v) chains[l][v] = hn::Zero(tag);
  }
  for (int key = tile.first; key < tile.last;) {
    const auto* values = static_cast<const typename Element::Type*>(tile.block->values[key / kKeyGroup]);
    values += key % kKeyGroup * head_dim + from;
    const int end = std::min(tile.last, (key / kKeyGroup + 1) * kKeyGroup);
    for (; key < end; ++key, values += head_dim) {
      hn::Vec<D> elements[kVectors];
      HWY_UNROLL(16)
      for (int v = 0; v < kVectors; ++v) elements[v] = stream<Element>(tag, values + v * kWidth, head_dim);
      HWY_UNROLL(8)
      for (int l = 0; l < kLines; ++l) {
        const auto probability = hn::Set(tag, scratch.probabilities[line + l][key]);
        HWY_UNROLL(16)
        for (int v = 0; v < kVectors; ++v) chains[l][v] = hn::MulAdd(probability, elements[v], chains[l][v]);
      }
    }
  }
  HWY_UNROLL(8)
  for (int l = 0; l < kLines; ++l) {
    HWY_UNROLL(16)
    for (int v = 0; v < kVectors; ++v) {
      float* total = tile.lines[line + l].weighted + from + v * kWidth;
      const auto next = hn::Mul(chains[l][v], hn::Set(tag, scratch.next_scale[line + l]));
      const auto merged = hn::MulAdd(hn::LoadU(tag, total), hn::Set(tag, scratch.total_scale[line + l]), next);
      hn::StoreU(tile.start ? chains[l][v] : merged, tag, total);
    }
  }
}

// All keys of the tile, for kLines lines from `line` on.
template <class Element, int kLines>
void score_lines(const AttentionTile& tile, int line, TileScratch& scratch) {
  constexpr int kVectors = strip_vectors(kLines, fma1::kKeyBlock / kLanes);
  constexpr int kStrip = kVectors * kLanes;
  for (int key = tile.first / kStrip * kStrip; key < tile.last; key += kStrip)
    score_keys<Element, kLines, kVectors>(tile, line, key, scratch);
}

constexpr int kValueVectors = 8;

// All elements of the head, for kLines lines from `line` on.
template <class Element, int kLines>
void sum_lines(const AttentionTile& tile, int line, const TileScratch& scratch) {
  constexpr int kVectors = strip_vectors(kLines, kValueVectors);
  constexpr int kStrip = kVectors * kLanes;
  const std::int64_t head_dim = tile.block->head_dim;
  std::int64_t d = 0;
  for (; d + kStrip <= head_dim; d += kStrip) sum_values<Element, kLines, kVectors>(Floats(), tile, line, d, scratch);
  for (; d + kLanes <= head_dim; d += kLanes) sum_values<Element, kLines, 1>(Floats(), tile, line, d, scratch);
  for (; d < head_dim; ++d) sum_values<Element, kLines, 1>(OneFloat(), tile, line, d, scratch);
}

template <class Element, int kLines>
unsigned attention_lines(const AttentionTile& tile) {
  if constexpr (kLines == 0) {
    return 0;
  } else {
    if (tile.count != kLines) return attention_lines<Element, kLines - 1>(tile);
    TileScratch scratch;
    for_each_pass<kLines, pass_lines(kLines, fma1::kKeyBlock / kLanes)>(
        [&](auto count, int line) HWY_ATTR { score_lines<Element, decltype(count)::value>(tile, line, scratch); });
    const unsigned non_finite = soften<kLines>(tile, scratch);
    for_each_pass<kLines, pass_lines(kLines, kValueVectors)>(
        [&](auto count, int line) HWY_ATTR { sum_lines<Element, decltype(count)::value>(tile, line, scratch); });
    return non_finite;
  }
}

inline void merge(QueryLine& total, const QueryLine& next, std::int64_t head_dim) {
  const float max = std::max(total.max, next.max);
  const Vector total_scale = exp_nonpositive_f32(Floats(), hn::Set(Floats(), total.max - max));
  const Vector next_scale = exp_nonpositive_f32(Floats(), hn::Set(Floats(), next.max - max));
  total.max = max;
  total.sum = fma_rn(total.sum, hn::GetLane(total_scale), next.sum * hn::GetLane(next_scale));
  for_each_vector(head_dim, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto a = hn::Set(d, hn::GetLane(total_scale));
    const auto b = hn::Mul(hn::LoadU(d, next.weighted + i), hn::Set(d, hn::GetLane(next_scale)));
    hn::StoreU(hn::MulAdd(hn::LoadU(d, total.weighted + i), a, b), d, total.weighted + i);
  });
}

// Adding +0 turns a -0 into +0, as in the reference.
inline void divide(const QueryLine& line, std::int64_t head_dim) {
  for_each_vector(head_dim, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto quotient = hn::Div(hn::LoadU(d, line.weighted + i), hn::Set(d, line.sum));
    hn::StoreU(hn::Add(quotient, hn::Zero(d)), d, line.weighted + i);
  });
}

template <class Element>
constexpr AttentionKernels kAttention = {.key_block = fma1::kKeyBlock,
                                         .tile_lines = kTileLines,
                                         .tile = attention_lines<Element, kTileLines>,
                                         .start = [](QueryLine&, std::int64_t) {},
                                         .merge = merge,
                                         .divide = divide,
                                         .find_place = find_place};
constexpr AttentionKernels kAttentionBf16 = kAttention<Bf16Element>, kAttentionF32 = kAttention<F32Element>;

}  // namespace reprofuse::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace reprofuse::cpu {

const AttentionKernels* attention_bf16_simd(Isa isa) {
  REPROFUSE_RETURN_TABLE(isa, kAttentionBf16);
}

const AttentionKernels* attention_f32_simd(Isa isa) {
  REPROFUSE_RETURN_TABLE(isa, kAttentionF32);
}

}  // namespace reprofuse::cpu
#endif
