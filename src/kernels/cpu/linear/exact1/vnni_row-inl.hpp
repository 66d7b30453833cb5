// exact-1 for AVX-512 with VNNI: what its kernels share, and the one for a single row. A row alone meets weights that
// are worth no transposition into planes of digits: two of a term's digits stay together, at the cost of one product
// more. Only vnni.cpp includes this.

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

// Four terms a to d of a row alone, as the factors of each product. With both lower digits of two terms: for the
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

}  // namespace reprofuse::cpu::HWY_NAMESPACE::vnni
