#include "kernels/cuda/linear/fma1/linear.hpp"

#include <algorithm>

#include "base/math.hpp"
#include "kernels/cuda/linear/fma1/params.hpp"
#include "kernels/cuda/linear/operands.hpp"
#include "kernels/cuda/runtime/backend.hpp"
#include "kernels/cuda/runtime/check.hpp"
#include "kernels/cuda/runtime/launch.hpp"
#include "kernels/cuda/runtime/tensor_map.hpp"

namespace reprofuse::cuda::fma1 {
namespace {

using reprofuse::fma1::segment_count;

constexpr std::int64_t kMaxK = std::int64_t{1} << 30;

// All zero where alignment leaves it to other kernels.
CUtensorMap map_of(const WeightView& weight, const std::string& name) {
  const int bytes = static_cast<int>(dtype_bytes(weight.dtype));
  if (!is_vector_aligned(weight.data, weight.stride * bytes)) return {};
  return tensor_map_of({.data = weight.data,
                        .element_bytes = bytes,
                        .rows = weight.n,
                        .columns = weight.k,
                        .stride = weight.stride,
                        .box_rows = kBoxRows,
                        .box_columns = kBoxRowBytes / bytes,
                        .swaps_vectors = true},
                       "weights", name);
}

CUtensorMap map_of(const ConstMatrix& x, const Kernel& kernel, const std::string& name) {
  return tensor_map_of({.data = x.data,
                        .element_bytes = sizeof(float),
                        .rows = x.rows,
                        .columns = x.cols,
                        .stride = x.rows == 1 ? x.cols : x.stride,  // a single row may claim any
                        .box_rows = kernel.tile_m,
                        .box_columns = kernel.tile_k,
                        .swaps_vectors = false},
                       "activations", name);
}

}  // namespace

CudaLinear::CudaLinear(const kernels::CudaBackend& backend, std::span<const WeightView> weights)
    : op_(backend.op),
      name_(backend.name),
      device_(read_device(backend.ordinal)),
      weights_(weights.begin(), weights.end()),
      kernels_(load_kernels(device_, weights[0].dtype)) {
  std::int64_t columns = 0;
  for (std::size_t begin = 0; begin < weights.size(); begin += kMaxOutputs) {
    const std::size_t count = std::min<std::size_t>(kMaxOutputs, weights.size() - begin);
    groups_.push_back({begin, count, columns});
    for (std::size_t i = begin; i < begin + count; ++i) columns += weights[i].n;
  }
  require_columns(name_, columns);
  require(weights[0].k <= kMaxK, "linear '{}': k = {}; the CUDA backend takes at most {}", name_, weights[0].k, kMaxK);
  for (std::size_t i = 0; i < weights.size(); ++i) require_device_memory(name_, i, weights[i].data);
  const DeviceScope scope(device_.ordinal);
  for (const WeightView& weight : weights_) maps_.push_back(device_.major >= 9 ? map_of(weight, name_) : CUtensorMap{});
}

std::size_t CudaLinear::workspace_bytes(std::int64_t max_m) const {
  require_rows(name_, max_m);
  std::size_t most = 0;
  for (const Group& group : groups_) {
    Problem p{.m = max_m, .k = weights_[0].k, .n = {}, .vector_loads = true, .weight_bytes = 0};
    for (std::size_t i = 0; i < group.count; ++i) p.n.push_back(weights_[group.begin + i].n);
    if (p.k > kSegment) most = std::max(most, std::min(partial_bytes(p), kMaxPartialBytes));
  }
  return kWorkspaceHead + most;
}

std::string CudaLinear::implementation() const {
  return fmt::format("cuda {}", device_.architecture);
}

Problem CudaLinear::problem(const kernels::LinearCall& call, const Group& group) const {
  const int bytes = static_cast<int>(dtype_bytes(weights_[0].dtype));
  Problem p{.m = call.x.rows, .k = weights_[0].k, .n = {}, .vector_loads = true, .weight_bytes = bytes};
  p.vector_loads =
      p.k * bytes % 16 == 0 && p.k % 4 == 0 && is_vector_aligned(call.x.data, p.m > 1 ? call.x.stride * 4 : 0);
  for (std::size_t i = group.begin; i < group.begin + group.count; ++i) {
    p.n.push_back(weights_[i].n);
    p.vector_loads = p.vector_loads && is_vector_aligned(weights_[i].data, weights_[i].stride * bytes);
  }
  return p;
}

std::vector<Schedule> CudaLinear::schedules(const kernels::LinearCall& call) const {
  return possible_schedules(kernels_, problem(call, groups_[0]));
}

Schedule CudaLinear::chosen_schedule(const kernels::LinearCall& call) const {
  return choose_schedule(device_, kernels_, problem(call, groups_[0]));
}

std::optional<kernels::Place> CudaLinear::run(const kernels::LinearCall& call) const {
  require_workspace_alignment(name_, call.workspace);
  const DeviceScope device(device_.ordinal);
  for (const Group& group : groups_) launch(call, group, choose_schedule(device_, kernels_, problem(call, group)));
  return std::nullopt;
}

void CudaLinear::run_with(const kernels::LinearCall& call, Schedule schedule) const {
  invariant(groups_.size() == 1, "run_with() takes one launch");
  launch(call, groups_[0], schedule);
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
  p.split = schedule.split;
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
  const dim3 grid(ceil_div(p.m, kernel.tile_m), tiles, p.split ? segments : 1);
  const Placement placement = place(device_, kernel, std::int64_t{grid.x} * grid.y * grid.z, !p.split && segments > 1);
  p.stages = placement.stages;
  if (kernel.reads == Reads::kBoxes) p.x_map = map_of(call.x, kernel, name_);
  check(launch_kernel(kernel.function, {grid, kernel.threads, placement.shared_bytes, kernel.start}, p, stream),
        kernel.name);
  if (p.split) check(launch_fold_ascending(p, stream), "fold_ascending");
}

}  // namespace reprofuse::cuda::fma1

namespace reprofuse::cuda {

std::unique_ptr<kernels::PreparedLinear> prepare_linear_fma1(const kernels::CudaBackend& backend,
                                                             std::span<const WeightView> weights) {
  return std::make_unique<fma1::CudaLinear>(backend, weights);
}

}  // namespace reprofuse::cuda
