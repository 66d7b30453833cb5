// Vectors of one target, and SiLU. Only model_ops_simd.cpp includes this, once per target: hence no guard.

HWY_BEFORE_NAMESPACE();
namespace reprofuse::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using OneFloat = hn::FixedTag<float, 1>;
using Vector = hn::Vec<Floats>;
constexpr int kLanes = HWY_LANES(float);

// Calls body(tag, i) for the elements [0, count): whole vectors, then single elements, which never read past the end.
template <class Body>
HWY_INLINE void for_each_vector(std::int64_t count, const Body& body) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) body(Floats(), i);
  for (; i < count; ++i) body(OneFloat(), i);
}

// Bits: equal reprofuse::silu in every lane.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V silu(D d, V x) {
  return hn::Div(x, hn::Add(hn::Set(d, 1.0F), exp_f32(d, hn::Neg(x))));
}

inline void silu_gate_row(const SiluGateRow& row) {
  for_each_vector(row.k, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(silu(d, hn::LoadU(d, row.gate + i)), hn::LoadU(d, row.up + i)), d, row.y + i);
  });
}

}  // namespace reprofuse::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
