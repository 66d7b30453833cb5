// A panel's words as bytes, for AVX-512 with VNNI. Files for that target alone include this, after vnni-inl.hpp.

namespace reprofuse::cpu::HWY_NAMESPACE::int16_linear {

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

}  // namespace reprofuse::cpu::HWY_NAMESPACE::int16_linear
