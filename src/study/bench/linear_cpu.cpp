#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include "base/check.hpp"
#include "base/thread_pool.hpp"
#include "kernels/vendor/libraries.hpp"
#include "ops/context_state.hpp"
#include "reprofuse/linear.hpp"
#include "study/bench/linear.hpp"
#include "study/bench/streaming_read.hpp"
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
  bool is_baseline() const { return !context_.state().contract->reproducible(); }

 private:
  Context context_;
  std::vector<LinearLayer> layers_;
  std::size_t next_ = 0;
};

class CpuLinearTimer final : public LinearTimer {
 public:
  explicit CpuLinearTimer(const BenchTarget& target)
      : LinearTimer(
            target, [&](const std::string& numerics) { return Context::cpu(numerics, target.isa, target.threads); },
            [](const Context& context) { return vendor::openblas_of(*context.state().backend).description(); }),
        pool_(context_.threads()),
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

std::unique_ptr<LinearTimer> make_cpu_linear_timer(const BenchTarget& target) {
  return std::make_unique<CpuLinearTimer>(target);
}

}  // namespace reprofuse::study
