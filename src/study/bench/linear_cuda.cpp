#include <algorithm>
#include <optional>

#include "base/check.hpp"
#include "base/math.hpp"
#include "kernels/vendor/libraries.hpp"
#include "ops/buffer.hpp"
#include "ops/context_state.hpp"
#include "reprofuse/linear.hpp"
#include "study/bench/linear.hpp"
#include "study/seeded/inputs.hpp"

namespace reprofuse::study {
namespace {

constexpr int kRepeats = 21;
constexpr std::size_t kPastTheCaches = std::size_t{256} << 20;  // several times the L2 of any GPU there is
constexpr std::size_t kMaxCopies = 1024;

Buffer upload(const Context& context, const void* data, std::size_t bytes) {
  Buffer buffer(context, bytes);
  copy_to_device(context, buffer.as<void>(), data, bytes);
  return buffer;
}

// As many copies of the same bytes as it takes for none to be found in the L2, within reason.
std::vector<Buffer> upload_copies(const Context& context, const void* data, std::size_t bytes) {
  std::vector<Buffer> copies;
  for (std::size_t i = 0; i < std::min(kMaxCopies, kPastTheCaches / bytes + 1); ++i)
    copies.push_back(upload(context, data, bytes));
  return copies;
}

class CudaLinearTimer final : public LinearTimer {
 public:
  explicit CudaLinearTimer(const BenchTarget& target)
      : LinearTimer(
            target, [&](const std::string& numerics) { return Context::open(target.device, numerics); },
            [](const Context& context) { return vendor::cublas_of(*context.state().backend).description(); }),
        pool_(available_cores()),
        peak_gigaflops_(backend().peak_fma_gigaflops()) {}

  void measure(const BenchShape& shape, std::span<const std::int64_t> ms,
               const std::function<void(const BenchRow&)>& report) override {
    const Weights weights = make_weights(kBenchSeed, target_.weights, shape.n, shape.k, pool_);
    const auto copies = upload_copies(context_, weights.storage.data(), weights.storage.size());
    const Layers layers(context_, shape, weights);
    std::vector<std::optional<Layers>> of_baselines;
    for (const Context& baseline : baselines_) {
      of_baselines.emplace_back();
      if (!is_product_alone(baseline)) of_baselines.back().emplace(baseline, shape, weights);
    }
    for (const std::int64_t m : ms)
      if (m <= shape.max_m) report(measure_row(shape, m, copies, layers, of_baselines));
  }

 private:
  // A contract's layers of the same weights, which are theirs as those of a model are.
  struct Layers {
    std::vector<Buffer> copies;
    std::vector<LinearLayer> layers;

    Layers(const Context& context, const BenchShape& shape, const Weights& weights)
        : copies(upload_copies(context, weights.storage.data(), weights.storage.size())) {
      for (const Buffer& copy : copies) {
        const WeightView view{copy.as<void>(), weights.dtype, shape.n, shape.k, shape.k};
        layers.emplace_back(context, std::span(&view, 1), "bench", shape.tied ? WeightUse::kRead : WeightUse::kTake);
      }
    }
  };

  // Operands of one row on the device.
  struct Operands {
    ConstMatrix x;
    LinearOutput output;
    const std::vector<Buffer>& copies;  // of the weights
  };

  const kernels::Backend& backend() const { return *context_.state().backend; }

  // A framework's BF16, whose activations are BF16 already.
  bool is_product_alone(const Context& baseline) const {
    return baseline.state().contract->elementwise->bf16_results && target_.weights == DType::kBF16;
  }

  BenchRow measure_row(const BenchShape& shape, std::int64_t m, const std::vector<Buffer>& copies, const Layers& layers,
                       const std::vector<std::optional<Layers>>& of_baselines) {
    const std::vector<float> activations = make_activations(kBenchSeed + 1, m, shape.k);
    const Buffer device_x = upload(context_, activations.data(), activations.size() * sizeof(float));
    const Buffer device_y(context_, static_cast<std::size_t>(m * shape.n) * sizeof(float));
    const Operands operands{.x = {device_x.as<float>(), m, shape.k, shape.k},
                            .output = {.y = {device_y.as<float>(), m, shape.n, shape.n}, .bias = nullptr},
                            .copies = copies};
    const std::size_t bytes = static_cast<std::size_t>(shape.n * shape.k) * dtype_bytes(target_.weights);
    const auto read = [&](const Buffer& copy, void* stream) {
      backend().enqueue_read(copy.as<void>(), bytes, device_y.as<void>(), stream);
    };
    BenchRow row{.shape = shape,
                 .m = m,
                 .weights = target_.weights,
                 .linear = time_layers(context_, layers.layers, operands),
                 .read = {time_each(copies, read), bytes},
                 .peak_gigaflops = peak_gigaflops_,
                 .baselines = {}};
    for (std::size_t i = 0; i < baselines_.size(); ++i)
      row.baselines.push_back(of_baselines[i] ? time_layers(baselines_[i], of_baselines[i]->layers, operands)
                                              : time_bf16_product(baselines_[i], shape, operands));
    return row;
  }

  Measured time_layers(const Context& context, const std::vector<LinearLayer>& layers, const Operands& operands) {
    const Workspace workspace(context, layers[0].workspace_bytes(operands.x.rows));
    const auto run = [&](const LinearLayer& layer, void* stream) {
      layer.run(operands.x, std::span(&operands.output, 1), workspace, stream);
    };
    Measured measured{.numerics = std::string(context.numerics()),
                      .implementation = layers[0].implementation(),
                      .times = time_each(layers, run),
                      .workspace_bytes = layers[0].workspace_bytes(operands.x.rows)};
    check_workspace(context, workspace.data(), nullptr);
    return measured;
  }

  // The vendor's product alone, on x and y that are BF16 already: a framework that keeps activations in BF16 pays for
  // no conversion, so neither does the baseline.
  Measured time_bf16_product(const Context& context, const BenchShape& shape, const Operands& operands) {
    const std::int64_t m = operands.x.rows;
    const Weights x = make_weights(kBenchSeed + 2, DType::kBF16, m, shape.k, pool_);
    const Buffer device_x = upload(context_, x.storage.data(), x.storage.size());
    const Buffer scratch(context_, vendor::Cublas::kScratchBytes);
    const vendor::Cublas& cublas = vendor::cublas_of(*context.state().backend);
    const auto run = [&](const Buffer& copy, void* stream) {
      cublas.bf16({device_x.as<void>(), m, shape.k, shape.k}, {copy.as<void>(), shape.n, shape.k, shape.k},
                  operands.output.y.data, {stream, scratch.as<void>()});
    };
    return {.numerics = std::string(context.numerics()),
            .implementation = cublas.description(),
            .times = time_each(operands.copies, run),
            .workspace_bytes = vendor::Cublas::kScratchBytes};
  }

  // One replay runs the work on every copy in turn; a time is that of one copy.
  template <typename Copy, typename Work>
  Times time_each(const std::vector<Copy>& copies, const Work& work) {
    std::vector<double> seconds = time_replays(backend(), kRepeats, [&](void* stream) {
      for (const Copy& copy : copies) work(copy, stream);
    });
    for (double& time : seconds) time /= static_cast<double>(copies.size());
    return summarise(std::move(seconds));
  }

  ThreadPool pool_;
  double peak_gigaflops_;
};

}  // namespace

std::unique_ptr<LinearTimer> make_cuda_linear_timer(const BenchTarget& target) {
  return std::make_unique<CudaLinearTimer>(target);
}

}  // namespace reprofuse::study
