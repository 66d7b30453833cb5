// Vectors of floats on one target, and its name, for sources that Highway compiles once per target. A source includes
// this once, itself or by another -inl header, under the targets that have kernels: hence no guard.
#include <cstdint>
#include <string_view>

HWY_BEFORE_NAMESPACE();
namespace reprofuse::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using OneFloat = hn::FixedTag<float, 1>;
using Vector = hn::Vec<Floats>;
constexpr int kLanes = HWY_LANES(float);

#if HWY_TARGET == HWY_AVX3
constexpr std::string_view kTarget = "avx512";
#elif HWY_TARGET == HWY_AVX2
constexpr std::string_view kTarget = "avx2";
#else
constexpr std::string_view kTarget = "neon";
#endif

// Calls body(tag, i) for the elements [0, count): whole vectors, then single elements, which never read past the end.
template <class Body>
HWY_INLINE void for_each_vector(std::int64_t count, const Body& body) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) body(Floats(), i);
  for (; i < count; ++i) body(OneFloat(), i);
}

}  // namespace reprofuse::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
