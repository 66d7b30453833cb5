// How one target's registers widen packed words of a panel. Each file that Highway compiles once per target includes
// this once per target: hence no guard.

HWY_BEFORE_NAMESPACE();
namespace reprofuse::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Words = hn::ScalableTag<std::uint32_t>;
using Vector = hn::Vec<Floats>;
using WordVector = hn::Vec<Words>;
constexpr int kLanes = HWY_LANES(float);
static_assert(kPanel % kLanes == 0);

// How a packed word becomes weights. A pair holds term k in its low and term k + 1 in its high half.
struct Bf16Pair {
  static constexpr int kTerms = 2;
  static HWY_INLINE Vector term(WordVector words, hwy::SizeTag<0>) {
    return hn::BitCast(Floats(), hn::ShiftLeft<16>(words));
  }
  static HWY_INLINE Vector term(WordVector words, hwy::SizeTag<1>) {
    return hn::BitCast(Floats(), hn::And(words, hn::Set(Words(), 0xffff0000U)));
  }
};

// Sign and fields move down three places together; the product corrects the exponent and is exact.
struct F16Pair {
  static constexpr int kTerms = 2;
  static HWY_INLINE Vector term(WordVector words, hwy::SizeTag<0>) {
    return term(hn::ShiftLeft<16>(words), hwy::SizeTag<1>());
  }
  static HWY_INLINE Vector term(WordVector words, hwy::SizeTag<1>) {
    const hn::RebindToSigned<Words> ints;
    const auto moved = hn::ShiftRight<3>(hn::BitCast(ints, words));
    const auto fields = hn::And(hn::BitCast(Words(), moved), hn::Set(Words(), 0x8fffe000U));
    return hn::Mul(hn::BitCast(Floats(), fields), hn::Set(Floats(), 0x1p112F));
  }
};

struct F32Word {
  static constexpr int kTerms = 1;
  static HWY_INLINE Vector term(WordVector words, hwy::SizeTag<0>) { return hn::BitCast(Floats(), words); }
};

}  // namespace reprofuse::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
