// AVX-512 with VNNI: vpdpbusd adds four products of unsigned and signed bytes to each 32-bit lane, so four terms of a
// column share a lane. Files for that target alone include this, with the instruction in their attributes.

namespace reprofuse::cpu::HWY_NAMESPACE {

static_assert(kLanes == kPanel);

// As assembly: compilers copy and spill the sums of a tile around the intrinsic.
HWY_INLINE void add_byte_products(IntegerVector& sum, WordVector weights, IntegerVector x) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(weights.raw), "v"(x.raw));
}

// The same bytes of x, four at `x`, for every lane.
HWY_INLINE void add_byte_products(IntegerVector& sum, WordVector weights, const std::uint8_t* x) {
  asm("vpdpbusd %2%{1to16%}, %1, %0"
      : "+v"(sum.raw)
      : "v"(weights.raw), "m"(*reinterpret_cast<const std::uint8_t(*)[kQuad]>(x)));
}

HWY_INLINE IntegerVector repeat_quad(const std::uint8_t* x) {
  std::int32_t four_terms;
  std::memcpy(&four_terms, x, sizeof(four_terms));
  return hn::Set(Integers(), four_terms);
}

}  // namespace reprofuse::cpu::HWY_NAMESPACE
