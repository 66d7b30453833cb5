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
#include "numerics/exact.hpp"

#if HWY_TARGET == HWY_AVX3
#include "kernels/cpu/linear/exact1/row-inl.hpp"

HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
#include "kernels/cpu/linear/exact1/vnni_row-inl.hpp"
namespace reprofuse::cpu::HWY_NAMESPACE::vnni {

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
