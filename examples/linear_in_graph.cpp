// One linear layer inside a CUDA graph of one's own: captured once, replayed for every x, compared with the CPU.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <reprofuse/reprofuse.hpp>
#include <stdexcept>
#include <vector>

static void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

static std::vector<float> numbers(std::size_t count, unsigned seed) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>((seed = seed * 1664525U + 1013904223U) >> 8) * 0x1p-24F;
  return values;
}

int main() try {
  if (reprofuse::available_devices().size() < 2) return std::puts("skipped: there is no GPU, or no code for one"), 77;
  constexpr std::int64_t m = 3, n = 96, k = 1000;
  const auto weights = numbers(n * k, 1);
  float* w = nullptr;  // one allocation: weights, then x, then y
  check(cudaMalloc(reinterpret_cast<void**>(&w), (n * k + m * k + m * n) * sizeof(float)));
  float *x = w + n * k, *y = x + m * k;
  check(cudaMemcpy(w, weights.data(), n * k * sizeof(float), cudaMemcpyHostToDevice));

  const auto gpu = reprofuse::Context::cuda();
  const reprofuse::WeightView view{w, reprofuse::DType::kF32, n, k, k};
  const reprofuse::LinearLayer layer(gpu, {&view, 1});
  const reprofuse::Workspace workspace(gpu, layer.workspace_bytes(m));
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  check(cudaStreamCreate(&stream));
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  const reprofuse::LinearOutput output{{y, m, n, n}};
  layer.run({x, m, k, k}, {&output, 1}, workspace, stream);  // allocates nothing and waits for nothing
  check(cudaStreamEndCapture(stream, &graph));
  check(cudaGraphInstantiate(&ready, graph, 0));

  const reprofuse::WeightView host_view{weights.data(), reprofuse::DType::kF32, n, k, k};
  const reprofuse::LinearLayer host_layer(reprofuse::Context::cpu(), {&host_view, 1});
  const reprofuse::Workspace host_workspace(reprofuse::Context::cpu(), host_layer.workspace_bytes(m));
  for (unsigned run = 0; run < 5; ++run) {
    const auto input = numbers(m * k, 100 + run);
    std::vector<float> seen(m * n), expected(m * n);
    check(cudaMemcpyAsync(x, input.data(), m * k * sizeof(float), cudaMemcpyHostToDevice, stream));
    check(cudaGraphLaunch(ready, stream));
    reprofuse::check_workspace(gpu, workspace.data(), stream);  // waits; throws where a result is not finite
    check(cudaMemcpy(seen.data(), y, m * n * sizeof(float), cudaMemcpyDeviceToHost));
    const reprofuse::LinearOutput host_output{{expected.data(), m, n, n}};
    host_layer.run({input.data(), m, k, k}, {&host_output, 1}, host_workspace);
    if (std::memcmp(seen.data(), expected.data(), m * n * sizeof(float)) != 0) return std::puts("DIFFERENT"), 1;
  }
  return std::puts("5 replays, bit for bit those of the CPU"), 0;
} catch (const std::exception& error) {
  return std::fprintf(stderr, "%s\n", error.what()), 1;
}
