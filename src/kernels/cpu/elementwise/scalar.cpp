// Norms, rotation and the SiLU gate one element at a time, for machines whose vectors have no fused multiply-add and as
// the plainest of the kernels.
#include <array>

#include "kernels/cpu/elementwise/elementwise.hpp"
#include "numerics/exp_log.hpp"
#include "numerics/float_ops.hpp"
#include "numerics/fma1.hpp"

namespace reprofuse::cpu {
namespace {

float sum_of_squares(const float* x, std::int64_t k) {
  std::array<float, fma1::kNormLanes> lanes{};
  for (std::int64_t i = 0; i < k; ++i) {
    float& lane = lanes[static_cast<std::size_t>(i % fma1::kNormLanes)];
    lane = fma_rn(x[i], x[i], lane);
  }
  for (std::size_t half = fma1::kNormLanes / 2; half >= 1; half /= 2)
    for (std::size_t j = 0; j < half; ++j) lanes[j] = lanes[j] + lanes[j + half];
  return lanes[0];
}

bool norm_row(const NormRow& row) {
  if (row.delta != nullptr)
    for (std::int64_t i = 0; i < row.k; ++i) row.x[i] = row.x[i] + row.delta[i];
  const float sum = sum_of_squares(row.x, row.k);
  const float inverse = inverse_rms(sum, row.k, row.eps);
  for (std::int64_t i = 0; i < row.k; ++i) row.y[i] = row.weight[i] * (row.x[i] * inverse);
  return is_finite_bits(sum);
}

void rotary_head(const RotaryHead& call) {
  const std::int64_t half = call.head_dim / 2;
  const bool norm = call.weight != nullptr;
  const float inverse = norm ? inverse_rms(sum_of_squares(call.head, call.head_dim), call.head_dim, call.eps) : 1.0F;
  for (std::int64_t d = 0; d < half; ++d) {
    const float a = norm ? call.weight[d] * (call.head[d] * inverse) : call.head[d];
    const float b = norm ? call.weight[d + half] * (call.head[d + half] * inverse) : call.head[d + half];
    call.rotated[d] = fma_rn(a, call.cos[d], -(b * call.sin[d]));
    call.rotated[d + half] = fma_rn(b, call.cos[d], a * call.sin[d]);
  }
}

void silu_gate_row(const SiluGateRow& row) {
  for (std::int64_t i = 0; i < row.k; ++i) row.y[i] = silu(row.gate[i]) * row.up[i];
}

constexpr ElementwiseKernels kGeneric = {
    .norm_row = norm_row, .rotary_head = rotary_head, .silu_gate_row = silu_gate_row};

}  // namespace

#if defined(__x86_64__)
namespace {

// The same functions, compiled with the instruction: flattened, or they would call what was compiled without.
template <auto kKernel, class... Arguments>
[[gnu::target("fma"), gnu::flatten]] auto with_fma(Arguments... arguments) {
  return kKernel(arguments...);
}

constexpr ElementwiseKernels kFma = {.norm_row = with_fma<norm_row, const NormRow&>,
                                     .rotary_head = with_fma<rotary_head, const RotaryHead&>,
                                     .silu_gate_row = with_fma<silu_gate_row, const SiluGateRow&>};

}  // namespace

const ElementwiseKernels& elementwise_scalar() {
  return __builtin_cpu_supports("fma") ? kFma : kGeneric;
}
#else
const ElementwiseKernels& elementwise_scalar() {
  return kGeneric;
}
#endif

}  // namespace reprofuse::cpu
