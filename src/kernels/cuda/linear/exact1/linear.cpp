#include "kernels/cuda/linear/exact1/linear.hpp"

#include <algorithm>

#include "base/math.hpp"
#include "kernels/cuda/runtime/check.hpp"
#include "kernels/cuda/runtime/launch.hpp"
#include "kernels/cuda/runtime/memory.hpp"

namespace reprofuse::cuda::exact1 {
namespace {

// A multiple of every kernel's tile_m.
constexpr std::int64_t kMaxTileM = 64;

// The workspace: record, rows, digits, partials.
std::size_t rows_bytes(std::int64_t m) {
  return round_up<std::size_t>(static_cast<std::size_t>(m) * sizeof(Row), 256);
}

std::size_t digits_bytes(std::int64_t m, std::int64_t k, std::int64_t tile_m) {
  static_assert(kDigits * kMaxRows * kMaxTerms < std::int64_t{1} << 62);
  return static_cast<std::size_t>(kDigits * round_up<std::int64_t>(m, tile_m) * round_up<std::int64_t>(k, kTileK));
}

}  // namespace

void CudaLinear::Release::operator()(void* memory) const {
  release(memory);
}

CudaLinear::CudaLinear(const kernels::CudaTarget& target, std::span<const WeightView> weights)
    : ScheduledLinear(target, weights) {
  kernels_ = load_kernels(device_, weights[0].dtype);
  require(weights[0].k <= kMaxTerms, "linear '{}': k = {}; exact-1 takes at most {} terms in a sum", name_,
          weights[0].k, kMaxTerms);
  require_weights_on_device();
  for (const Kernel& kernel : kernels_) invariant(kMaxTileM % kernel.tile_m == 0, "a tile of unforeseen height");
  const DeviceScope scope(device_.ordinal);
  find_exponents();
  if (device_.major == 9 && weights[0].dtype != DType::kF32) make_tensor_maps();  // for wgmma, of 16-bit weights
}

// Reads the weights, so it waits for whatever may still be writing them.
void CudaLinear::find_exponents() {
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  std::int64_t rows = 0;
  for (const WeightView& weight : weights_) {
    first_exponent_.push_back(rows);
    rows += weight.n;
  }
  exponents_.reset(static_cast<std::uint8_t*>(allocate(device_.ordinal, static_cast<std::size_t>(rows))));
  const std::unique_ptr<int, Release> first_bad(
      static_cast<int*>(allocate(device_.ordinal, weights_.size() * sizeof(int))));
  check(cudaMemset(first_bad.get(), 0x7f, weights_.size() * sizeof(int)), "cudaMemset");
  for (std::size_t i = 0; i < weights_.size(); ++i)
    check(launch_weight_exponents(weights_[i], exponents_.get() + first_exponent_[i], first_bad.get() + i, nullptr),
          "weight_exponents");
  std::vector<int> bad(weights_.size());
  copy_to_host(bad.data(), first_bad.get(), bad.size() * sizeof(int));
  for (std::size_t i = 0; i < bad.size(); ++i)
    if (bad[i] < weights_[i].n)
      fail(ErrorCode::kNonFinite, "linear '{}' weight {} row {}: a weight is not finite", name_, i, bad[i]);
}

std::size_t CudaLinear::workspace_bytes(std::int64_t max_m) const {
  require(max_m <= kMaxGridYZ * kMaxTileM, "linear '{}': {} rows; exact-1 on CUDA takes at most {} in one call", name_,
          max_m, kMaxGridYZ * kMaxTileM);
  const std::size_t partials = max_partial_bytes(max_m, [](const Problem& p) { return partial_bytes(p, kMaxSplits); });
  return kWorkspaceHead + rows_bytes(max_m) + digits_bytes(max_m, weights_[0].k, kMaxTileM) + partials;
}

Problem CudaLinear::problem(const kernels::LinearCall& call, const Group& group) const {
  return problem_of(group, call.x.rows, weights_[0].k % 8 == 0);
}

void CudaLinear::run_group(const kernels::LinearCall& call, const Group& group) const {
  Problem part = problem(call, group);
  part.m = rows_at_once(kernels_, part);
  for (std::int64_t row = 0; row < call.x.rows; row += part.m) {
    part.m = std::min(part.m, call.x.rows - row);
    launch_rows(call, group, {row, part.m}, choose_schedule(device_, kernels_, part));
  }
}

void CudaLinear::launch(const kernels::LinearCall& call, const Group& group, Schedule schedule) const {
  launch_rows(call, group, {0, call.x.rows}, schedule);
}

Params CudaLinear::params(const kernels::LinearCall& call, const Group& group, Rows rows, Schedule schedule) const {
  const Kernel& kernel = kernels_[static_cast<std::size_t>(schedule.kernel)];
  Params p{};
  p.x = call.x.data + rows.first * call.x.stride;
  p.x_stride = call.x.stride;
  p.x_aligned = is_vector_aligned(p.x, rows.count > 1 ? call.x.stride * 4 : 0);
  p.m = static_cast<int>(rows.count);
  p.record_row = static_cast<int>(rows.first);
  p.k = static_cast<int>(call.x.cols);
  p.k_tiles = ceil_div(p.k, kTileK);
  p.tile_m = kernel.tile_m;
  p.row_tiles = ceil_div(p.m, kernel.tile_m);
  p.count = static_cast<int>(group.count);
  p.record_column = static_cast<int>(group.first_column);
  p.op = op_;
  add_outputs(call, group, rows, kernel.tile_n, p);

  auto* memory = static_cast<unsigned char*>(call.workspace);
  p.record = static_cast<Record*>(call.workspace);
  p.rows = reinterpret_cast<Row*>(memory + kWorkspaceHead);
  p.digits = memory + kWorkspaceHead + rows_bytes(p.m);
  p.splits = schedule.splits;
  p.partials = reinterpret_cast<long long*>(p.digits + digits_bytes(p.m, p.k, kernel.tile_m));
  return p;
}

void CudaLinear::add_outputs(const kernels::LinearCall& call, const Group& group, Rows rows, int tile_n,
                             Params& p) const {
  for (std::size_t i = 0; i < group.count; ++i) {
    const WeightView& weight = weights_[group.begin + i];
    const LinearOutput& output = call.outputs[group.begin + i];
    const int n = static_cast<int>(weight.n);
    p.outputs[i] = {.map = maps_[group.begin + i],
                    .w = weight.data,
                    .exponents = exponents_.get() + first_exponent_[group.begin + i],
                    .bias = output.bias,
                    .y = output.y.data + rows.first * output.y.stride,
                    .w_stride = weight.stride,
                    .y_stride = output.y.stride,
                    .n = n,
                    .first_tile = p.column_tiles,
                    .first_column = p.columns};
    p.column_tiles += ceil_div(n, tile_n);
    p.columns += n;
  }
}

void CudaLinear::launch_rows(const kernels::LinearCall& call, const Group& group, Rows rows, Schedule schedule) const {
  const Kernel& kernel = kernels_[static_cast<std::size_t>(schedule.kernel)];
  const Params p = params(call, group, rows, schedule);
  const auto stream = static_cast<cudaStream_t>(call.stream);
  check(launch_snap_activations(p, stream), "snap_activations");
  GridShape shape{.grid = dim3(p.splits, p.row_tiles, p.column_tiles),
                  .threads = kernel.threads,
                  .shared_bytes = kernel.shared_bytes};
  if (kernel.exchange == Exchange::kCluster) shape.cluster = p.splits;
  if (kernel.exchange == Exchange::kNone)
    shape.grid = dim3(std::min(p.row_tiles * p.column_tiles, device_.sm_count * kernel.ctas_per_sm));
  check(launch_kernel(kernel.function, shape, p, stream), kernel.name);
  if (kernel.exchange == Exchange::kPartials && p.splits > 1) check(launch_add_partials(p, stream), "add_partials");
}

}  // namespace reprofuse::cuda::exact1

namespace reprofuse::cuda {

std::unique_ptr<kernels::PreparedLinear> prepare_linear_exact1(const kernels::CudaTarget& target,
                                                               std::span<const WeightView> weights) {
  return std::make_unique<exact1::CudaLinear>(target, weights);
}

}  // namespace reprofuse::cuda
