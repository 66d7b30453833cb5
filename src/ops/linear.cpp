// Linear layers, with the checks of their operands.
#include "reprofuse/linear.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/fp_environment.hpp"
#include "ops/buffer.hpp"
#include "ops/context_state.hpp"
#include "ops/op_checks.hpp"
#include "ops/op_registry.hpp"
#include "ops/transformer_ops.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse {
namespace {

void check_x(ConstMatrix x, std::int64_t k, const std::string& name) {
  require(x.rows >= 0, "linear '{}': x has {} rows", name, x.rows);
  require(x.cols == k, "linear '{}': x has {} columns, the weights have k = {}", name, x.cols, k);
  const std::string problem = layout_problem("x", x.data, x.rows, x.cols, x.stride);
  require(problem.empty(), "linear '{}': {}", name, problem);
}

void check_output(const LinearOutput& output, std::size_t i, std::int64_t rows, std::int64_t n,
                  const std::string& name) {
  const Matrix& y = output.y;
  require(y.rows == rows && y.cols == n, "linear '{}' output {}: y is {} x {}, it must be {} x {}", name, i, y.rows,
          y.cols, rows, n);
  const std::string problem = layout_problem("y", y.data, y.rows, y.cols, y.stride);
  require(problem.empty(), "linear '{}' output {}: {}", name, i, problem);
  require(is_aligned(output.bias, sizeof(float)), "linear '{}' output {}: the bias pointer is not aligned to a float",
          name, i);
}

// Tasks write y while others still read, so an overlap would make the bits depend on their order.
void check_overlap(ConstMatrix x, std::span<const LinearOutput> outputs, const std::string& name) {
  const Region read = region(x.data, x.rows, x.cols, x.stride);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Matrix& y = outputs[i].y;
    const Region written = region(y.data, y.rows, y.cols, y.stride);
    require(!overlap(written, read), "linear '{}' output {}: y overlaps x", name, i);
    for (std::size_t j = 0; j < outputs.size(); ++j) {
      const auto& [other, bias] = outputs[j];
      require(bias == nullptr || !overlap(written, region(bias, 1, other.cols, 0)),
              "linear '{}' output {}: y overlaps the bias of output {}", name, i, j);
      require(j >= i || !overlap(written, region(other.data, other.rows, other.cols, other.stride)),
              "linear '{}' output {}: y overlaps that of output {}", name, i, j);
    }
  }
}

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
    require(is_aligned(w.data, dtype_bytes(w.dtype)),
            "linear '{}' weight {}: the data pointer is not aligned to a {} element", name, i, dtype_name(w.dtype));
    require(checked_product(w.n, w.n > 1 ? w.stride : w.k, dtype_bytes(w.dtype)).has_value(),
            "linear '{}' weight {}: {} rows with row stride {} are larger than any memory", name, i, w.n, w.stride);
  }
}

// n: columns of each output.
void check_call(ConstMatrix x, std::span<const LinearOutput> outputs, std::int64_t k,
                const std::vector<std::int64_t>& n, const std::string& name) {
  check_x(x, k, name);
  require(outputs.size() == n.size(), "linear '{}': {} outputs for {} weights", name, outputs.size(), n.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) check_output(outputs[i], i, x.rows, n[i], name);
  if (x.rows > 0) check_overlap(x, outputs, name);
}

}  // namespace

struct LinearLayer::Impl {
  Context context;
  std::string name;
  std::int64_t k;
  std::vector<std::int64_t> n;  // of each output
  std::optional<RegisteredOp> op;
  std::unique_ptr<kernels::PreparedLinear> prepared;

  void check(ConstMatrix x, std::span<const LinearOutput> outputs, WorkspaceView workspace) const {
    check_call(x, outputs, k, n, name);
    if (x.rows == 0) return;
    const std::size_t needed = prepared->workspace_bytes(x.rows);
    require(needed == 0 || workspace.data != nullptr, "linear '{}': the workspace pointer is null", name);
    require(workspace.bytes >= needed, "linear '{}': a workspace of {} bytes is too small for m = {}; {} are needed",
            name, workspace.bytes, x.rows, needed);
  }
};

LinearLayer::LinearLayer(const Context& context, std::span<const WeightView> weights, std::string name, WeightUse use) {
  check_weights(weights, name);
  std::vector<std::int64_t> n;
  for (const WeightView& weight : weights) n.push_back(weight.n);
  std::optional<RegisteredOp> op = register_op(context, name, n);
  const ContextState& state = context.state();
  const FpEnvironment pinned;
  auto prepared = state.backend->prepare_linear(*state.numerics->linear,
                                                {.name = name, .op = op ? op->index() : 0, .use = use}, weights);
  impl_ = std::make_unique<Impl>(
      Impl{context, std::move(name), weights[0].k, std::move(n), std::move(op), std::move(prepared)});
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

void LinearLayer::run(ConstMatrix x, std::span<const LinearOutput> outputs, WorkspaceView workspace,
                      void* stream) const {
  impl_->check(x, outputs, workspace);
  if (x.rows == 0) return;
  const FpEnvironment pinned;
  const auto non_finite =
      impl_->prepared->run({.x = x, .outputs = outputs, .workspace = workspace.data, .stream = stream});
  if (non_finite) fail_non_finite(impl_->name, impl_->n, *non_finite);
}

bool FusedLinear::run(const OpScope& scope, const kernels::Producer& producer, const LinearLayer& layer,
                      std::span<const LinearOutput> outputs) {
  const ConstMatrix x = read_only(producer.x());
  layer.impl_->check(x, outputs, scope.workspace);
  const FpEnvironment pinned;
  return x.rows > 0 &&
         layer.impl_->prepared->run_fused(
             producer, {.x = x, .outputs = outputs, .workspace = scope.workspace.data, .stream = scope.stream});
}

}  // namespace reprofuse
