// What one target's registers do with operands, where bytes are multiplied, and with the sums of a strip. Each file
// that Highway compiles once per target includes this once per target: hence no guard.
#include "kernels/cpu/linear/registers-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace reprofuse::cpu::HWY_NAMESPACE::int16_linear {

constexpr int kQuadBytes = 8;

// Snaps a strip whose terms are rounded up to a multiple of `alignment`, and hands every quad to store(quad, bytes):
// four low digits, then four high ones, of the terms in the order 0, 2, 1, 3. The digits of X are the bytes of X +
// 0x8080, less 128 each. Returns -128 * (257 * sum of x0 + sum of x1).
template <class Store>
HWY_INLINE std::int32_t snap_quads(const Int16Activations& strip, int alignment, const Store& store) {
  alignas(16) static constexpr std::uint8_t kTranspose[16] = {0, 8, 4, 12, 1, 9, 5, 13, 2, 10, 6, 14, 3, 11, 7, 15};
  const auto transpose = hn::LoadDup128(Bytes(), kTranspose);
  const Vector inverse = hn::Set(Floats(), strip.inverse);
  const IntegerVector digits = hn::Set(Integers(), 0x8080);
  IntegerVector sum = hn::Zero(Integers()), high_sum = sum;
  HWY_ALIGN std::uint8_t quads[kLanes / kQuad][16];
  const int terms = round_up(strip.terms, alignment);
  for (int k = 0; k < terms; k += kLanes) {
    const IntegerVector x = snap_activation_lanes(strip.x + k, strip.terms - k, inverse);
    sum = hn::Add(sum, x);
    high_sum = hn::Add(high_sum, hn::ShiftRight<8>(hn::Add(x, hn::Set(Integers(), 128))));
    const auto bytes = hn::BitCast(Bytes(), hn::Xor(hn::Add(x, digits), digits));
    hn::Store(hn::TableLookupBytes(bytes, transpose), Bytes(), quads[0]);
    for (int quad = 0; quad < kLanes / kQuad && k + quad * kQuad < terms; ++quad) store(k / kQuad + quad, quads[quad]);
  }
  const std::int32_t high = hn::GetLane(hn::SumOfLanes(Integers(), high_sum));
  const std::int32_t low = hn::GetLane(hn::SumOfLanes(Integers(), sum)) - 256 * high;
  return -128 * (257 * high + low);
}

#if HWY_TARGET == HWY_AVX3

// The digits of four terms, plus 128, for every column of the panel.
struct Planes {
  WordVector low, high;
};

// Bytes of the words of terms 0 and 1 and of those of terms 2 and 3 alternate: hence the order of terms in a quad.
HWY_INLINE Planes load_planes(const std::uint32_t* words) {
  const hn::ScalableTag<std::uint16_t> halves;
  const WordVector first = hn::Load(Words(), words);
  const WordVector second = hn::Load(Words(), words + kPanel);
  const WordVector low_bytes = hn::Set(Words(), 0x00ff00ffU);
  const auto moved = [&](auto shifted) HWY_ATTR { return hn::BitCast(Words(), shifted); };
  const WordVector up = moved(hn::ShiftLeft<8>(hn::BitCast(halves, second)));
  const WordVector down = moved(hn::ShiftRight<8>(hn::BitCast(halves, first)));
  const auto join = [&](WordVector even, WordVector odd) HWY_ATTR {  // one instruction
    return WordVector{_mm512_ternarylogic_epi32(low_bytes.raw, even.raw, odd.raw, 0xca)};
  };
  return {.low = join(first, up), .high = hn::Xor(join(down, second), hn::Set(Words(), 0x80808080U))};
}

#endif

// kLanes sums of a strip of one row, shifted to their place.
HWY_INLINE void add_shifted(IntegerVector sums, int shift, std::int64_t* totals) {
  add_to_totals([&](auto half) HWY_ATTR { return hn::ShiftLeftSame(half(sums), shift); }, totals);
}

// int16::result of every column.
inline void round_panel(const Int16Sums& sums) {
  round_totals(sums.totals, sums.row_unit - 270, sums.weight_units, sums.results);
}

}  // namespace reprofuse::cpu::HWY_NAMESPACE::int16_linear
HWY_AFTER_NAMESPACE();
