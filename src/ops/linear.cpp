#include "reprofuse/linear.hpp"

#include <utility>
#include <vector>

#include "base/check.hpp"
#include "numerics/fp_environment.hpp"
#include "ops/context_state.hpp"

namespace reprofuse {

struct LinearLayer::Impl {
  Context context;
  std::string name;
  std::int64_t k;
  std::vector<std::int64_t> n;  // of each output
  unsigned op = 0;
  std::unique_ptr<kernels::PreparedLinear> prepared;
};

namespace {

void check_weights(std::span<const WeightView> weights, const std::string& name) {
  require(!weights.empty(), "linear '{}': the list of weights is empty", name);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const WeightView& w = weights[i];
    require(w.data != nullptr, "linear '{}' weight {}: the data pointer is null", name, i);
    require(w.n > 0 && w.k > 0, "linear '{}' weight {}: shape {} x {} must be positive", name, i, w.n, w.k);
    require(w.stride >= w.k, "linear '{}' weight {}: row stride {} is less than k = {}", name, i, w.stride, w.k);
    require(w.k == weights[0].k, "linear '{}' weight {}: k = {} differs from the first weight's {}", name, i, w.k,
            weights[0].k);
    require(w.dtype == weights[0].dtype, "linear '{}' weight {}: dtype {} differs from the first weight's {}", name, i,
            dtype_name(w.dtype), dtype_name(weights[0].dtype));
    require(reinterpret_cast<std::uintptr_t>(w.data) % dtype_bytes(w.dtype) == 0,
            "linear '{}' weight {}: the data pointer is not aligned to a {} element", name, i, dtype_name(w.dtype));
  }
}

void check_call(ConstMatrix x, std::span<const LinearOutput> outputs, std::int64_t k,
                const std::vector<std::int64_t>& n, const std::string& name) {
  require(x.rows >= 0, "linear '{}': x has {} rows", name, x.rows);
  require(x.cols == k, "linear '{}': x has {} columns, the weights have k = {}", name, x.cols, k);
  require(x.rows == 0 || x.data != nullptr, "linear '{}': the x pointer is null", name);
  require(x.rows <= 1 || x.stride >= x.cols, "linear '{}': x has row stride {}, less than its {} columns", name,
          x.stride, x.cols);
  require(outputs.size() == n.size(), "linear '{}': {} outputs for {} weights", name, outputs.size(), n.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Matrix& y = outputs[i].y;
    require(y.rows == x.rows && y.cols == n[i], "linear '{}' output {}: y is {} x {}, it must be {} x {}", name, i,
            y.rows, y.cols, x.rows, n[i]);
    require(y.rows == 0 || y.data != nullptr, "linear '{}' output {}: the y pointer is null", name, i);
    require(y.rows <= 1 || y.stride >= y.cols, "linear '{}' output {}: y has row stride {}, less than its {} columns",
            name, i, y.stride, y.cols);
  }
}

std::unique_ptr<kernels::PreparedLinear> prepare(const ContextState& state, std::span<const WeightView> weights,
                                                 unsigned op, const std::string& name) {
  const FpEnvironment pinned;
  if (state.device == DeviceKind::kCuda)
    return state.contract->prepare_cuda({.ordinal = state.ordinal, .op = op}, weights);
  return state.contract->prepare_cpu({.isa = state.isa, .pool = state.pool.get(), .name = name}, weights);
}

}  // namespace

LinearLayer::LinearLayer(const Context& context, std::span<const WeightView> weights, std::string name) {
  check_weights(weights, name);
  std::vector<std::int64_t> n;
  for (const WeightView& weight : weights) n.push_back(weight.n);
  const unsigned op = context.state().ops.add(name, n);
  auto prepared = prepare(context.state(), weights, op, name);
  impl_ = std::make_unique<Impl>(Impl{context, std::move(name), weights[0].k, std::move(n), op, std::move(prepared)});
}

LinearLayer::~LinearLayer() = default;
LinearLayer::LinearLayer(LinearLayer&&) noexcept = default;
LinearLayer& LinearLayer::operator=(LinearLayer&&) noexcept = default;

std::size_t LinearLayer::workspace_bytes(std::int64_t max_m) const {
  require(max_m >= 0, "linear '{}': max_m = {} is negative", impl_->name, max_m);
  return impl_->prepared->workspace_bytes(max_m);
}

std::string LinearLayer::implementation() const {
  return impl_->prepared->implementation();
}

void LinearLayer::run(ConstMatrix x, std::span<const LinearOutput> outputs, void* workspace,
                      std::size_t workspace_bytes, void* stream) const {
  check_call(x, outputs, impl_->k, impl_->n, impl_->name);
  if (x.rows == 0) return;
  const std::size_t needed = impl_->prepared->workspace_bytes(x.rows);
  require(workspace_bytes >= needed && (workspace != nullptr || needed == 0),
          "linear '{}': a workspace of {} bytes is too small for m = {}; {} are needed", impl_->name, workspace_bytes,
          x.rows, needed);
  const FpEnvironment pinned;
  const auto non_finite = impl_->prepared->run({.x = x, .outputs = outputs, .workspace = workspace, .stream = stream});
  if (non_finite) impl_->context.state().ops.fail_non_finite(impl_->op, *non_finite);
}

}  // namespace reprofuse
