#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "base/math.hpp"
#include "kernels/vendor/libraries.hpp"
#include "numerics/float_ops.hpp"

namespace reprofuse::vendor {
namespace {

using kernels::LinearCall;
using kernels::NonFinite;

constexpr std::int64_t kTaskValues = std::int64_t{1} << 16;  // values that one task of a conversion takes
constexpr std::size_t kAlignment = 64;

// In blocks of a size that the compiler knows, so that it takes vectors.
template <typename Widen>
void widen_values(const std::byte* from, float* to, std::int64_t count, Widen widen_one) {
  constexpr std::int64_t kBlock = 64;
  std::uint16_t bits[kBlock];
  std::int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    std::memcpy(bits, from + i * 2, sizeof(bits));
    for (std::int64_t j = 0; j < kBlock; ++j) to[i + j] = widen_one(bits[j]);
  }
  std::memcpy(bits, from + i * 2, static_cast<std::size_t>(count - i) * 2);
  for (std::int64_t j = 0; i + j < count; ++j) to[i + j] = widen_one(bits[j]);
}

void widen_values(DType dtype, const std::byte* from, float* to, std::int64_t count) {
  switch (dtype) {
    case DType::kBF16: return widen_values(from, to, count, [](std::uint32_t bits) { return widen_bf16(bits); });
    case DType::kF16: return widen_values(from, to, count, [](std::uint32_t bits) { return widen_f16(bits); });
    case DType::kF32: std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float)); return;
  }
}

// A dense [n, k] matrix in the format a baseline keeps it in.
class KeptWeight {
 public:
  KeptWeight(const WeightView& weight, DType dtype, ThreadPool& pool)
      : dtype_(dtype), n_(weight.n), k_(weight.k), storage_(static_cast<std::size_t>(n_ * k_) * dtype_bytes(dtype)) {
    const auto row_bytes = static_cast<std::size_t>(k_) * dtype_bytes(dtype);
    const auto step = static_cast<std::size_t>(weight.stride) * dtype_bytes(weight.dtype);
    pool.parallel_for(n_, [&](std::int64_t row, int) {
      const auto r = static_cast<std::size_t>(row);
      const std::byte* from = static_cast<const std::byte*>(weight.data) + r * step;
      std::byte* to = storage_.data() + r * row_bytes;
      if (dtype_ == weight.dtype)
        std::memcpy(to, from, row_bytes);
      else if (dtype_ == DType::kF32)
        widen_values(weight.dtype, from, reinterpret_cast<float*>(to), k_);
      else
        for (std::int64_t i = 0; i < k_; ++i)
          store_weight(to, dtype_, i, round_bf16(widen(weight.dtype, load_weight(from, weight.dtype, i))));
    });
  }

  DType dtype() const { return dtype_; }
  std::int64_t values() const { return n_ * k_; }
  const float* as_f32() const { return reinterpret_cast<const float*>(storage_.data()); }

  void cast(float* to, ThreadPool& pool) const {
    pool.parallel_for(ceil_div(values(), kTaskValues), [&](std::int64_t task, int) {
      const std::int64_t begin = task * kTaskValues;
      const std::byte* from = storage_.data() + static_cast<std::size_t>(begin) * dtype_bytes(dtype_);
      widen_values(dtype_, from, to + begin, std::min(kTaskValues, values() - begin));
    });
  }

 private:
  DType dtype_;
  std::int64_t n_, k_;
  std::vector<std::byte> storage_;
};

float rounded(float value) {
  return widen_bf16(round_bf16(value));
}

class OpenBlasLinear final : public kernels::PreparedLinear {
 public:
  // kept: the format the weights are held in. bf16: x and y are rounded to it.
  OpenBlasLinear(const kernels::Backend& backend, const kernels::LayerOptions& layer,
                 std::span<const WeightView> weights, DType kept, bool bf16)
      : name_(layer.name), pool_(backend.required_pool()), bf16_(bf16), k_(weights[0].k) {
    blas_ = &openblas_of(backend);
    require_int_sizes(weights, name_);
    for (const WeightView& weight : weights) {
      kept_.emplace_back(weight, kept, pool_);
      if (kept != DType::kF32) max_cast_ = std::max(max_cast_, weight.n * weight.k);
    }
  }

  std::size_t workspace_bytes(std::int64_t max_m) const override {
    const auto x_bytes = checked_product(bf16_ ? max_m : 0, k_, sizeof(float));
    require(x_bytes && *x_bytes < INT64_MAX / 2,
            "linear '{}': a workspace for {} rows of k = {} is larger than any memory", name_, max_m, k_);
    return cast_bytes() + static_cast<std::size_t>(*x_bytes);
  }

  std::optional<NonFinite> run(const LinearCall& call) const override {
    require_int_sizes(call, name_);
    auto* transient = static_cast<float*>(call.workspace);
    const ConstMatrix x = bf16_ ? rounded_x(call) : call.x;
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      const LinearOutput& output = call.outputs[i];
      const float* weight = kept_[i].as_f32();
      if (kept_[i].dtype() != DType::kF32) {
        kept_[i].cast(transient, pool_);
        weight = transient;
      }
      blas_->sgemm(x, weight, output.y);
      if (bf16_ || output.bias != nullptr) finish(output);
    }
    return std::nullopt;
  }

  std::string implementation() const override { return "openblas"; }

 private:
  std::size_t cast_bytes() const { return round_up(static_cast<std::size_t>(max_cast_) * sizeof(float), kAlignment); }

  ConstMatrix rounded_x(const LinearCall& call) const {
    auto* to = reinterpret_cast<float*>(static_cast<std::byte*>(call.workspace) + cast_bytes());
    pool_.parallel_for(call.x.rows, [&](std::int64_t row, int) {
      const float* from = call.x.data + row * call.x.stride;
      std::transform(from, from + k_, to + row * k_, rounded);
    });
    return {to, call.x.rows, k_, k_};
  }

  // Bias after the product, as a second rounding where results are BF16.
  void finish(const LinearOutput& output) const {
    pool_.parallel_for(output.y.rows, [&](std::int64_t row, int) {
      float* y = output.y.data + row * output.y.stride;
      if (bf16_) std::transform(y, y + output.y.cols, y, rounded);
      if (output.bias == nullptr) return;
      for (std::int64_t c = 0; c < output.y.cols; ++c) {
        const float sum = y[c] + output.bias[c];
        y[c] = bf16_ ? rounded(sum) : sum;
      }
    });
  }

  std::string name_;
  ThreadPool& pool_;
  bool bf16_;
  std::int64_t k_;
  const OpenBlas* blas_ = nullptr;
  std::vector<KeptWeight> kept_;
  std::int64_t max_cast_ = 0;  // values of the largest weight that calls cast
};

}  // namespace

std::unique_ptr<kernels::PreparedLinear> prepare_openblas_sgemm(const kernels::Backend& backend,
                                                                const kernels::LayerOptions& layer,
                                                                std::span<const WeightView> weights) {
  return std::make_unique<OpenBlasLinear>(backend, layer, weights, DType::kF32, false);
}

std::unique_ptr<kernels::PreparedLinear> prepare_openblas_layercast(const kernels::Backend& backend,
                                                                    const kernels::LayerOptions& layer,
                                                                    std::span<const WeightView> weights) {
  return std::make_unique<OpenBlasLinear>(backend, layer, weights, weights[0].dtype, false);
}

std::unique_ptr<kernels::PreparedLinear> prepare_openblas_bf16(const kernels::Backend& backend,
                                                               const kernels::LayerOptions& layer,
                                                               std::span<const WeightView> weights) {
  require_bf16_or_f32(weights, layer.name);
  return std::make_unique<OpenBlasLinear>(backend, layer, weights, DType::kBF16, true);
}

}  // namespace reprofuse::vendor
