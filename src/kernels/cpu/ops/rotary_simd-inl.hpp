// The rotary embedding of one target. Only model_ops_simd.cpp includes this, once per target: hence no guard.

HWY_BEFORE_NAMESPACE();
namespace reprofuse::cpu::HWY_NAMESPACE {

// Element d turns with element d + head_dim / 2.
HWY_NOINLINE void rotary_head(const RotaryHead& call) {
  const std::int64_t half = call.head_dim / 2;
  const bool norm = call.weight != nullptr;
  const float inverse = norm ? inverse_rms(sum_of_squares(call.head, call.head_dim), call.head_dim, call.eps) : 1.0F;
  const auto element = [&](auto d, std::int64_t i) HWY_ATTR {
    const auto value = hn::LoadU(d, call.head + i);
    if (!norm) return value;
    return hn::Mul(hn::LoadU(d, call.weight + i), hn::Mul(value, hn::Set(d, inverse)));
  };
  for_each_vector(half, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto a = element(d, i);
    const auto b = element(d, i + half);
    const auto cos = hn::LoadU(d, call.cos + i);
    const auto sin = hn::LoadU(d, call.sin + i);
    hn::StoreU(hn::MulSub(a, cos, hn::Mul(b, sin)), d, call.rotated + i);
    hn::StoreU(hn::MulAdd(b, cos, hn::Mul(a, sin)), d, call.rotated + half + i);
  });
}

}  // namespace reprofuse::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
