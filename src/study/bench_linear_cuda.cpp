#include <algorithm>

#include "base/check.hpp"
#include "base/math.hpp"
#include "kernels/cuda/backend.hpp"
#include "kernels/cuda/timing.hpp"
#include "kernels/reference/linear.hpp"
#include "kernels/vendor/cublas.hpp"
#include "reprofuse/linear.hpp"
#include "study/bench_linear.hpp"
#include "study/device_buffer.hpp"
#include "study/inputs.hpp"

namespace reprofuse::study {
namespace {

constexpr int kRepeats = 21;
constexpr std::size_t kPastTheCaches = std::size_t{256} << 20;  // several times the L2 of any GPU there is
constexpr std::size_t kMostCopies = 1024;
constexpr std::uint64_t kSeed = 1;
constexpr int kDevice = 0;

DeviceBuffer upload(const void* data, std::size_t bytes) {
  DeviceBuffer buffer(kDevice, bytes);
  cuda::copy_to_device(buffer.as<void>(), data, bytes);
  return buffer;
}

// As many copies of the same bytes as it takes for none to be found in the L2, within reason.
std::vector<DeviceBuffer> upload_copies(const void* data, std::size_t bytes) {
  std::vector<DeviceBuffer> copies;
  for (std::size_t i = 0; i < std::min(kMostCopies, kPastTheCaches / bytes + 1); ++i)
    copies.push_back(upload(data, bytes));
  return copies;
}

std::vector<float> widened(const Weights& weights, ThreadPool& pool) {
  std::vector<float> wide(static_cast<std::size_t>(weights.n * weights.k));
  pool.parallel_for(weights.n, [&](std::int64_t row, int) {
    for (std::int64_t k = 0; k < weights.k; ++k)
      wide[static_cast<std::size_t>(row * weights.k + k)] = reference::widened(weights.view(), row, k);
  });
  return wide;
}

class CudaLinearTimer final : public LinearTimer {
 public:
  explicit CudaLinearTimer(const BenchTarget& target)
      : target_(target), context_(Context::cuda(target.numerics, kDevice)), pool_(available_cores()) {
    try {
      cublas_.emplace();
    } catch (const Error& error) {
      no_cublas_ = error.what();
    }
  }

  std::string description() const override { return context_.description(); }
  std::string sgemm_description() const override { return cublas_ ? cublas_->description() : no_cublas_; }

  void measure(const BenchShape& shape, std::span<const std::int64_t> ms,
               const std::function<void(const BenchRow&)>& report) override {
    const Weights weights = make_weights(kSeed, target_.weights, shape.n, shape.k, pool_);
    const std::size_t bytes = static_cast<std::size_t>(shape.n * shape.k) * dtype_bytes(target_.weights);
    const auto narrow = upload_copies(weights.storage.data(), bytes);
    std::vector<DeviceBuffer> wide;
    if (cublas_) {
      const std::vector<float> values = widened(weights, pool_);
      wide = upload_copies(values.data(), values.size() * sizeof(float));
    }
    for (const std::int64_t m : ms)
      if (m <= shape.max_m) report(measure_row(shape, m, narrow, wide));
  }

 private:
  BenchRow measure_row(const BenchShape& shape, std::int64_t m, const std::vector<DeviceBuffer>& narrow,
                       const std::vector<DeviceBuffer>& wide) {
    const std::vector<float> activations = make_activations(kSeed + 1, m, shape.k);
    const DeviceBuffer device_x = upload(activations.data(), activations.size() * sizeof(float));
    const DeviceBuffer device_y(kDevice, static_cast<std::size_t>(m * shape.n) * sizeof(float));
    const ConstMatrix x{device_x.as<float>(), m, shape.k, shape.k};
    const Matrix y{device_y.as<float>(), m, shape.n, shape.n};
    const std::size_t bytes = static_cast<std::size_t>(shape.n * shape.k) * dtype_bytes(target_.weights);

    std::vector<LinearLayer> layers;
    for (const DeviceBuffer& copy : narrow) {
      const WeightView view{copy.as<void>(), target_.weights, shape.n, shape.k, shape.k};
      layers.emplace_back(context_, std::span(&view, 1), "bench");
    }
    const Workspace workspace(context_, layers[0].workspace_bytes(m));
    const LinearOutput output{.y = y, .bias = nullptr};
    BenchRow row{
        .shape = shape,
        .m = m,
        .weights = target_.weights,
        .numerics = target_.numerics,
        .implementation = layers[0].implementation(),
        .linear = time_each(layers, [&](const LinearLayer& layer,
                                        void* stream) { layer.run(x, std::span(&output, 1), workspace, stream); }),
        .read = {time_each(narrow,
                           [&](const DeviceBuffer& copy, void* stream) {
                             cuda::enqueue_read(kDevice, copy.as<void>(), bytes, device_y.as<void>(), stream);
                           }),
                 bytes},
        .sgemm = std::nullopt,
        .bf16 = std::nullopt};
    check_workspace(context_, workspace.data(), nullptr);
    if (cublas_)
      row.sgemm = time_each(
          wide, [&](const DeviceBuffer& copy, void* stream) { cublas_->sgemm(x, copy.as<float>(), y, stream); });
    if (cublas_ && target_.weights == DType::kBF16) {
      const Weights bf16_x = make_weights(kSeed + 2, DType::kBF16, m, shape.k, pool_);
      const DeviceBuffer device_bf16_x = upload(bf16_x.storage.data(), bf16_x.storage.size());
      row.bf16 = time_each(narrow, [&](const DeviceBuffer& copy, void* stream) {
        cublas_->bf16(device_bf16_x.as<void>(), copy.as<void>(), device_y.as<void>(), m, shape.n, shape.k, stream);
      });
    }
    return row;
  }

  // One replay runs the work on every copy in turn; a time is that of one copy.
  template <typename Copy, typename Work>
  Times time_each(const std::vector<Copy>& copies, const Work& work) {
    std::vector<double> seconds = cuda::time_replays(kDevice, kRepeats, [&](void* stream) {
      for (const Copy& copy : copies) work(copy, stream);
    });
    for (double& time : seconds) time /= static_cast<double>(copies.size());
    return summarise(std::move(seconds));
  }

  BenchTarget target_;
  Context context_;
  ThreadPool pool_;
  std::optional<vendor::Cublas> cublas_;
  std::string no_cublas_;
};

}  // namespace

std::unique_ptr<LinearTimer> make_cuda_linear_timer(const BenchTarget& target) {
  return std::make_unique<CudaLinearTimer>(target);
}

}  // namespace reprofuse::study
