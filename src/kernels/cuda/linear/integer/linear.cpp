#include "kernels/cuda/linear/integer/linear.hpp"

#include <algorithm>

#include "base/math.hpp"
#include "kernels/cuda/elementwise/elementwise.hpp"
#include "kernels/cuda/runtime/check.hpp"
#include "kernels/cuda/runtime/device.hpp"
#include "kernels/cuda/runtime/launch.hpp"

namespace reprofuse::cuda::integer {
void CudaLinear::Release::operator()(void* memory) const {
  release(memory);
}

CudaLinear::CudaLinear(const ContractKernels& contract, const CudaLayerOptions& options,
                       std::span<const WeightView> weights)
    : ScheduledLinear(options, weights), contract_(contract) {
  const DeviceScope scope(device_.ordinal);
  const bool keep = options.use == WeightUse::kTake && can_keep_digits();
  find_kernels(keep);
  require(weights[0].k <= contract.max_terms, "linear '{}': k = {}; {} takes at most {} terms in a sum", name_,
          weights[0].k, contract.name, contract.max_terms);
  find_row_kernels();
  require_weights_on_device();
  find_exponents();
  if (keep)
    keep_digits();
  else if (device_.major == 9 && weights[0].dtype != DType::kF32)
    make_tensor_maps();  // for wgmma, of 16-bit weights
}

// Digits take the place of 16-bit weights byte for byte where there are whole tiles of them.
bool CudaLinear::can_keep_digits() const {
  return contract_.keeps_digits && std::all_of(weights_.begin(), weights_.end(), [](const WeightView& weight) {
           return dtype_bytes(weight.dtype) == 2 && weight.n % kPreparedRows == 0 && weight.k % kTileK == 0 &&
                  weight.stride == weight.k && is_vector_aligned(weight.data, weight.stride * 2);
         });
}

void CudaLinear::find_kernels(bool keep) {
  kernels_ = contract_.mma_kernels(weights_[0].dtype, keep);
  if (device_.major == 9)
    for (const Kernel& kernel : contract_.wgmma_kernels(weights_[0].dtype, keep)) kernels_.push_back(kernel);
  find_occupancy(device_, kernels_);
}

// Looked up now, so that no run has to.
void CudaLinear::find_row_kernels() {
  const int k = static_cast<int>(weights_[0].k);
  snap_ = contract_.rows.snap(k);
  norm_ = contract_.rows.norm(k);
  silu_ = contract_.rows.silu(k);
  KernelFacts facts;
  for (const void* function : {contract_.rows.weight_exponents, contract_.rows.prepare_weights(weights_[0].dtype),
                               contract_.rows.add_partials, snap_.function, norm_.function})
    if (function != nullptr) check(look_up_kernel(function, facts), "looking up a kernel of a linear layer");
  if (silu_.function == nullptr) return;
  check(look_up_kernel(silu_.function, facts), "looking up a kernel of a linear layer");
  if (silu_.ctas > 1 && (device_.major < 9 || !facts.for_sm90)) silu_ = {};  // there are no clusters
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
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const WeightView& weight = weights_[i];
    const WeightRows params{.w = weight.data,
                            .stride = weight.stride,
                            .n = static_cast<int>(weight.n),
                            .k = static_cast<int>(weight.k),
                            .dtype = weight.dtype,
                            .exponents = exponents_.get() + first_exponent_[i],
                            .first_bad = first_bad.get() + i};
    const GridShape shape{
        .grid = dim3(static_cast<unsigned>(weight.n)), .threads = kRowThreads, .start = Start::kInTurn};
    check(launch_kernel(contract_.rows.weight_exponents, shape, params, nullptr), "weight_exponents");
  }
  std::vector<int> bad(weights_.size());
  copy_to_host(bad.data(), first_bad.get(), bad.size() * sizeof(int));
  for (std::size_t i = 0; i < bad.size(); ++i)
    if (bad[i] < weights_[i].n)
      fail(ErrorCode::kNonFinite, "linear '{}' weight {} row {}: a weight is not finite", name_, i, bad[i]);
}

// Some tiles at a time become digits elsewhere, and come back.
void CudaLinear::keep_digits() {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const WeightView& weight = weights_[i];
    Params p{};
    p.k = static_cast<int>(weight.k);
    p.k_tiles = p.k / kTileK;
    p.tile_n = kPreparedRows;
    p.count = 1;
    p.outputs[0].w = weight.data;
    p.outputs[0].exponents = exponents_.get() + first_exponent_[i];
    p.outputs[0].w_stride = weight.stride;
    p.outputs[0].n = static_cast<int>(weight.n);
    const int tiles = p.outputs[0].n / kPreparedRows;
    const int at_a_time = static_cast<int>(prepared_at_a_time(tiles, weight.k));
    const std::size_t tile_bytes = static_cast<std::size_t>(p.k_tiles) * kPreparedBytes;
    const std::unique_ptr<std::uint8_t, Release> digits(
        static_cast<std::uint8_t*>(allocate(device_.ordinal, static_cast<std::size_t>(at_a_time) * tile_bytes)));
    p.weights = digits.get();
    auto* to = static_cast<std::uint8_t*>(const_cast<void*>(weight.data));
    for (; p.first_column_tile < tiles; p.first_column_tile += at_a_time) {
      p.column_tiles = std::min(at_a_time, tiles - p.first_column_tile);
      prepare_weights(p, nullptr);
      check(cudaMemcpyAsync(to + static_cast<std::size_t>(p.first_column_tile) * tile_bytes, p.weights,
                            static_cast<std::size_t>(p.column_tiles) * tile_bytes, cudaMemcpyDeviceToDevice, nullptr),
            "cudaMemcpyAsync");
    }
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
}

// The workspace: record, rows, digits, partials.
std::size_t CudaLinear::rows_bytes(std::int64_t m) const {
  return round_up<std::size_t>(static_cast<std::size_t>(m) * contract_.row_bytes, 256);
}

std::size_t CudaLinear::digits_bytes(const Kernel& kernel, std::int64_t m) const {
  const std::int64_t k_tiles = ceil_div<std::int64_t>(weights_[0].k, kTileK);
  const std::int64_t bytes = ceil_div<std::int64_t>(m, kernel.tile_m) * k_tiles * contract_.tile_bytes(kernel.tile_m);
  return static_cast<std::size_t>(round_up<std::int64_t>(bytes, 256));
}

std::int64_t CudaLinear::prepared_tile_bytes(const Kernel& kernel) const {
  return prepared_bytes(contract_.digits, kernel.tile_n);
}

// The most that a launch prepares at a time.
std::size_t CudaLinear::max_prepared_bytes() const {
  std::int64_t max = 0;
  for (const Kernel& kernel : kernels_)
    for (const Group& group : groups_) {
      if (!kernel.takes_digits || kernel.digits_in_place) continue;
      const Problem all = problem_of(group, 1, true);
      const std::int64_t bytes = prepared_tile_bytes(kernel);
      const std::int64_t tiles = prepared_at_a_time(column_tiles_of(kernel, all.n), all.k, bytes);
      max = std::max(max, tiles * ceil_div<std::int64_t>(all.k, kTileK) * bytes);
    }
  return static_cast<std::size_t>(max);
}

std::size_t CudaLinear::workspace_bytes(std::int64_t max_m) const {
  require_layer_rows(name_, max_m);
  std::size_t partials = max_partial_bytes(max_m, [](const Problem& p) { return partial_bytes(p, kMaxSplits); });
  if (max_m >= kMinPreparedRows) partials = std::max(partials, max_prepared_bytes());
  std::size_t digits = 0;
  for (const Kernel& kernel : kernels_) digits = std::max(digits, digits_bytes(kernel, max_m));
  return kWorkspaceHead + rows_bytes(max_m) + digits + partials;
}

Problem CudaLinear::problem(const kernels::LinearCall& call, const Group& group) const {
  return problem_of(group, call.x.rows, weights_[0].k % 8 == 0);
}

void CudaLinear::run_group(const kernels::LinearCall& call, const Group& group) const {
  Problem one_launch = problem(call, group);
  one_launch.m = rows_at_once(kernels_, one_launch);
  for (std::int64_t row = 0; row < call.x.rows; row += one_launch.m) {
    one_launch.m = std::min(one_launch.m, call.x.rows - row);
    launch_rows(call, group, {row, one_launch.m}, choose_schedule(device_, kernels_, one_launch));
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
  p.tile_n = kernel.tile_n;
  p.digits_in_place = kernel.digits_in_place;
  p.row_tiles = ceil_div(p.m, kernel.tile_m);
  p.count = static_cast<int>(group.count);
  p.record_column = static_cast<int>(group.first_column);
  p.op = op_;
  add_outputs(call, group, rows, kernel.tile_n, p);

  auto* memory = static_cast<unsigned char*>(call.workspace);
  p.record = static_cast<Record*>(call.workspace);
  p.rows = memory + kWorkspaceHead;
  p.digits = memory + kWorkspaceHead + rows_bytes(p.m);
  p.splits = schedule.splits;
  p.partials = reinterpret_cast<long long*>(p.digits + digits_bytes(kernel, p.m));
  p.weights = p.digits + digits_bytes(kernel, p.m);
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
  const Params p = params(call, group, rows, schedule);
  const auto stream = static_cast<cudaStream_t>(call.stream);
  snap_activations(p, stream);
  launch_products(kernels_[static_cast<std::size_t>(schedule.kernel)], p, stream);
}

// All rows in one launch: a norm that adds to its x cannot run twice.
bool CudaLinear::run_fused(const kernels::Producer& producer, const kernels::LinearCall& call) const {
  const RowKernel& kernel = std::holds_alternative<kernels::RmsNormCall>(producer.call) ? norm_ : silu_;
  if (kernel.function == nullptr || groups_.size() > 1) return false;
  require_workspace_alignment(name_, call.workspace);
  const DeviceScope device(device_.ordinal);
  const Problem all = problem(call, groups_[0]);
  if (rows_at_once(kernels_, all) < all.m) return false;
  const Schedule schedule = choose_schedule(device_, kernels_, all);
  const Params p = params(call, groups_[0], {0, all.m}, schedule);
  launch_producer(producer, call, p);
  launch_products(kernels_[static_cast<std::size_t>(schedule.kernel)], p, static_cast<cudaStream_t>(call.stream));
  return true;
}

void CudaLinear::launch_producer(const kernels::Producer& producer, const kernels::LinearCall& call,
                                 const Params& p) const {
  const DigitRows to(p);
  const auto shape = [&](const RowKernel& kernel) {
    return GridShape{.grid = dim3(static_cast<unsigned>(to.padded_rows() * kernel.ctas)),
                     .threads = kernel.threads,
                     .cluster = kernel.ctas};
  };
  if (const auto* norm = std::get_if<kernels::RmsNormCall>(&producer.call)) {
    const DeviceSite site{{.op = producer.op, .workspace = call.workspace, .stream = call.stream}, device_.ordinal};
    NormRowsParams params{norm_params(site, *norm), to};
    if (!producer.keeps_x) params.norm.y = nullptr;
    check(launch_kernel(norm_.function, shape(norm_), params, call.stream), "norm_rows");
  } else {
    SiluRowsParams params{silu_gate_params(std::get<kernels::SiluGateCall>(producer.call)), to};
    if (!producer.keeps_x) params.silu.y = nullptr;
    check(launch_kernel(silu_.function, shape(silu_), params, call.stream), "silu_rows");
  }
}

void CudaLinear::launch_products(const Kernel& kernel, const Params& all, cudaStream_t stream) const {
  if (!kernel.takes_digits || kernel.digits_in_place) return launch_tiles(kernel, all, stream);
  const int tiles = all.column_tiles;
  const int at_a_time = static_cast<int>(prepared_at_a_time(tiles, all.k, prepared_tile_bytes(kernel)));
  Params p = all;
  for (; p.first_column_tile < tiles; p.first_column_tile += at_a_time) {
    p.column_tiles = std::min(at_a_time, tiles - p.first_column_tile);
    prepare_weights(p, stream);
    launch_tiles(kernel, p, stream);
  }
}

void CudaLinear::launch_tiles(const Kernel& kernel, const Params& p, cudaStream_t stream) const {
  GridShape shape{.grid = dim3(p.splits, p.row_tiles, p.column_tiles),
                  .threads = kernel.threads,
                  .shared_bytes = kernel.shared_bytes};
  if (kernel.split_k == SplitK::kCluster) shape.cluster = p.splits;
  if (kernel.mma_sync) shape.grid = dim3(p.row_tiles * p.column_tiles, p.splits);
  if (kernel.split_k == SplitK::kNone)
    shape.grid = dim3(std::min(p.row_tiles * p.column_tiles, device_.sm_count * kernel.ctas_per_sm));
  check(launch_kernel(kernel.function, shape, p, stream), kernel.name);
  if (kernel.mma_sync && p.splits > 1) add_partials(p, stream);
}

void CudaLinear::snap_activations(const Params& p, cudaStream_t stream) const {
  const dim3 grid(static_cast<unsigned>(DigitRows(p).padded_rows()));
  check(launch_kernel(snap_.function, {grid, snap_.threads}, p, stream), "snap_activations");
}

void CudaLinear::prepare_weights(const Params& p, cudaStream_t stream) const {
  const dim3 grid(static_cast<unsigned>(p.column_tiles * (p.tile_n / kPrepareRows)),
                  static_cast<unsigned>(ceil_div(p.k_tiles, kPrepareWarps)));
  check(launch_kernel(contract_.rows.prepare_weights(weights_[0].dtype), {grid, kPrepareThreads}, p, stream),
        "prepare_weights");
}

void CudaLinear::add_partials(const Params& p, cudaStream_t stream) const {
  const dim3 grid(static_cast<unsigned>(ceil_div(p.columns, kRowThreads)), static_cast<unsigned>(p.m));
  check(launch_kernel(contract_.rows.add_partials, {grid, kRowThreads}, p, stream), "add_partials");
}

}  // namespace reprofuse::cuda::integer
