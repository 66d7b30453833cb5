#include <algorithm>
#include <string>
#include <vector>

#include "base/math.hpp"
#include "kernels/cuda/runtime/check.hpp"
#include "kernels/cuda/runtime/device.hpp"
#include "kernels/vendor/cast.hpp"
#include "kernels/vendor/libraries.hpp"

namespace reprofuse::cuda {
namespace {

using Launch = cudaError_t(const CastRows&, int sm_count, cudaStream_t);

void enqueue(int ordinal, Launch* launch, const CastRows& cast, void* stream, const char* what) {
  const DeviceScope device(ordinal);
  const int sm_count = device_attribute(ordinal, cudaDevAttrMultiProcessorCount);
  check(launch(cast, sm_count, static_cast<cudaStream_t>(stream)), what);
}

}  // namespace

void enqueue_widen(int ordinal, const WeightView& weight, float* to, void* stream) {
  invariant(weight.dtype != DType::kF32, "a binary32 weight needs no widening");
  const CastRows cast{.from = weight.data,
                      .from_stride = weight.stride,
                      .to = to,
                      .to_stride = weight.k,
                      .rows = weight.n,
                      .cols = weight.k,
                      .bias = nullptr};
  enqueue(ordinal, weight.dtype == DType::kBF16 ? launch_widen_bf16 : launch_widen_f16, cast, stream, "widen");
}

void enqueue_round_bf16(int ordinal, ConstMatrix from, void* to, void* stream) {
  const CastRows cast{.from = from.data,
                      .from_stride = from.stride,
                      .to = to,
                      .to_stride = from.cols,
                      .rows = from.rows,
                      .cols = from.cols,
                      .bias = nullptr};
  enqueue(ordinal, launch_round_bf16, cast, stream, "round_bf16");
}

void enqueue_widen_bf16_result(int ordinal, const void* from, const float* bias, Matrix y, void* stream) {
  const CastRows cast{.from = from,
                      .from_stride = y.cols,
                      .to = y.data,
                      .to_stride = y.stride,
                      .rows = y.rows,
                      .cols = y.cols,
                      .bias = bias};
  enqueue(ordinal, launch_widen_bf16_result, cast, stream, "widen_bf16_result");
}

void enqueue_add_bias(int ordinal, const float* bias, Matrix y, void* stream) {
  const CastRows cast{.from = y.data,
                      .from_stride = y.stride,
                      .to = y.data,
                      .to_stride = y.stride,
                      .rows = y.rows,
                      .cols = y.cols,
                      .bias = bias};
  enqueue(ordinal, launch_add_bias, cast, stream, "add_bias");
}

}  // namespace reprofuse::cuda

namespace reprofuse::vendor {
namespace {

using kernels::LinearCall;
using kernels::NonFinite;
using DeviceMemory = std::unique_ptr<void, void (*)(void*) noexcept>;

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kBf16Bytes = 2;

DeviceMatrix matrix(const WeightView& weight) {
  return {weight.data, weight.n, weight.k, weight.stride};
}

class CublasLinear final : public kernels::PreparedLinear {
 public:
  // kept: the format the weights are held in; bf16: so are x and y.
  CublasLinear(const kernels::Backend& backend, const kernels::LayerOptions& layer, std::span<const WeightView> weights,
               DType kept, bool bf16)
      : ordinal_(backend.ordinal()), name_(layer.name), bf16_(bf16), k_(weights[0].k) {
    require_int_sizes(weights, name_);
    const cuda::DeviceScope device(ordinal_);
    cublas_ = &cublas_of(backend);
    for (const WeightView& weight : weights) {
      weights_.push_back(weight.dtype == kept ? weight : converted(weight, kept));
      max_columns_ = std::max(max_columns_, weight.n);
      if (!bf16_ && kept != DType::kF32) max_cast_ = std::max(max_cast_, weight.n * weight.k);
    }
    cuda::check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");  // other streams do not wait for the default
  }

  std::size_t workspace_bytes(std::int64_t max_m) const override {
    const auto x_bytes = checked_product(max_m, k_, sizeof(float));
    const auto y_bytes = checked_product(max_m, max_columns_, sizeof(float));
    require(x_bytes && y_bytes && *x_bytes < INT64_MAX / 4 && *y_bytes < INT64_MAX / 4,
            "linear '{}': a workspace for {} rows is larger than any memory", name_, max_m);
    return layout(max_m).bytes;
  }

  std::optional<NonFinite> run(const LinearCall& call) const override {
    require_int_sizes(call, name_);
    const cuda::DeviceScope device(ordinal_);
    const Layout at = layout(call.x.rows);
    auto* workspace = static_cast<std::byte*>(call.workspace);
    const Cublas::Queue queue{call.stream, workspace + at.scratch};
    if (bf16_) {
      run_bf16(call, queue, workspace + at.x, workspace + at.y);
      return std::nullopt;
    }
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      const LinearOutput& output = call.outputs[i];
      cublas_->sgemm(call.x, in_f32(weights_[i], workspace + at.transient, call.stream), output.y, queue);
      if (output.bias != nullptr) cuda::enqueue_add_bias(ordinal_, output.bias, output.y, call.stream);
    }
    return std::nullopt;
  }

  std::string implementation() const override { return cublas_->description(); }

 private:
  // Offsets in the workspace, behind the record that every CUDA workspace begins with.
  struct Layout {
    std::size_t scratch;    // cuBLAS's own
    std::size_t transient;  // one weight in binary32
    std::size_t x, y;       // BF16
    std::size_t bytes;
  };

  Layout layout(std::int64_t m) const {
    const auto rows = static_cast<std::size_t>(bf16_ ? m : 0);
    Layout at{};
    at.scratch = cuda::kWorkspaceHead;
    at.transient = at.scratch + Cublas::kScratchBytes;
    at.x = at.transient + round_up(static_cast<std::size_t>(max_cast_) * sizeof(float), kAlignment);
    at.y = at.x + round_up(rows * static_cast<std::size_t>(k_) * kBf16Bytes, kAlignment);
    at.bytes = at.y + round_up(rows * static_cast<std::size_t>(max_columns_) * kBf16Bytes, kAlignment);
    return at;
  }

  // A copy in another format that this layer owns.
  WeightView converted(const WeightView& weight, DType kept) {
    const auto values = static_cast<std::size_t>(weight.n * weight.k);
    copies_.emplace_back(cuda::allocate(ordinal_, values * dtype_bytes(kept)), cuda::release);
    void* copy = copies_.back().get();
    if (kept == DType::kF32)
      cuda::enqueue_widen(ordinal_, weight, static_cast<float*>(copy), nullptr);
    else
      cuda::enqueue_round_bf16(ordinal_, {static_cast<const float*>(weight.data), weight.n, weight.k, weight.stride},
                               copy, nullptr);
    return {copy, kept, weight.n, weight.k, weight.k};
  }

  DeviceMatrix in_f32(const WeightView& weight, void* transient, void* stream) const {
    if (weight.dtype == DType::kF32) return matrix(weight);
    cuda::enqueue_widen(ordinal_, weight, static_cast<float*>(transient), stream);
    return {transient, weight.n, weight.k, weight.k};
  }

  void run_bf16(const LinearCall& call, const Cublas::Queue& queue, void* x, void* y) const {
    cuda::enqueue_round_bf16(ordinal_, call.x, x, call.stream);
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      const LinearOutput& output = call.outputs[i];
      cublas_->bf16({x, call.x.rows, k_, k_}, matrix(weights_[i]), y, queue);
      cuda::enqueue_widen_bf16_result(ordinal_, y, output.bias, output.y, call.stream);
    }
  }

  int ordinal_;
  std::string name_;
  bool bf16_;
  std::int64_t k_;
  const Cublas* cublas_ = nullptr;
  std::vector<WeightView> weights_;
  std::vector<DeviceMemory> copies_;
  std::int64_t max_columns_ = 0;
  std::int64_t max_cast_ = 0;  // values of the largest weight that calls cast
};

}  // namespace

std::unique_ptr<kernels::PreparedLinear> prepare_cublas_sgemm(const kernels::Backend& backend,
                                                              const kernels::LayerOptions& layer,
                                                              std::span<const WeightView> weights) {
  return std::make_unique<CublasLinear>(backend, layer, weights, DType::kF32, false);
}

std::unique_ptr<kernels::PreparedLinear> prepare_cublas_layercast(const kernels::Backend& backend,
                                                                  const kernels::LayerOptions& layer,
                                                                  std::span<const WeightView> weights) {
  return std::make_unique<CublasLinear>(backend, layer, weights, weights[0].dtype, false);
}

std::unique_ptr<kernels::PreparedLinear> prepare_cublas_bf16(const kernels::Backend& backend,
                                                             const kernels::LayerOptions& layer,
                                                             std::span<const WeightView> weights) {
  require_bf16_or_f32(weights, layer.name);
  return std::make_unique<CublasLinear>(backend, layer, weights, DType::kBF16, true);
}

}  // namespace reprofuse::vendor
