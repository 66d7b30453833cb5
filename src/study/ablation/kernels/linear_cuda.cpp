#include <algorithm>
#include <climits>

#include "base/check.hpp"
#include "kernels/cuda/linear/fma1/linear.hpp"
#include "kernels/cuda/runtime/check.hpp"
#include "kernels/cuda/runtime/device.hpp"
#include "study/ablation/kernels/linear.hpp"
#include "study/ablation/kernels/linear_params.hpp"

namespace reprofuse::cuda::ablation {
namespace {

using reprofuse::ablation::Merge;
using reprofuse::ablation::Splits;
using reprofuse::ablation::splits_of;

struct Event {
  cudaEvent_t handle{};
  Event() { check(cudaEventCreate(&handle), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(handle); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
};

const std::vector<Kernel>& all_kernels() {
  static const std::vector<Kernel> kKernels = [] {
    std::vector<Kernel> kernels = ieee_kernels();
    for (const Kernel& kernel : tensor_core_kernels()) kernels.push_back(kernel);
    return kernels;
  }();
  return kKernels;
}

const Kernel& find_kernel(const Variant& variant) {
  for (const Kernel& kernel : all_kernels())
    if (kernel.arithmetic == variant.arithmetic && kernel.tile == variant.tile) return kernel;
  fail(ErrorCode::kUnsupported, "ablation: there is no kernel of this arithmetic for a tile of {} x {} x {}",
       variant.tile.m, variant.tile.n, variant.tile.k);
}

void require_plain(const LinearCall& call) {
  require(call.weight.dtype == DType::kBF16, "ablation: the weights are {}, not bf16", dtype_name(call.weight.dtype));
  require(call.x.stride == call.x.cols && call.weight.stride == call.weight.k && call.y.stride == call.y.cols,
          "ablation: rows with padding");
  require(call.x.cols == call.weight.k && call.x.cols % 4 == 0,
          "ablation: k = {} of x, {} of the weight; a multiple of 4", call.x.cols, call.weight.k);
  require(call.x.rows <= INT_MAX && call.weight.n <= INT_MAX && call.weight.k <= INT_MAX,
          "ablation: {} x {} x {} is too large", call.x.rows, call.weight.n, call.weight.k);
}

}  // namespace

std::size_t partial_bytes(const Variant& variant, std::int64_t m, std::int64_t n, std::int64_t k) {
  const Splits splits = splits_of(variant, k);
  if (splits.count == 1 || variant.merge == Merge::kAtomic) return 0;
  return static_cast<std::size_t>(splits.count * m * n) * sizeof(float);
}

void enqueue_linear(int ordinal, const Variant& variant, const LinearCall& call, void* stream) {
  require_plain(call);
  const DeviceScope device(ordinal);
  const Kernel& kernel = find_kernel(variant);
  const Splits splits = splits_of(variant, call.weight.k);
  Params p{};
  p.x = call.x.data;
  p.w = static_cast<const std::uint16_t*>(call.weight.data);
  p.y = call.y.data;
  p.partials = call.partials;
  p.m = static_cast<int>(call.x.rows);
  p.n = static_cast<int>(call.weight.n);
  p.k = static_cast<int>(call.weight.k);
  p.split_length = static_cast<int>(splits.length);
  p.splits = static_cast<int>(splits.count);
  p.atomic = variant.merge == Merge::kAtomic;
  auto* queue = static_cast<cudaStream_t>(stream);
  if (p.atomic)
    check(cudaMemsetAsync(p.y, 0, static_cast<std::size_t>(call.y.rows * call.y.cols) * sizeof(float), queue),
          "cudaMemsetAsync");
  const dim3 grid(static_cast<unsigned>(ceil_div(p.m, kernel.tile.m)),
                  static_cast<unsigned>(ceil_div(p.n, kernel.tile.n)), static_cast<unsigned>(p.splits));
  void* arguments[] = {&p};
  check(cudaLaunchKernel(kernel.function, grid, dim3(kThreads), arguments, 0, queue), "ablation kernel");
  if (!p.atomic && p.splits > 1) check(launch_fold_splits(p, queue), "fold_splits");
}

std::vector<Tile> tiles() {
  std::vector<Tile> all;
  for (const Kernel& kernel : all_kernels())
    if (kernel.arithmetic == Arithmetic::kIeeeFma) all.push_back(kernel.tile);
  return all;
}

int multiprocessors(int ordinal) {
  return device_attribute(ordinal, cudaDevAttrMultiProcessorCount);
}

double time_once(int ordinal, const std::function<void(void*)>& work) {
  const DeviceScope device(ordinal);
  const Event begin, end;
  work(nullptr);
  check(cudaEventRecord(begin.handle), "cudaEventRecord");
  work(nullptr);
  check(cudaEventRecord(end.handle), "cudaEventRecord");
  check(cudaEventSynchronize(end.handle), "cudaEventSynchronize");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin.handle, end.handle), "cudaEventElapsedTime");
  return milliseconds * 1e-3;
}

struct ShippedSchedules::Layer {
  fma1::CudaLinear linear;
};

ShippedSchedules::ShippedSchedules(int ordinal, const WeightView& weight)
    : layer_(new Layer{fma1::CudaLinear({{.name = "ablation"}, ordinal}, std::span(&weight, 1))}) {}

ShippedSchedules::~ShippedSchedules() = default;

std::size_t ShippedSchedules::workspace_bytes(std::int64_t m) const {
  return layer_->linear.workspace_bytes(m);
}

std::vector<std::string> ShippedSchedules::names(const kernels::LinearCall& call) const {
  std::vector<std::string> names;
  for (const fma1::Schedule& schedule : layer_->linear.schedules(call)) {
    const auto& kernel = layer_->linear.kernel_table()[static_cast<std::size_t>(schedule.kernel)];
    names.push_back(fmt::format("{}{}", kernel.name, schedule.split_k ? ", split" : ""));
  }
  return names;
}

void ShippedSchedules::run(const kernels::LinearCall& call, std::size_t index) const {
  layer_->linear.run_with(call, layer_->linear.schedules(call).at(index));
}

}  // namespace reprofuse::cuda::ablation
