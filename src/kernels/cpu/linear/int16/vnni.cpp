// The linear layer of int16-1 for AVX-512 with VNNI: vpdpbusd adds four products of unsigned and signed bytes to each
// 32-bit lane, so four terms of a column share a lane. A weight's digits are made unsigned by adding 128 to each; what
// that adds to a sum is known of the row of activations, and its sums start below zero by as much.

// One target: AVX-512 as Highway knows it. Its own target with VNNI asks for AVX-VNNI as well, which a machine with
// VNNI in AVX-512 may lack, so the kernels ask for that one instruction themselves.
#define REPROFUSE_NO_AVX2
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear/int16/vnni.cpp"
#include <cstring>

#include "kernels/cpu/highway_targets.hpp"  // before any Highway header
#include "kernels/cpu/linear/int16/kernels.hpp"
#include "kernels/cpu/linear/panels.hpp"

#if HWY_TARGET == HWY_AVX3
#include "kernels/cpu/linear/int16/snap-inl.hpp"

HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
namespace reprofuse::cpu::HWY_NAMESPACE::int16_linear::vnni {

using Bytes = hn::ScalableTag<std::uint8_t>;
static_assert(kLanes == kPanel);

constexpr int kQuad = 4;       // terms in a lane
constexpr int kTileRows = 12;  // 24 registers of sums, 2 of weights and 2 of activations, of 32
constexpr int kFewRows = 6;

// Packed rows are [quads][rows] of 8 bytes: four low digits, then four high ones.
constexpr int kQuadBytes = 8;

// The digits of X are the bytes of X + 0x8080, less 128 each. Returns -128 * (257 * sum of x0 + sum of x1).
inline std::int32_t snap_activations(const Int16Activations& strip) {
  alignas(16) static constexpr std::uint8_t kTranspose[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
  const auto transpose = hn::LoadDup128(Bytes(), kTranspose);
  const Vector inverse = hn::Set(Floats(), strip.inverse);
  const IntegerVector digits = hn::Set(Integers(), 0x8080);
  IntegerVector sum = hn::Zero(Integers()), high_sum = sum;
  HWY_ALIGN std::uint8_t quads[kLanes / kQuad][16];
  auto* to = static_cast<std::uint8_t*>(strip.packed) + strip.row * kQuadBytes;
  for (int k = 0; k < strip.terms; k += kLanes) {
    const IntegerVector x = snap_lanes(strip.x + k, strip.terms - k, inverse);
    sum = hn::Add(sum, x);
    high_sum = hn::Add(high_sum, hn::ShiftRight<8>(hn::Add(x, hn::Set(Integers(), 128))));
    const auto bytes = hn::BitCast(Bytes(), hn::Xor(hn::Add(x, digits), digits));
    hn::Store(hn::TableLookupBytes(bytes, transpose), Bytes(), quads[0]);
    for (int quad = 0; quad < kLanes / kQuad && k + quad * kQuad < strip.terms; ++quad, to += strip.rows * kQuadBytes)
      std::memcpy(to, quads[quad], kQuadBytes);
  }
  const std::int32_t high = hn::GetLane(hn::SumOfLanes(Integers(), high_sum));
  const std::int32_t low = hn::GetLane(hn::SumOfLanes(Integers(), sum)) - 256 * high;
  return -128 * (257 * high + low);
}

// The digits of four terms, plus 128, for every column of the panel.
struct Planes {
  WordVector low, high;
};

// Four snapped terms, whose lower halves are W + 0x8080, become two words of one byte of each.
HWY_INLINE Planes transpose_bytes(WordVector a, WordVector b, WordVector c, WordVector d) {
  alignas(16) static constexpr std::uint8_t kSwapMiddle[16] = {0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15};
  const auto swap = hn::LoadDup128(Bytes(), kSwapMiddle);
  const auto low_half = hn::Set(Words(), 0xffffU);
  const auto join = [&](WordVector first, WordVector second) HWY_ATTR {
    const WordVector halves = hn::OrAnd(hn::ShiftLeft<16>(second), first, low_half);
    return hn::BitCast(Words(), hn::TableLookupBytes(hn::BitCast(Bytes(), halves), swap));
  };
  const WordVector ab = join(a, b);
  const WordVector cd = join(c, d);
  return {.low = hn::OrAnd(hn::ShiftLeft<16>(cd), ab, low_half),
          .high = hn::Or(hn::ShiftRight<16>(ab), hn::AndNot(low_half, cd))};
}

// Four terms from `words` on, of which the panel holds `terms`; those past the end meet activations of zero.
template <class Weight>
HWY_INLINE Planes snap_quad(const std::uint32_t* words, int terms, Vector inverses) {
  constexpr float kOffset = 0x1.8p+23F + 0x8080;
  constexpr int kStep = Weight::kTerms == 2 ? kPanel : 2 * kPanel;
  WordVector snapped[kQuad];
  HWY_UNROLL(2)
  for (int pair = 0; pair < 2; ++pair, words += kStep) {
    const WordVector zero = hn::Zero(Words());
    const WordVector first = 2 * pair < terms ? hn::Load(Words(), words) : zero;
    WordVector second = first;
    if constexpr (Weight::kTerms == 1) second = 2 * pair + 1 < terms ? hn::Load(Words(), words + kPanel) : zero;
    snapped[2 * pair] = snap_weight_lanes(Weight::term(first, hwy::SizeTag<0>()), inverses, kOffset);
    snapped[2 * pair + 1] =
        snap_weight_lanes(Weight::term(second, hwy::SizeTag<Weight::kTerms - 1>()), inverses, kOffset);
  }
  return transpose_bytes(snapped[0], snapped[1], snapped[2], snapped[3]);
}

template <class Weight>
constexpr int kQuadWords = kQuad / Weight::kTerms* kPanel;

// Packed weights are [quads][low, high][kPanel].
template <class Weight>
void snap_weights(const Int16Weights& strip, void* packed) {
  const Vector inverses = hn::Load(Floats(), strip.inverses);
  const std::uint32_t* words = strip.words;
  auto* to = static_cast<std::uint32_t*>(packed);
  for (int left = strip.terms; left > 0; left -= kQuad, words += kQuadWords<Weight>, to += 2 * kPanel) {
    const Planes planes =
        left >= kQuad ? snap_quad<Weight>(words, kQuad, inverses) : snap_quad<Weight>(words, left, inverses);
    hn::Store(planes.low, Words(), to);
    hn::Store(planes.high, Words(), to + kPanel);
  }
}

HWY_INLINE IntegerVector add_byte_products(IntegerVector sum, WordVector weights, IntegerVector x) {
  return IntegerVector{_mm512_dpbusd_epi32(sum.raw, weights.raw, x.raw)};
}

// Sums of products of two high digits, and of a high and a low one, for one row and every column of a panel.
struct DigitSums {
  IntegerVector high, mixed;

  HWY_INLINE void add(const Planes& weights, const std::uint8_t* x) {
    const auto digits = [x](int digit) HWY_ATTR {
      std::int32_t four_terms;
      std::memcpy(&four_terms, x + digit * kQuad, sizeof(four_terms));
      return hn::Set(Integers(), four_terms);
    };
    const IntegerVector x_high = digits(1);
    high = add_byte_products(high, weights.high, x_high);
    mixed = add_byte_products(mixed, weights.low, x_high);
    mixed = add_byte_products(mixed, weights.high, digits(0));
  }
};

template <int kRows>
HWY_INLINE void start_sums(DigitSums (&sums)[kRows], const Int16Strip* strips) {
  HWY_UNROLL(12)
  for (int r = 0; r < kRows; ++r) sums[r] = {hn::Zero(Integers()), hn::Set(Integers(), strips[r].start)};
}

// The whole sum fits 32 bits, its parts with their offsets need not: they are added modulo 2^32.
template <int kRows>
HWY_INLINE void add_all(const DigitSums (&sums)[kRows], const Int16Strip* strips, std::int64_t* totals) {
  HWY_UNROLL(12)
  for (int r = 0; r < kRows; ++r)
    add_to_totals(hn::Add(hn::ShiftLeft<8>(sums[r].high), sums[r].mixed), strips[r].shift, totals + r * kPanel);
}

template <int kRows>
HWY_NOINLINE void multiply_tile(const Int16Tile& tile) {
  const auto* x = static_cast<const std::uint8_t*>(tile.x);
  const auto* weights = static_cast<const std::uint32_t*>(tile.weights);
  DigitSums sums[kRows];
  start_sums(sums, tile.strips);
  for (int k = 0; k < tile.terms; k += kQuad, x += kRows * kQuadBytes, weights += 2 * kPanel) {
    const Planes planes = {.low = hn::Load(Words(), weights), .high = hn::Load(Words(), weights + kPanel)};
    HWY_UNROLL(12)
    for (int r = 0; r < kRows; ++r) sums[r].add(planes, x + r * kQuadBytes);
  }
  add_all(sums, tile.strips, tile.totals);
}

template <int kRows>
void multiply_rows(const Int16Tile& tile) {
  if constexpr (kRows > 0) {
    if (tile.rows != kRows) return multiply_rows<kRows - 1>(tile);
    multiply_tile<kRows>(tile);
  }
}

template <class Weight, int kRows>
HWY_NOINLINE void multiply_few_tile(const Int16FewRows& few) {
  const Vector inverses = hn::Load(Floats(), few.weights.inverses);
  const std::uint32_t* words = few.weights.words;
  const auto* x = static_cast<const std::uint8_t*>(few.x);
  DigitSums sums[kRows];
  start_sums(sums, few.strips);
  int left = few.weights.terms;
  for (; left >= kQuad; left -= kQuad, words += kQuadWords<Weight>, x += kRows * kQuadBytes) {
    HWY_UNROLL(4)
    for (int line = 0; line < kQuadWords<Weight>; line += kPanel) prefetch_ahead(words + line);
    const Planes planes = snap_quad<Weight>(words, kQuad, inverses);
    HWY_UNROLL(12)
    for (int r = 0; r < kRows; ++r) sums[r].add(planes, x + r * kQuadBytes);
  }
  if (left > 0) {
    const Planes planes = snap_quad<Weight>(words, left, inverses);
    HWY_UNROLL(12)
    for (int r = 0; r < kRows; ++r) sums[r].add(planes, x + r * kQuadBytes);
  }
  add_all(sums, few.strips, few.totals);
}

template <class Weight, int kRows>
void multiply_few(const Int16FewRows& few) {
  if constexpr (kRows > 0) {
    if (few.rows != kRows) return multiply_few<Weight, kRows - 1>(few);
    multiply_few_tile<Weight, kRows>(few);
  }
}

template <class Weight>
constexpr LinearInt16Kernels::Weights kWeights = {snap_weights<Weight>, multiply_few<Weight, kFewRows>};

constexpr LinearInt16Kernels kLinearInt16 = {.target = "avx512 vnni",
                                             .rows = kTileRows,
                                             .few_rows = kFewRows,
                                             .activation_bytes = kQuadBytes / kQuad,
                                             .weight_bytes = 2 * kPanel,
                                             .largest_bits = largest_bits,
                                             .snap_activations = snap_activations,
                                             .multiply = multiply_rows<kTileRows>,
                                             .round = round_panel,
                                             .bf16 = kWeights<Bf16Pair>,
                                             .f16 = kWeights<F16Pair>,
                                             .f32 = kWeights<F32Word>};
static_assert(kLinearInt16.rows <= kMaxInt16Rows && kLinearInt16.weight_bytes <= kMaxInt16TermBytes);

}  // namespace reprofuse::cpu::HWY_NAMESPACE::int16_linear::vnni
HWY_POP_ATTRIBUTES
#endif

#if HWY_ONCE
namespace reprofuse::cpu {

const LinearInt16Kernels* linear_int16_vnni() {
#if HWY_TARGETS & HWY_AVX3
  return &N_AVX3::int16_linear::vnni::kLinearInt16;
#else
  return nullptr;
#endif
}

}  // namespace reprofuse::cpu
#endif
