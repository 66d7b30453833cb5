// How layers are timed: by calls on threads of this process, and by replays of graphs.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <optional>
#include <thread>

#include "base/check.hpp"
#include "base/thread_pool.hpp"
#include "kernels/vendor/libraries.hpp"
#include "ops/buffer.hpp"
#include "ops/context_state.hpp"
#include "reprofuse/linear.hpp"
#include "study/bench/linear.hpp"
#include "study/bench/machine.hpp"
#include "study/seeded/inputs.hpp"

namespace reprofuse::study {
namespace {

constexpr double kSecondsPerRow = 1.5;
constexpr int kMinRounds = 5;
constexpr int kMaxRounds = 101;
// OpenBLAS's threads go on polling for some 20 ms after a call, on the cores that the next work would need; and a
// virtual core that has slept that long takes milliseconds to come back.
constexpr auto kOpenBlasSettles = std::chrono::milliseconds(40);
constexpr auto kCoresWake = std::chrono::milliseconds(8);

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Work {
  std::function<void()> run;
  bool leaves_threads_polling;  // OpenBLAS's
};

// Runs every work once for warm-up, then all of them in turns, and returns the times of each. `settle` comes before a
// work that would meet the threads of the one before.
std::vector<std::vector<double>> time_in_turns(std::span<const Work> works, const std::function<void()>& settle) {
  double round = 0;
  for (const Work& work : works)
    round += seconds_of(work.run) + (work.leaves_threads_polling ? seconds_of(settle) : 0.0);
  const int rounds = static_cast<int>(std::clamp(kSecondsPerRow / round, 1.0 * kMinRounds, 1.0 * kMaxRounds));
  std::vector<std::vector<double>> times(works.size());
  for (int i = 0; i < rounds; ++i) {
    for (std::size_t w = 0; w < works.size(); ++w) {
      times[w].push_back(seconds_of(works[w].run));
      if (works[w].leaves_threads_polling) settle();
    }
  }
  return times;
}

// Bytes that push everything else out of the caches: several times the last-level cache one core sees.
std::size_t past_the_caches() {
  constexpr std::size_t kMinBytes = std::size_t{256} << 20;
  constexpr std::size_t kCaches = 4;
  std::size_t kibibytes = 0;
  std::ifstream("/sys/devices/system/cpu/cpu0/cache/index3/size") >> kibibytes;
  return std::max(kMinBytes, kCaches * kibibytes << 10);
}

// Matrices too small to be worth rotating that far stay in a cache.
std::size_t copies_past_the_caches(double bytes) {
  constexpr double kMaxLayers = 1024;
  return static_cast<std::size_t>(std::min(kMaxLayers, static_cast<double>(past_the_caches()) / bytes)) + 1;
}

// One numerics' layers over the same weights, in enough copies that no call finds its own in a cache.
class RotatedLayers {
 public:
  RotatedLayers(const Context& context, const Weights& weights) : context_(context) {
    const WeightView view = weights.view();
    const double bytes =
        static_cast<double>(weights.n) * static_cast<double>(weights.k) * static_cast<double>(dtype_bytes(view.dtype));
    for (std::size_t i = 0; i < copies_past_the_caches(bytes); ++i)
      layers_.emplace_back(context, std::span(&view, 1), "bench");
  }

  const Context& context() const { return context_; }
  const LinearLayer& next() { return layers_[next_++ % layers_.size()]; }
  bool is_baseline() const { return !context_.state().numerics->is_contract(); }

 private:
  Context context_;
  std::vector<LinearLayer> layers_;
  std::size_t next_ = 0;
};

class CallingLinearTimer final : public LinearTimer {
 public:
  CallingLinearTimer(const BenchTarget& target, Context context)
      : LinearTimer(target, std::move(context)),
        pool_(context_.state().backend->required_pool().threads()),
        read_(past_the_caches(), pool_) {}

  void measure(const BenchShape& shape, std::span<const std::int64_t> ms,
               const std::function<void(const BenchRow&)>& report) override {
    std::vector<RotatedLayers> layers;  // the contract's, then each baseline's
    {
      const Weights weights = make_weights(kBenchSeed, target_.weights, shape.n, shape.k, pool_);
      layers.emplace_back(context_, weights);
      for (const Context& baseline : baselines_) layers.emplace_back(baseline, weights);
    }
    for (const std::int64_t m : ms)
      if (m <= shape.max_m) report(measure_row(shape, m, layers));
  }

 private:
  BenchRow measure_row(const BenchShape& shape, std::int64_t m, std::span<RotatedLayers> layers) {
    const std::vector<float> activations = make_activations(kBenchSeed + 1, m, shape.k);
    std::vector<float> results(static_cast<std::size_t>(m * shape.n));
    const ConstMatrix x{activations.data(), m, shape.k, shape.k};
    const LinearOutput output{.y = {results.data(), m, shape.n, shape.n}};
    const std::size_t weight_bytes = static_cast<std::size_t>(shape.n * shape.k) * dtype_bytes(target_.weights);
    std::size_t read_bytes = 0;
    double burst_operations = 0;
    std::vector<Workspace> workspaces;
    std::vector<Work> works = {{[&] { read_bytes = read_.run(weight_bytes); }, false},
                               {[&] { burst_operations = run_fma_burst(pool_); }, false}};
    const std::size_t floors = works.size();
    for (RotatedLayers& rotated : layers) workspaces.emplace_back(rotated.context(), rotated.next().workspace_bytes(m));
    for (std::size_t i = 0; i < layers.size(); ++i)
      works.push_back({[&, i] { layers[i].next().run(x, std::span(&output, 1), workspaces[i]); },
                       layers[i].is_baseline() && pool_.threads() > 1});
    const auto times = time_in_turns(works, [&] { settle(); });
    const auto measured = [&](std::size_t i) {
      return Measured{.numerics = std::string(layers[i].context().numerics()),
                      .implementation = layers[i].next().implementation(),
                      .times = summarise(times[floors + i]),
                      .workspace_bytes = layers[i].next().workspace_bytes(m)};
    };
    BenchRow row{.shape = shape,
                 .m = m,
                 .weights = target_.weights,
                 .linear = measured(0),
                 .read = {summarise(times[0]), read_bytes},
                 .peak_gigaflops = burst_operations / summarise(times[1]).fastest * 1e-9,
                 .baselines = {}};
    for (std::size_t i = 1; i < layers.size(); ++i) row.baselines.push_back(measured(i));
    return row;
  }

  void settle() {
    std::this_thread::sleep_for(kOpenBlasSettles);
    const auto awake = std::chrono::steady_clock::now() + kCoresWake;
    pool_.parallel_for(pool_.threads(), [&](std::int64_t, int) {
      while (std::chrono::steady_clock::now() < awake) {
      }
    });
  }

  ThreadPool pool_;
  StreamingRead read_;
};

}  // namespace

std::unique_ptr<LinearTimer> make_calling_linear_timer(const BenchTarget& target, Context context) {
  return std::make_unique<CallingLinearTimer>(target, std::move(context));
}

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

class ReplayingLinearTimer final : public LinearTimer {
 public:
  ReplayingLinearTimer(const BenchTarget& target, Context context)
      : LinearTimer(target, std::move(context)),
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
    const kernels::ExternalLinear* kernels = baseline.state().numerics->linear->external_on(backend().name());
    return kernels != nullptr && kernels->multiplier == kernels::Multiplier::kBf16 && target_.weights == DType::kBF16;
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

std::unique_ptr<LinearTimer> make_replaying_linear_timer(const BenchTarget& target, Context context) {
  return std::make_unique<ReplayingLinearTimer>(target, std::move(context));
}

}  // namespace reprofuse::study
