#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include "base/check.hpp"
#include "base/thread_pool.hpp"
#include "kernels/reference/linear.hpp"
#include "kernels/vendor/openblas.hpp"
#include "reprofuse/linear.hpp"
#include "study/bench_linear.hpp"
#include "study/inputs.hpp"
#include "study/streaming_read.hpp"

namespace reprofuse::study {
namespace {

constexpr double kSecondsPerRow = 1.0;
constexpr int kFewestRounds = 5;
constexpr int kMostRounds = 101;
constexpr std::uint64_t kSeed = 1;
// OpenBLAS's threads go on polling for some 20 ms after a call, on the cores that the next work would need; and a
// virtual core that has slept that long takes milliseconds to come back.
constexpr auto kOpenBlasSettles = std::chrono::milliseconds(40);
constexpr auto kCoresWake = std::chrono::milliseconds(8);

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Runs every work once for warm-up, then all of them in turns, `settle` before each turn, and returns the times of
// each.
std::vector<std::vector<double>> time_in_turns(std::span<const std::function<void()>> works,
                                               const std::function<void()>& settle) {
  double round = 0;
  for (const auto& work : works) round += seconds_of(work);
  const int rounds = static_cast<int>(std::clamp(kSecondsPerRow / round, 1.0 * kFewestRounds, 1.0 * kMostRounds));
  std::vector<std::vector<double>> times(works.size());
  for (int i = 0; i < rounds; ++i) {
    settle();
    for (std::size_t w = 0; w < works.size(); ++w) times[w].push_back(seconds_of(works[w]));
  }
  return times;
}

// Bytes that push everything else out of the caches: several times the last-level cache one core sees.
std::size_t past_the_caches() {
  constexpr std::size_t kLeast = std::size_t{256} << 20;
  constexpr std::size_t kCaches = 4;
  std::size_t kibibytes = 0;
  std::ifstream("/sys/devices/system/cpu/cpu0/cache/index3/size") >> kibibytes;
  return std::max(kLeast, kCaches * kibibytes << 10);
}

// Matrices too small to be worth rotating that far stay in a cache.
std::size_t copies_past_the_caches(double bytes) {
  constexpr double kMost = 1024;
  return static_cast<std::size_t>(std::min(kMost, static_cast<double>(past_the_caches()) / bytes)) + 1;
}

// The layer's weights and the baseline's, in enough copies that no call finds its own in a cache.
class RotatedWeights {
 public:
  RotatedWeights(const Context& context, const Weights& weights, ThreadPool& pool, bool with_sgemm) {
    const WeightView view = weights.view();
    const double values = static_cast<double>(weights.n) * static_cast<double>(weights.k);
    const std::size_t layers = copies_past_the_caches(values * static_cast<double>(dtype_bytes(weights.dtype)));
    for (std::size_t i = 0; i < layers; ++i) layers_.emplace_back(context, std::span(&view, 1), "bench");
    if (!with_sgemm) return;
    copies_.resize(copies_past_the_caches(values * sizeof(float)));
    for (auto& copy : copies_) {
      copy.resize(static_cast<std::size_t>(weights.n * weights.k));
      pool.parallel_for(weights.n, [&](std::int64_t row, int) {
        float* to = copy.data() + row * weights.k;
        for (std::int64_t k = 0; k < weights.k; ++k) to[k] = reference::widened(view, row, k);
      });
    }
  }

  const LinearLayer& next_layer() { return layers_[layer_++ % layers_.size()]; }
  const float* next_copy() { return copies_[copy_++ % copies_.size()].data(); }

 private:
  std::vector<LinearLayer> layers_;
  std::vector<std::vector<float>> copies_;
  std::size_t layer_ = 0;
  std::size_t copy_ = 0;
};

class CpuLinearTimer final : public LinearTimer {
 public:
  explicit CpuLinearTimer(const BenchTarget& target)
      : target_(target),
        context_(Context::cpu(target.numerics, target.isa, target.threads)),
        pool_(context_.threads()),
        read_(past_the_caches(), pool_) {
    try {
      openblas_.emplace(context_.threads());
    } catch (const Error& error) {
      no_openblas_ = error.what();
    }
  }

  std::string description() const override { return context_.description(); }
  std::string sgemm_description() const override { return openblas_ ? openblas_->description() : no_openblas_; }

  void measure(const BenchShape& shape, std::span<const std::int64_t> ms,
               const std::function<void(const BenchRow&)>& report) override {
    const Weights weights = make_weights(kSeed, target_.weights, shape.n, shape.k, pool_);
    RotatedWeights rotated(context_, weights, pool_, openblas_.has_value());
    for (const std::int64_t m : ms)
      if (m <= shape.max_m) report(measure_row(shape, m, rotated));
  }

 private:
  BenchRow measure_row(const BenchShape& shape, std::int64_t m, RotatedWeights& rotated) {
    const std::vector<float> activations = make_activations(kSeed + 1, m, shape.k);
    std::vector<float> results(static_cast<std::size_t>(m * shape.n));
    const ConstMatrix x{activations.data(), m, shape.k, shape.k};
    const LinearOutput output{.y = {results.data(), m, shape.n, shape.n}};
    const Workspace workspace(context_, rotated.next_layer().workspace_bytes(m));
    const std::size_t weight_bytes = static_cast<std::size_t>(shape.n * shape.k) * dtype_bytes(target_.weights);
    std::size_t read_bytes = 0;
    std::vector<std::function<void()>> works = {[&] { rotated.next_layer().run(x, std::span(&output, 1), workspace); },
                                                [&] { read_bytes = read_.run(weight_bytes); }};
    if (openblas_) works.push_back([&] { openblas_->sgemm(x, rotated.next_copy(), output.y); });
    const auto times = time_in_turns(works, [&] { settle(); });
    BenchRow row{.shape = shape,
                 .m = m,
                 .weights = target_.weights,
                 .numerics = target_.numerics,
                 .implementation = rotated.next_layer().implementation(),
                 .linear = summarise(times[0]),
                 .read = {summarise(times[1]), read_bytes},
                 .sgemm = std::nullopt};
    if (openblas_) row.sgemm = summarise(times[2]);
    return row;
  }

  void settle() {
    if (!openblas_ || pool_.threads() == 1) return;
    std::this_thread::sleep_for(kOpenBlasSettles);
    const auto awake = std::chrono::steady_clock::now() + kCoresWake;
    pool_.parallel_for(pool_.threads(), [&](std::int64_t, int) {
      while (std::chrono::steady_clock::now() < awake) {
      }
    });
  }

  BenchTarget target_;
  Context context_;
  ThreadPool pool_;
  StreamingRead read_;
  std::optional<vendor::OpenBlas> openblas_;
  std::string no_openblas_;
};

}  // namespace

std::unique_ptr<LinearTimer> make_cpu_linear_timer(const BenchTarget& target) {
  return std::make_unique<CpuLinearTimer>(target);
}

}  // namespace reprofuse::study
