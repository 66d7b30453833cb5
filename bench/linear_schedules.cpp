// Times every schedule that can run a linear layer on the GPU, for the shapes of Llama-3.2-3B and 8B: the measurements
// behind choose_schedule(). The bits are the same for all; only the time differs.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "kernels/backend.hpp"
#include "kernels/cuda/linear/fma1/linear.hpp"
#include "kernels/cuda/linear/integer/linear.hpp"
#include "kernels/cuda/runtime/device.hpp"
#include "kernels/vendor/libraries.hpp"
#include "ops/context_state.hpp"
#include "reprofuse/reprofuse.hpp"
#include "study/bench/linear.hpp"
#include "study/seeded/inputs.hpp"
#include "support/device_buffer.hpp"

namespace {

using namespace reprofuse;

struct Shape {
  const char* name;
  std::int64_t n, k;
};
constexpr Shape kShapes[] = {{"qkv", 5120, 3072},      {"o", 3072, 3072},         {"gate_up", 16384, 3072},
                             {"down", 3072, 8192},     {"lm_head", 128256, 3072}, {"qkv_8b", 6144, 4096},
                             {"down_8b", 4096, 14336}, {"ragged", 1000, 1000}};
constexpr std::size_t kPastL2 = std::size_t{256} << 20;  // bytes of weights to rotate through

// What is asked for; empty: all.
struct Options {
  std::vector<std::int64_t> ms;
  std::string shape, kernel, numerics{kDefaultNumerics};
  int max_splits = 8;
  bool chosen_alone = false, cublas = false, digits_in_place = false;
};

template <typename Schedule>
int splits_of(const Schedule& schedule) {
  if constexpr (requires { schedule.splits; })
    return schedule.splits;
  else
    return schedule.split_k ? 2 : 1;
}

// The same weights, as often as it takes for none to be found in the L2.
std::vector<cuda::DeviceBuffer> upload_copies(const study::Weights& weights) {
  std::vector<cuda::DeviceBuffer> copies;
  for (std::size_t total = 0; total < kPastL2; total += weights.storage.size()) {
    copies.emplace_back(0, weights.storage.size());
    cuda::copy_to_device(copies.back().as<void>(), weights.storage.data(), weights.storage.size());
  }
  return copies;
}

class Sweep {
 public:
  Sweep(const Context& context, const Options& options, const Shape& shape, ThreadPool& pool)
      : context_(context),
        options_(options),
        shape_(shape),
        copies_(upload_copies(study::make_weights(1, DType::kBF16, shape.n, shape.k, pool))),
        pool_(pool) {}

  void run(const kernels::LinearScheme& scheme) {
    Layers layers;
    for (const cuda::DeviceBuffer& copy : copies_) {
      const WeightView view{copy.as<void>(), DType::kBF16, shape_.n, shape_.k, shape_.k};
      const WeightUse use = options_.digits_in_place ? WeightUse::kTake : WeightUse::kRead;
      layers.push_back(context_.state().backend->prepare_linear(scheme, {.name = shape_.name, .op = 0, .use = use},
                                                                std::span(&view, 1)));
    }
    if (!run_as<cuda::fma1::CudaLinear>(layers) && !run_as<cuda::integer::CudaLinear>(layers))
      fail(ErrorCode::kUnsupported, "linear layers by '{}' have no schedules to choose from", scheme.name);
  }

 private:
  using Layers = std::vector<std::unique_ptr<kernels::PreparedLinear>>;

  // False: they are of another class.
  template <typename Linear>
  bool run_as(const Layers& layers) {
    std::vector<const Linear*> scheduled;
    for (const auto& layer : layers) scheduled.push_back(dynamic_cast<const Linear*>(layer.get()));
    if (scheduled[0] == nullptr) return false;
    for (const std::int64_t m : options_.ms)
      if (shape_.n <= 100000 || m <= 512) run_rows(scheduled, m);
    return true;
  }

  template <typename Linear>
  void run_rows(const std::vector<const Linear*>& layers, std::int64_t m) {
    const std::vector<float> x = study::make_activations(2, m, shape_.k);
    const cuda::DeviceBuffer device_x(0, x.size() * 4), y(0, static_cast<std::size_t>(m * shape_.n) * 4);
    cuda::copy_to_device(device_x.as<float>(), x.data(), x.size() * 4);
    const Workspace workspace(context_, layers[0]->workspace_bytes(m));
    const LinearOutput output{{y.as<float>(), m, shape_.n, shape_.n}, nullptr};
    kernels::LinearCall call{{device_x.as<float>(), m, shape_.k, shape_.k}, {&output, 1}, workspace.data(), nullptr};
    const auto chosen = layers[0]->chosen_schedule(call);
    std::printf("%s m %ld:", shape_.name, static_cast<long>(m));
    for (const auto schedule : layers[0]->schedules(call)) {
      const auto& kernel = layers[0]->kernel_table()[static_cast<std::size_t>(schedule.kernel)];
      const int splits = splits_of(schedule);
      const std::string label = std::string(kernel.name) + (splits > 1 ? "/" + std::to_string(splits) : "");
      const bool is_chosen = schedule.kernel == chosen.kernel && splits == splits_of(chosen);
      if (options_.chosen_alone && !is_chosen) continue;
      if (splits > options_.max_splits) continue;
      if (!options_.kernel.empty() && label.find(options_.kernel) == std::string::npos) continue;
      if (!is_chosen && (m > 24 * kernel.tile_m || kernel.tile_m > std::max<std::int64_t>(8, 2 * m))) continue;
      print(m, (is_chosen ? "*" : "") + label, [&](void* stream) {
        call.stream = stream;
        for (const Linear* layer : layers) layer->run_with(call, schedule);
      });
    }
    if (options_.cublas) time_cublas(m, y.as<void>());
    std::printf("\n");
    std::fflush(stdout);
  }

  // The product alone, of BF16 operands.
  void time_cublas(std::int64_t m, void* y) {
    const study::Weights x = study::make_weights(3, DType::kBF16, m, shape_.k, pool_);
    const cuda::DeviceBuffer device_x(0, x.storage.size()), scratch(0, vendor::Cublas::kScratchBytes);
    cuda::copy_to_device(device_x.as<void>(), x.storage.data(), x.storage.size());
    const vendor::Cublas& cublas = vendor::cublas_of(*context_.state().backend);
    print(m, "cuBLAS BF16", [&](void* stream) {
      for (const cuda::DeviceBuffer& copy : copies_)
        cublas.bf16({device_x.as<void>(), m, shape_.k, shape_.k}, {copy.as<void>(), shape_.n, shape_.k, shape_.k}, y,
                    {stream, scratch.as<void>()});
    });
  }

  template <typename Work>
  void print(std::int64_t m, const std::string& label, const Work& work) {
    const auto times = study::summarise(study::time_replays(*context_.state().backend, 10, work));
    const double seconds = times.median / static_cast<double>(copies_.size());
    const double operations = 2.0 * static_cast<double>(m * shape_.n) * static_cast<double>(shape_.k);
    std::printf(" | %s %.1f (%.0f)", label.c_str(), seconds * 1e6, operations / seconds * 1e-12);
  }

  const Context& context_;
  const Options& options_;
  const Shape& shape_;
  std::vector<cuda::DeviceBuffer> copies_;
  ThreadPool& pool_;
};

void run(const Options& options) {
  const kernels::LinearScheme& scheme = *find_contract(options.numerics).linear;
  const Context context = Context::cuda();
  ThreadPool pool(available_cores());
  std::printf(
      "%s, %s: microseconds per call (TFLOP/s), graph replay, weights rotated past the L2; * chosen, /n K split\n",
      context.description().c_str(), options.numerics.c_str());
  for (const Shape& shape : kShapes) {
    if (!options.shape.empty() && options.shape != shape.name) continue;
    Sweep sweep(context, options, shape, pool);
    sweep.run(scheme);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Options options;
    for (int i = 1; i < argc; ++i) {
      const std::string argument = argv[i];
      const bool has_value = i + 1 < argc;
      if (argument == "--shape" && has_value)
        options.shape = argv[++i];
      else if (argument == "--kernel" && has_value)
        options.kernel = argv[++i];
      else if (argument == "--numerics" && has_value)
        options.numerics = argv[++i];
      else if (argument == "--as" && has_value)
        kernels::act_as_cuda(argv[++i]);
      else if (argument == "--max-splits" && has_value)
        options.max_splits = std::atoi(argv[++i]);
      else if (argument == "--chosen")
        options.chosen_alone = true;
      else if (argument == "--cublas")
        options.cublas = true;
      else if (argument == "--digits-in-place")
        options.digits_in_place = true;
      else
        options.ms.push_back(std::atol(argv[i]));
    }
    if (options.ms.empty()) options.ms = {1, 2, 4, 8, 16, 32, 64, 65, 96, 128, 256, 512, 2048};
    run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "linear_schedules: %s\n", error.what());
    return 1;
  }
}
