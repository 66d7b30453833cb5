#include "kernels/cuda/linear/fma1/linear.hpp"

#include "base/math.hpp"
#include "kernels/cuda/linear/fma1/params.hpp"
#include "kernels/cuda/linear/layer.hpp"
#include "kernels/cuda/runtime/check.hpp"
#include "kernels/cuda/runtime/device.hpp"
#include "kernels/cuda/runtime/launch.hpp"

namespace reprofuse::cuda::fma1 {
namespace {

using reprofuse::fma1::segment_count;

constexpr std::int64_t kMaxK = std::int64_t{1} << 30;

CUtensorMap map_of(const ConstMatrix& x, const Kernel& kernel, const std::string& name) {
  return tensor_map_of({.data = x.data,
                        .element_bytes = sizeof(float),
                        .rows = x.rows,
                        .columns = x.cols,
                        .stride = x.rows == 1 ? x.cols : x.stride,  // a single row may claim any
                        .box_rows = kernel.tile_m,
                        .box_columns = kernel.tile_k,
                        .swizzle_128b = false},
                       "activations", name);
}

}  // namespace

CudaLinear::CudaLinear(const CudaLayerOptions& options, std::span<const WeightView> weights)
    : ScheduledLinear(options, weights) {
  kernels_ = load_kernels(device_, weights[0].dtype);
  require(weights[0].k <= kMaxK, "linear '{}': k = {}; the CUDA backend takes at most {}", name_, weights[0].k, kMaxK);
  require_weights_on_device();
  if (device_.major >= 9) make_tensor_maps();
}

std::size_t CudaLinear::workspace_bytes(std::int64_t max_m) const {
  require_layer_rows(name_, max_m);
  if (weights_[0].k <= kSegment) return kWorkspaceHead;
  return kWorkspaceHead + max_partial_bytes(max_m, [](const Problem& p) { return partial_bytes(p); });
}

Problem CudaLinear::problem(const kernels::LinearCall& call, const Group& group) const {
  const std::int64_t m = call.x.rows, k = weights_[0].k;
  const auto bytes = static_cast<std::int64_t>(dtype_bytes(weights_[0].dtype));
  const bool vector_loads =
      k * bytes % 16 == 0 && k % 4 == 0 && is_vector_aligned(call.x.data, m > 1 ? call.x.stride * 4 : 0);
  return problem_of(group, m, vector_loads);
}

void CudaLinear::launch(const kernels::LinearCall& call, const Group& group, Schedule schedule) const {
  const Kernel& kernel = kernels_[static_cast<std::size_t>(schedule.kernel)];
  Params p{};
  p.x = call.x.data;
  p.x_stride = call.x.stride;
  p.m = static_cast<int>(call.x.rows);
  p.k = static_cast<int>(call.x.cols);
  p.count = static_cast<int>(group.count);
  p.record_column = static_cast<int>(group.first_column);
  p.op = op_;
  p.split_k = schedule.split_k;
  p.record = static_cast<Record*>(call.workspace);
  p.partials = reinterpret_cast<float*>(static_cast<unsigned char*>(call.workspace) + kWorkspaceHead);
  int tiles = 0;
  for (std::size_t i = 0; i < group.count; ++i) {
    const WeightView& weight = weights_[group.begin + i];
    const LinearOutput& output = call.outputs[group.begin + i];
    const int n = static_cast<int>(weight.n);
    p.outputs[i] = {maps_[group.begin + i], weight.data, output.bias, output.y.data, weight.stride,
                    output.y.stride,        n,           tiles,       p.columns};
    tiles += ceil_div(n, kernel.tile_n);
    p.columns += n;
  }
  invariant(tiles <= kMaxGridYZ, "more column tiles than a grid can hold");

  const auto stream = static_cast<cudaStream_t>(call.stream);
  const int segments = static_cast<int>(segment_count(p.k));
  const dim3 grid(ceil_div(p.m, kernel.tile_m), tiles, p.split_k ? segments : 1);
  const Placement placement =
      place(device_, kernel, std::int64_t{grid.x} * grid.y * grid.z, !p.split_k && segments > 1);
  p.stages = placement.stages;
  if (kernel.reads == Reads::kTma) p.x_map = map_of(call.x, kernel, name_);
  check(launch_kernel(kernel.function, {grid, kernel.threads, placement.shared_bytes, kernel.start}, p, stream),
        kernel.name);
  if (p.split_k) check(launch_fold_ascending(p, stream), "fold_ascending");
}

std::unique_ptr<kernels::PreparedLinear> prepare_linear(const CudaLayerOptions& options,
                                                        std::span<const WeightView> weights) {
  return std::make_unique<CudaLinear>(options, weights);
}

}  // namespace reprofuse::cuda::fma1
