// Times every schedule that can run a linear layer on the GPU, for the shapes of Llama-3.2-3B and 8B: the measurements
// behind choose_schedule(). The bits are the same for all; only the time differs.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/cuda/linear/fma1/linear.hpp"
#include "kernels/cuda/runtime/memory.hpp"
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

void sweep(const Context& context, const Shape& shape, const std::vector<std::int64_t>& ms, const std::string& kernels,
           ThreadPool& pool) {
  const std::size_t bytes = static_cast<std::size_t>(shape.n * shape.k) * 2;
  const study::Weights weights = study::make_weights(1, DType::kBF16, shape.n, shape.k, pool);
  std::vector<cuda::DeviceBuffer> copies;
  std::vector<cuda::fma1::CudaLinear> layers;
  for (std::size_t total = 0; total < kPastL2; total += bytes) {
    copies.emplace_back(0, bytes);
    cuda::copy_to_device(copies.back().as<void>(), weights.storage.data(), bytes);
    const WeightView view{copies.back().as<void>(), DType::kBF16, shape.n, shape.k, shape.k};
    layers.emplace_back(kernels::CudaTarget{.ordinal = 0, .op = 0, .name = shape.name}, std::span(&view, 1));
  }
  for (const std::int64_t m : ms) {
    if (shape.n > 100000 && m > 512) continue;
    const std::vector<float> x = study::make_activations(2, m, shape.k);
    const cuda::DeviceBuffer device_x(0, x.size() * 4), y(0, static_cast<std::size_t>(m * shape.n) * 4);
    cuda::copy_to_device(device_x.as<float>(), x.data(), x.size() * 4);
    const Workspace workspace(context, layers[0].workspace_bytes(m));
    const LinearOutput output{{y.as<float>(), m, shape.n, shape.n}, nullptr};
    kernels::LinearCall call{{device_x.as<float>(), m, shape.k, shape.k}, {&output, 1}, workspace.data(), nullptr};
    const auto chosen = layers[0].chosen_schedule(call);
    std::printf("%s m %ld:", shape.name, static_cast<long>(m));
    for (const auto schedule : layers[0].schedules(call)) {
      const auto& kernel = layers[0].kernel_table()[static_cast<std::size_t>(schedule.kernel)];
      const std::string label = std::string(kernel.name) + (schedule.split_k ? "/s" : "");
      if (!kernels.empty() && kernels != kernel.name && kernels != label) continue;
      if (m > 64 * kernel.tile_m || kernel.tile_m > 4 * m) continue;
      const auto times = study::summarise(study::time_replays(*context.state().backend, 10, [&](void* stream) {
        call.stream = stream;
        for (const auto& layer : layers) layer.run_with(call, schedule);
      }));
      const bool is_chosen = schedule.kernel == chosen.kernel && schedule.split_k == chosen.split_k;
      std::printf(" %s%s %.1f", is_chosen ? "*" : "", label.c_str(),
                  times.median * 1e6 / static_cast<double>(layers.size()));
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::vector<std::int64_t> ms;
    std::string shapes, kernels;
    for (int i = 1; i < argc; ++i) {
      const std::string argument = argv[i];
      if (argument == "--shape" && i + 1 < argc)
        shapes = argv[++i];
      else if (argument == "--kernel" && i + 1 < argc)
        kernels = argv[++i];
      else
        ms.push_back(std::atol(argv[i]));
    }
    if (ms.empty()) ms = {1, 2, 4, 8, 16, 32, 64, 65, 96, 128, 256, 512, 2048};
    const Context context = Context::cuda();
    ThreadPool pool(available_cores());
    std::printf("%s: microseconds per call, graph replay, weights rotated past the L2; * chosen, /s split K\n",
                context.description().c_str());
    for (const Shape& shape : kShapes)
      if (shapes.empty() || shapes == shape.name) sweep(context, shape, ms, kernels, pool);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "linear_schedules: %s\n", error.what());
    return 1;
  }
}
