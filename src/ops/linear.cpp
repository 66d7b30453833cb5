#include "reprofuse/linear.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/fp_environment.hpp"
#include "ops/context_state.hpp"
#include "ops/linear_checks.hpp"

namespace reprofuse {

struct LinearLayer::Impl {
  Context context;
  std::string name;
  std::int64_t k;
  std::vector<std::int64_t> n;  // of each output
  std::optional<OpEntry> op;
  std::unique_ptr<kernels::PreparedLinear> prepared;
};

LinearLayer::LinearLayer(const Context& context, std::span<const WeightView> weights, std::string name) {
  check_weights(weights, name);
  std::vector<std::int64_t> n;
  for (const WeightView& weight : weights) n.push_back(weight.n);
  std::optional<OpEntry> op = enter_op(context, name, n);
  const ContextState& state = context.state();
  const FpEnvironment pinned;
  auto prepared =
      state.backend->prepare_linear(*state.contract->linear, {.name = name, .op = op ? op->index() : 0}, weights);
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

void LinearLayer::run(ConstMatrix x, std::span<const LinearOutput> outputs, void* workspace,
                      std::size_t workspace_bytes, void* stream) const {
  check_call(x, outputs, impl_->k, impl_->n, impl_->name);
  if (x.rows == 0) return;
  const std::size_t needed = impl_->prepared->workspace_bytes(x.rows);
  require(needed == 0 || workspace != nullptr, "linear '{}': the workspace pointer is null", impl_->name);
  require(workspace_bytes >= needed, "linear '{}': a workspace of {} bytes is too small for m = {}; {} are needed",
          impl_->name, workspace_bytes, x.rows, needed);
  const FpEnvironment pinned;
  const auto non_finite = impl_->prepared->run({.x = x, .outputs = outputs, .workspace = workspace, .stream = stream});
  if (non_finite) fail_non_finite(impl_->name, impl_->n, *non_finite);
}

}  // namespace reprofuse
