// The linear layer of int16-1 for AVX-512 with products of bytes: VNNI, and AMX, which multiplies tiles of them. A
// weight's digits are made unsigned by adding 128 to each; what that adds to a sum is known of the row of activations,
// and its sums start below zero by as much.

// One target: AVX-512 as Highway knows it. Its own target with VNNI asks for AVX-VNNI as well, which a machine with
// VNNI in AVX-512 may lack, so the kernels ask for that one instruction themselves.
#define REPROFUSE_NO_AVX2
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear/int16/vnni.cpp"
#include <algorithm>
#include <cstring>

#include "kernels/cpu/highway_targets.hpp"  // before any Highway header
#include "kernels/cpu/linear/int16/kernels.hpp"
#include "kernels/cpu/linear/panels.hpp"

#if HWY_TARGET == HWY_AVX3
#include "kernels/cpu/linear/int16/sums-inl.hpp"

HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
namespace reprofuse::cpu::HWY_NAMESPACE::int16_linear {

constexpr int kTileRows = 12;     // 24 registers of sums, 2 of weights, 2 to make them and one of activations, of 32
constexpr int kPrefetchRows = 6;  // from more rows on arithmetic takes longer than memory

// The whole sum fits 32 bits, its parts with their offsets need not: they are added modulo 2^32.
HWY_INLINE void add_strip(IntegerVector high, IntegerVector mixed, const Int16Strip& strip, std::int64_t* totals) {
  add_shifted(hn::Add(hn::ShiftLeft<8>(high), hn::Add(mixed, hn::Set(Integers(), strip.start))), strip.shift, totals);
}

namespace vnni {

// Packed rows are [quads][rows].
inline std::int32_t snap_activations(const Int16Activations& strip) {
  auto* to = static_cast<std::uint8_t*>(strip.packed) + strip.row * kQuadBytes;
  return snap_quads(strip, kInt16Alignment, [&](int quad, const std::uint8_t* bytes) HWY_ATTR {
    std::memcpy(to + quad * strip.rows * kQuadBytes, bytes, kQuadBytes);
  });
}

template <int kRows>
HWY_NOINLINE void multiply_tile(const Int16Tile& tile) {
  const auto* x = static_cast<const std::uint8_t*>(tile.x);
  const std::uint32_t* weights = tile.weights;
  IntegerVector high[kRows], mixed[kRows];
  HWY_UNROLL(12)
  for (int r = 0; r < kRows; ++r) high[r] = mixed[r] = hn::Zero(Integers());
  for (int k = 0; k < tile.terms; k += kQuad, x += kRows * kQuadBytes, weights += 2 * kPanel) {
    if constexpr (kRows <= kPrefetchRows) {
      prefetch_ahead<4096, 3>(weights);
      prefetch_ahead<4096, 3>(weights + kPanel);
    }
    const Planes planes = load_planes(weights);
    HWY_UNROLL(12)
    for (int r = 0; r < kRows; ++r) {
      const std::uint8_t* digits = x + r * kQuadBytes;
      const IntegerVector x_high = repeat_quad(digits + kQuad);
      add_byte_products(high[r], planes.high, x_high);
      add_byte_products(mixed[r], planes.low, x_high);
      add_byte_products(mixed[r], planes.high, digits);
    }
  }
  HWY_UNROLL(12)
  for (int r = 0; r < kRows; ++r) add_strip(high[r], mixed[r], tile.strips[r], tile.totals + r * kPanel);
}

template <int kRows>
void multiply_rows(const Int16Tile& tile) {
  if constexpr (kRows > 0) {
    if (tile.rows != kRows) return multiply_rows<kRows - 1>(tile);
    multiply_tile<kRows>(tile);
  }
}

constexpr LinearInt16Kernels kLinearInt16 = {.target = "avx512 vnni",
                                             .rows = kTileRows,
                                             .terms_alignment = kInt16Alignment,
                                             .activation_bytes = kQuadBytes / kQuad,
                                             .largest_bits = largest_bits,
                                             .snap_activations = snap_activations,
                                             .multiply = multiply_rows<kTileRows>,
                                             .round = round_panel};

}  // namespace vnni

// Tiles of 16 rows of 64 bytes: of x signed digits of 64 terms, of weights unsigned ones of 16 quads by 16 columns.
namespace amx {

constexpr int kTiles = 8;
constexpr int kTileBytes = 64;
constexpr int kTileQuads = kTileBytes / kQuad;
constexpr int kSideRows = 16;    // of a tile
constexpr int kBlockRows = 128;  // so many share weights that were unpacked
constexpr int kMinRows = 16;     // fewer leave tiles empty
constexpr int kDigits = 2;

// What each tile register holds. Two sides of 16 rows share the weights of a step of 64 terms.
enum Tile { kHigh0, kHigh1, kMixed0, kMixed1, kX0, kX1, kWeightLow, kWeightHigh };

struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  TileConfig(int rows0, int rows1) {
    const auto of = [](int count) { return static_cast<std::uint8_t>(count); };
    const std::uint8_t counts[kTiles] = {of(rows0), of(rows1), of(rows0),  of(rows1),
                                         of(rows0), of(rows1), kTileQuads, kTileQuads};
    for (int t = 0; t < kTiles; ++t) {
      rows[t] = counts[t];
      row_bytes[t] = kTileBytes;
    }
  }
};
static_assert(sizeof(TileConfig) == 64);

// As assembly, with what it reads and writes of memory: the compiler's intrinsics do not say so.
HWY_INLINE void configure(const TileConfig& config) {
  asm volatile("ldtilecfg %0" : : "m"(config) : "memory");
}

template <Tile kTile>
HWY_INLINE void zero() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}

template <Tile kTile>
HWY_INLINE void load(const std::uint8_t* from, std::int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
}

template <Tile kTile>
HWY_INLINE void store(std::int32_t* to) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
               :
               : "r"(to), "r"(std::int64_t{kPanel * sizeof(std::int32_t)}), "i"(kTile)
               : "memory");
}

template <Tile kSum, Tile kX, Tile kWeights>  // signed by unsigned bytes
HWY_INLINE void add_products() {
  asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kX), "i"(kWeights));
}

// Packed rows are [steps of 64 terms][low, high][rows] of 64 bytes.
inline std::int32_t snap_activations(const Int16Activations& strip) {
  auto* to = static_cast<std::uint8_t*>(strip.packed) + strip.row * kTileBytes;
  const int digit_bytes = strip.rows * kTileBytes;
  return snap_quads(strip, kTileBytes, [&](int quad, const std::uint8_t* bytes) HWY_ATTR {
    std::uint8_t* low = to + quad / kTileQuads * kDigits * digit_bytes + quad % kTileQuads * kQuad;
    std::memcpy(low, bytes, kQuad);
    std::memcpy(low + digit_bytes, bytes + kQuad, kQuad);
  });
}

// Weights of a strip, unpacked: [quads][low, high][kPanel] quads.
struct alignas(64) Unpacked {
  std::uint32_t words[int16::kTermBlock / kQuad][kDigits][kPanel];
  const std::uint8_t* at(int step, int digit) const {
    return reinterpret_cast<const std::uint8_t*>(words[step * kTileQuads][digit]);
  }
};

template <Tile kHigh, Tile kMixed, Tile kX>
HWY_INLINE void add_side(const std::uint8_t* low, std::int64_t digit_bytes) {
  load<kX>(low + digit_bytes, kTileBytes);
  add_products<kHigh, kX, kWeightHigh>();
  add_products<kMixed, kX, kWeightLow>();
  load<kX>(low, kTileBytes);
  add_products<kMixed, kX, kWeightHigh>();
}

template <Tile kHigh, Tile kMixed>
HWY_INLINE void add_side_to_totals(const Int16Tile& tile, int first, int rows) {
  alignas(64) std::int32_t high[kSideRows * kPanel], mixed[kSideRows * kPanel];
  store<kHigh>(high);
  store<kMixed>(mixed);
  for (int r = 0; r < rows; ++r)
    add_strip(hn::Load(Integers(), high + r * kPanel), hn::Load(Integers(), mixed + r * kPanel), tile.strips[first + r],
              tile.totals + (first + r) * kPanel);
}

// Up to two sides of rows, from row `first` on.
HWY_NOINLINE void multiply_sides(const Int16Tile& tile, const Unpacked& weights, int first, int rows) {
  const int steps = round_up(tile.terms, kTileBytes) / kTileBytes;
  const std::int64_t digit_bytes = std::int64_t{tile.rows} * kTileBytes;
  const auto* x = static_cast<const std::uint8_t*>(tile.x) + first * kTileBytes;
  const bool both = rows > kSideRows;
  zero<kHigh0>();
  zero<kMixed0>();
  zero<kHigh1>();
  zero<kMixed1>();
  for (int step = 0; step < steps; ++step, x += kDigits * digit_bytes) {
    constexpr std::int64_t kStride = kDigits * kTileBytes;
    load<kWeightHigh>(weights.at(step, 1), kStride);
    load<kWeightLow>(weights.at(step, 0), kStride);
    add_side<kHigh0, kMixed0, kX0>(x, digit_bytes);
    if (both) add_side<kHigh1, kMixed1, kX1>(x + kSideRows * kTileBytes, digit_bytes);
  }
  add_side_to_totals<kHigh0, kMixed0>(tile, first, std::min(rows, kSideRows));
  if (both) add_side_to_totals<kHigh1, kMixed1>(tile, first + kSideRows, rows - kSideRows);
}

// Quads past the last of a step meet activations of zero.
HWY_NOINLINE void multiply(const Int16Tile& tile) {
  Unpacked weights;
  for (int quad = 0; quad < tile.terms / kQuad; ++quad) {
    const Planes planes = load_planes(tile.weights + quad * 2 * kPanel);
    hn::Store(planes.low, Words(), weights.words[quad][0]);
    hn::Store(planes.high, Words(), weights.words[quad][1]);
  }
  for (int quad = tile.terms / kQuad; quad % kTileQuads != 0; ++quad)
    std::memset(weights.words[quad], 0, sizeof(weights.words[quad]));
  constexpr int kBoth = 2 * kSideRows;
  for (int first = 0, before = 0; first < tile.rows; first += kBoth) {
    const int rows = std::min(kBoth, tile.rows - first);
    if (rows != before) configure({std::min(rows, kSideRows), std::max(1, rows - kSideRows)});
    before = rows;
    multiply_sides(tile, weights, first, rows);
  }
  asm volatile("tilerelease");
}

constexpr LinearInt16Kernels kLinearInt16 = {.target = "avx512 amx",
                                             .rows = kBlockRows,
                                             .terms_alignment = kTileBytes,
                                             .activation_bytes = kDigits,
                                             .largest_bits = largest_bits,
                                             .snap_activations = snap_activations,
                                             .multiply = multiply,
                                             .round = round_panel,
                                             .min_rows = kMinRows,
                                             .for_fewer = &vnni::kLinearInt16};

}  // namespace amx

}  // namespace reprofuse::cpu::HWY_NAMESPACE::int16_linear
HWY_POP_ATTRIBUTES
#endif

#if HWY_ONCE
namespace reprofuse::cpu {

#if HWY_TARGETS & HWY_AVX3
const LinearInt16Kernels* linear_int16_vnni() {
  return &N_AVX3::int16_linear::vnni::kLinearInt16;
}

const LinearInt16Kernels* linear_int16_amx() {
  return &N_AVX3::int16_linear::amx::kLinearInt16;
}
#else
const LinearInt16Kernels* linear_int16_vnni() {
  return nullptr;
}

const LinearInt16Kernels* linear_int16_amx() {
  return nullptr;
}
#endif

}  // namespace reprofuse::cpu
#endif
