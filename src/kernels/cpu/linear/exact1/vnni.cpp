// exact-1 for AVX-512 with VNNI, whose sums of byte products take the contract's digits as they are: the eight products
// of digits fall into four classes by their power of 2^8.

// One target: AVX-512 as Highway knows it. Its own target with VNNI asks for AVX-VNNI as well, which a machine with
// VNNI in AVX-512 may lack, so the kernels ask for that one instruction themselves.
#define REPROFUSE_NO_AVX2
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear/exact1/vnni.cpp"
#include <cstring>

#include "kernels/cpu/highway_targets.hpp"  // before any Highway header
#include "kernels/cpu/linear/exact1/kernels.hpp"
#include "kernels/cpu/linear/panels.hpp"
#include "numerics/exact1.hpp"

#if HWY_TARGET == HWY_AVX3
#include "kernels/cpu/linear/exact1/row-inl.hpp"

HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
namespace reprofuse::cpu::HWY_NAMESPACE::vnni {

using ByteVector = hn::Vec<Bytes>;

// Snaps a strip and hands its digits, three bytes of each lane and a fourth of no meaning, to store(digits, quads).
// Returns the sum of the integers.
template <class Store>
HWY_INLINE std::int64_t snap_digits(const ActivationStrip& strip, const Store& store) {
  const Vector scale = hn::Set(Floats(), strip.scale);
  const IntegerVector digits = hn::Set(Integers(), 0x808080);
  const Totals wide;
  auto sum = hn::Zero(wide);
  for (int k = 0; k < strip.terms; k += kLanes) {
    const IntegerVector x = snap_activation_lanes(strip.x + k, strip.terms - k, scale);
    sum = hn::Add(sum, hn::Add(hn::PromoteTo(wide, hn::LowerHalf(HalfIntegers(), x)),
                               hn::PromoteTo(wide, hn::UpperHalf(HalfIntegers(), x))));
    store(hn::BitCast(Bytes(), hn::Xor(hn::Add(x, digits), digits)), ceil_div(HWY_MIN(kLanes, strip.terms - k), kQuad));
  }
  return hn::GetLane(hn::SumOfLanes(wide, sum));
}

// `into`, but bytes of `mask` from `from`. Shifts and blends, where byte shuffles would do both at once: those share a
// port with the products.
HWY_INLINE WordVector merge_bytes(WordVector into, std::uint64_t mask, WordVector from) {
  return WordVector{_mm512_mask_mov_epi8(into.raw, mask, from.raw)};
}

// Four terms from `words` on, snapped, of which the panel holds `terms`; those past the end meet activations of zero.
template <class Weight>
HWY_INLINE void snap_terms(const std::uint32_t* words, int terms, Vector scales, WordVector (&snapped)[kQuad]) {
  constexpr int kStep = Weight::kTerms == 2 ? kPanel : 2 * kPanel;
  HWY_UNROLL(2)
  for (int pair = 0; pair < 2; ++pair, words += kStep) {
    const WordVector zero = hn::Zero(Words());
    const WordVector first = 2 * pair < terms ? hn::Load(Words(), words) : zero;
    WordVector second = first;
    if constexpr (Weight::kTerms == 1) second = 2 * pair + 1 < terms ? hn::Load(Words(), words + kPanel) : zero;
    snapped[2 * pair] = snap_weight_lanes(Weight::term(first, hwy::SizeTag<0>()), scales);
    snapped[2 * pair + 1] = snap_weight_lanes(Weight::term(second, hwy::SizeTag<Weight::kTerms - 1>()), scales);
  }
}

template <class Weight>
constexpr int kQuadWords = kQuad / Weight::kTerms* kPanel;

// Sums of digit products by their power of two, 2^(8 * (class + 1)), for one row and every column of a panel.
struct Classes {
  IntegerVector of[4];
};

HWY_INLINE void add_classes(const Classes& classes, std::int64_t* totals) {
  add_to_totals(
      [&](auto half) HWY_ATTR {
        TotalVector sum = half(classes.of[3]);
        HWY_UNROLL(3)
        for (int i = 2; i >= 0; --i) sum = hn::Add(hn::ShiftLeft<8>(sum), half(classes.of[i]));
        return hn::ShiftLeft<8>(sum);
      },
      totals);
}

HWY_INLINE Classes zero_classes() {
  const IntegerVector zero = hn::Zero(Integers());
  return {{zero, zero, zero, zero}};
}

// A row alone meets weights that are worth no transposition into planes of digits: two of a term's digits stay
// together, at the cost of one product more.

// Four terms a to d of the row, as the factors of each product. With both lower digits of two terms: for the
// classes 0 to 2, (x1, x0), (x2, x1) and (0, x2) of either. With the highest digits of b, d, a and c: x0, x1 and x2 of
// each.
struct RowQuad {
  std::uint8_t ab[3][kQuad], cd[3][kQuad], highest[3][kQuad];
};
static_assert(sizeof(RowQuad) == 36);

inline std::int64_t snap_row(const ActivationStrip& strip) {
  constexpr std::uint8_t kZero = 0x80;
  alignas(16) static constexpr std::uint8_t kOrder[3][16] = {
      {1, 0, 5, 4, 2, 1, 6, 5, kZero, 2, kZero, 6, 9, 8, 13, 12},
      {10, 9, 14, 13, kZero, 10, kZero, 14, 4, 12, 0, 8, 5, 13, 1, 9},
      {6, 14, 2, 10, kZero, kZero, kZero, kZero, kZero, kZero, kZero, kZero, kZero, kZero, kZero, kZero}};
  HWY_ALIGN std::uint8_t ordered[3][kLanes / kQuad][16];
  auto* to = static_cast<std::uint8_t*>(strip.packed);
  return snap_digits(strip, [&](ByteVector digits, int count) HWY_ATTR {
    HWY_UNROLL(3)
    for (int i = 0; i < 3; ++i)
      hn::Store(hn::TableLookupBytesOr0(digits, hn::LoadDup128(Bytes(), kOrder[i])), Bytes(), ordered[i][0]);
    for (int quad = 0; quad < count; ++quad, to += sizeof(RowQuad)) {
      std::memcpy(to, ordered[0][quad], 16);
      std::memcpy(to + 16, ordered[1][quad], 16);
      std::memcpy(to + 32, ordered[2][quad], 4);
    }
  });
}

// Sums that no product of the same four terms waits for.
struct RowClasses {
  Classes ab, cd, highest;
};

HWY_INLINE void multiply_add(const WordVector (&w)[kQuad], const RowQuad& x, RowClasses& classes) {
  constexpr std::uint64_t kUpper = 0xccccccccccccccccU, kOdd = 0xaaaaaaaaaaaaaaaaU;
  const WordVector b = hn::RotateRight<16>(w[1]), d = hn::RotateRight<16>(w[3]);
  const WordVector ab = merge_bytes(w[0], kUpper, b), cd = merge_bytes(w[2], kUpper, d);
  const WordVector highest_ba = merge_bytes(b, kUpper, w[0]), highest_dc = merge_bytes(d, kUpper, w[2]);
  const WordVector highest = merge_bytes(highest_ba, kOdd, hn::ShiftLeft<8>(highest_dc));
  HWY_UNROLL(3)
  for (int i = 0; i < 3; ++i) {
    add_byte_products(classes.ab.of[i], ab, x.ab[i]);
    add_byte_products(classes.cd.of[i], cd, x.cd[i]);
    add_byte_products(classes.highest.of[i + 1], highest, x.highest[i]);
  }
}

template <class Weight>
HWY_NOINLINE void multiply_row(const FewRows& few) {
  const Vector scales = hn::Load(Floats(), few.weights.scales);
  const std::uint32_t* words = few.weights.words;
  const auto* x = static_cast<const RowQuad*>(few.x);
  RowClasses classes = {zero_classes(), zero_classes(), zero_classes()};
  WordVector snapped[kQuad];
  int left = few.weights.terms;
  for (; left >= kQuad; left -= kQuad, words += kQuadWords<Weight>, ++x) {
    HWY_UNROLL(4)
    for (int line = 0; line < kQuadWords<Weight>; line += kPanel) prefetch_ahead(words + line);
    snap_terms<Weight>(words, kQuad, scales, snapped);
    multiply_add(snapped, *x, classes);
  }
  if (left > 0) {
    snap_terms<Weight>(words, left, scales, snapped);
    multiply_add(snapped, *x, classes);
  }
  HWY_UNROLL(4)
  for (int i = 0; i < 4; ++i)
    classes.ab.of[i] = hn::Add(hn::Add(classes.ab.of[i], classes.cd.of[i]), classes.highest.of[i]);
  add_classes(classes.ab, few.totals);
}

constexpr int kStripTerms = 1024;  // 48 KiB of digits of one panel
constexpr int kTileRows = 6;       // 24 classes, 3 planes of weights and 3 digits of activations in 32 registers
static_assert(kTileRows <= kMaxExactRows && kStripTerms % kQuad == 0);

// A term adds at most this much to a class: its largest has three products, one of them of the weight's highest byte.
constexpr std::int64_t kMaxPerTerm = 128 * (255 + 255 + 128);
static_assert(kStripTerms * kMaxPerTerm < std::int64_t{1} << 31);

// Packed rows, where they are several, are [quads][rows] of 16 bytes: four lowest digits, four middle, four highest,
// four of no meaning.
constexpr int kQuadBytes = 16;

// The digits of X are the bytes of X + 0x808080, less 128 each. Within 128 bits, digits of four terms come together.
inline std::int64_t snap_activations(const ActivationStrip& strip) {
  alignas(16) static constexpr std::uint8_t kTranspose[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
  if (strip.rows == 1) return snap_row(strip);
  const auto transpose = hn::LoadDup128(Bytes(), kTranspose);
  HWY_ALIGN std::uint8_t quads[kLanes / kQuad][kQuadBytes];
  auto* to = static_cast<std::uint8_t*>(strip.packed) + strip.row * kQuadBytes;
  return snap_digits(strip, [&](ByteVector digits, int count) HWY_ATTR {
    hn::Store(hn::TableLookupBytes(digits, transpose), Bytes(), quads[0]);
    for (int quad = 0; quad < count; ++quad, to += strip.rows * kQuadBytes) std::memcpy(to, quads[quad], kQuadBytes);
  });
}

// The bytes of W + 2^22 at four terms, for every column of the panel.
struct Planes {
  WordVector low, middle, high;
};

// Four snapped terms, as words of bytes 0 to 2 and one of no meaning, become three words of one byte of each.
HWY_INLINE Planes transpose_bytes(WordVector a, WordVector b, WordVector c, WordVector d) {
  constexpr std::uint64_t kOdd = 0xaaaaaaaaaaaaaaaaU, kHigh = 0xccccccccccccccccU;
  const WordVector ab02 = merge_bytes(a, kOdd, hn::ShiftLeft<8>(b));
  const WordVector cd02 = merge_bytes(c, kOdd, hn::ShiftLeft<8>(d));
  const WordVector ab1 = merge_bytes(b, ~kOdd, hn::ShiftRight<8>(a));
  const WordVector cd1 = merge_bytes(d, ~kOdd, hn::ShiftRight<8>(c));
  return {.low = merge_bytes(ab02, kHigh, hn::ShiftLeft<16>(cd02)),
          .middle = merge_bytes(ab1, kHigh, hn::ShiftLeft<16>(cd1)),
          .high = merge_bytes(cd02, ~kHigh, hn::ShiftRight<16>(ab02))};
}

template <class Weight>
HWY_INLINE Planes snap_quad(const std::uint32_t* words, int terms, Vector scales) {
  WordVector snapped[kQuad];
  snap_terms<Weight>(words, terms, scales, snapped);
  return transpose_bytes(snapped[0], snapped[1], snapped[2], snapped[3]);
}

// Packed weights are [quads][low, middle, high][kPanel].
HWY_INLINE void store_planes(const Planes& planes, std::uint32_t* to) {
  hn::Store(planes.low, Words(), to);
  hn::Store(planes.middle, Words(), to + kPanel);
  hn::Store(planes.high, Words(), to + 2 * kPanel);
}

template <class Weight>
void snap_weights(const WeightStrip& strip, void* packed) {
  const Vector scales = hn::Load(Floats(), strip.scales);
  const std::uint32_t* words = strip.words;
  auto* to = static_cast<std::uint32_t*>(packed);
  int left = strip.terms;
  for (; left >= kQuad; left -= kQuad, words += kQuadWords<Weight>, to += 3 * kPanel)
    store_planes(snap_quad<Weight>(words, kQuad, scales), to);
  if (left > 0) store_planes(snap_quad<Weight>(words, left, scales), to);
}

// All products of digits but that of the lowest two.
HWY_INLINE void multiply_add(const Planes& weights, const std::uint8_t* x, Classes& classes) {
  const IntegerVector low = repeat_quad(x);
  add_byte_products(classes.of[0], weights.middle, low);
  add_byte_products(classes.of[1], weights.high, low);
  const IntegerVector middle = repeat_quad(x + kQuad);
  add_byte_products(classes.of[0], weights.low, middle);
  add_byte_products(classes.of[1], weights.middle, middle);
  add_byte_products(classes.of[2], weights.high, middle);
  const IntegerVector high = repeat_quad(x + 2 * kQuad);
  add_byte_products(classes.of[1], weights.low, high);
  add_byte_products(classes.of[2], weights.middle, high);
  add_byte_products(classes.of[3], weights.high, high);
}

template <int kRows>
HWY_NOINLINE void multiply_tile(const ExactTile& tile) {
  const auto* x = static_cast<const std::uint8_t*>(tile.x);
  const auto* weights = static_cast<const std::uint32_t*>(tile.weights);
  Classes classes[kRows];
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) classes[r] = zero_classes();
  for (int k = 0; k < tile.terms; k += kQuad, x += kRows * kQuadBytes, weights += 3 * kPanel) {
    const Planes planes = {.low = hn::Load(Words(), weights),
                           .middle = hn::Load(Words(), weights + kPanel),
                           .high = hn::Load(Words(), weights + 2 * kPanel)};
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) multiply_add(planes, x + r * kQuadBytes, classes[r]);
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) add_classes(classes[r], tile.totals + r * kPanel);
}

template <int kRows>
void multiply_rows(const ExactTile& tile) {
  if constexpr (kRows > 1) {
    if (tile.rows != kRows) return multiply_rows<kRows - 1>(tile);
    multiply_tile<kRows>(tile);
  }
}

template <class Weight, int kRows>
HWY_NOINLINE void multiply_few_tile(const FewRows& few) {
  const Vector scales = hn::Load(Floats(), few.weights.scales);
  const std::uint32_t* words = few.weights.words;
  const auto* x = static_cast<const std::uint8_t*>(few.x);
  Classes classes[kRows];
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) classes[r] = zero_classes();
  int left = few.weights.terms;
  for (; left >= kQuad; left -= kQuad, words += kQuadWords<Weight>, x += kRows * kQuadBytes) {
    HWY_UNROLL(4)
    for (int line = 0; line < kQuadWords<Weight>; line += kPanel) prefetch_ahead(words + line);
    const Planes planes = snap_quad<Weight>(words, kQuad, scales);
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) multiply_add(planes, x + r * kQuadBytes, classes[r]);
  }
  if (left > 0) {
    const Planes planes = snap_quad<Weight>(words, left, scales);
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) multiply_add(planes, x + r * kQuadBytes, classes[r]);
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) add_classes(classes[r], few.totals + r * kPanel);
}

template <class Weight, int kRows>
void multiply_few(const FewRows& few) {
  if constexpr (kRows == 1) {
    multiply_row<Weight>(few);
  } else {
    if (few.rows != kRows) return multiply_few<Weight, kRows - 1>(few);
    multiply_few_tile<Weight, kRows>(few);
  }
}

template <class Weight>
constexpr LinearExact1Kernels::Weights kWeights = {snap_weights<Weight>, multiply_few<Weight, kTileRows>};

constexpr LinearExact1Kernels kLinearExact1 = {.target = "avx512 vnni",
                                               .rows = kTileRows,
                                               .few_rows = kTileRows,
                                               .terms = kStripTerms,
                                               .activation_bytes = kQuadBytes / kQuad,
                                               .row_bytes = sizeof(RowQuad) / kQuad,
                                               .weight_bytes = 3 * kPanel,
                                               .weight_bias = exact1::kWeightBias,
                                               .largest_bits = largest_bits,
                                               .snap_activations = snap_activations,
                                               .multiply = multiply_rows<kTileRows>,
                                               .round = round_panel,
                                               .bf16 = kWeights<Bf16Pair>,
                                               .f16 = kWeights<F16Pair>,
                                               .f32 = kWeights<F32Word>};
static_assert(kLinearExact1.terms <= kMaxExactTerms);
static_assert(kLinearExact1.terms * kLinearExact1.weight_bytes <= kMaxExactStripBytes);

}  // namespace reprofuse::cpu::HWY_NAMESPACE::vnni
HWY_POP_ATTRIBUTES
#endif

#if HWY_ONCE
namespace reprofuse::cpu {

const LinearExact1Kernels* linear_exact1_vnni() {
#if HWY_TARGETS & HWY_AVX3
  return &N_AVX3::vnni::kLinearExact1;
#else
  return nullptr;
#endif
}

}  // namespace reprofuse::cpu
#endif
