#include "ops/op_registry.hpp"

#include "base/check.hpp"
#include "ops/context_state.hpp"

namespace reprofuse {

unsigned OpRegistry::add(std::string name, std::vector<std::int64_t> columns, OpKind kind) {
  std::lock_guard lock(mutex_);
  if (free_.empty()) {
    require(ops_.size() < kMaxOps, "a context holds at most {} ops at a time", kMaxOps);
    ops_.emplace_back();
    free_.insert(static_cast<unsigned>(ops_.size() - 1));
  }
  const unsigned op = *free_.begin();
  ops_[op] = {std::move(name), std::move(columns), kind};
  taken_.insert(free_.extract(op));
  return op;
}

void OpRegistry::remove(unsigned op) noexcept {
  std::lock_guard lock(mutex_);
  free_.insert(taken_.extract(op));
}

void OpRegistry::fail_non_finite(unsigned op, kernels::NonFinite place) const {
  std::lock_guard lock(mutex_);
  invariant(op < ops_.size(), "a non-finite result names an op that does not exist");
  reprofuse::fail_non_finite(ops_[op].name, ops_[op].columns, place, ops_[op].kind);
}

void fail_non_finite(const std::string& name, const std::vector<std::int64_t>& columns, kernels::NonFinite place,
                     OpKind kind) {
  const auto fail_with = [&](const std::string& message) { throw NonFiniteError(name, place, message); };
  if (kind == OpKind::kNorm)
    fail_with(fmt::format("norm '{}' row {}: the sum of squares is not finite", name, place.row));
  if (kind == OpKind::kAttention)
    fail_with(fmt::format("attention '{}' row {} head {}: a score is not finite", name, place.row, place.column));
  std::size_t output = 0;
  std::int64_t column = place.column;
  while (output + 1 < columns.size() && column >= columns[output]) column -= columns[output++];
  const std::string which = columns.size() > 1 ? fmt::format(" output {}", output) : "";
  throw NonFiniteError(
      name, place,
      fmt::format("linear '{}'{} row {} column {}: the result is not finite", name, which, place.row, column));
}

RegisteredOp::RegisteredOp(const Context& context, std::string name, std::vector<std::int64_t> columns, OpKind kind)
    : context_(context), index_(context.state().ops.add(std::move(name), std::move(columns), kind)) {}

RegisteredOp::~RegisteredOp() {
  if (context_) context_->state().ops.remove(index_);
}

std::optional<RegisteredOp> register_op(const Context& context, const std::string& name,
                                        const std::vector<std::int64_t>& columns, OpKind kind) {
  if (!context.state().backend->capabilities().asynchronous) return std::nullopt;
  return std::optional<RegisteredOp>(std::in_place, context, name, columns, kind);
}

}  // namespace reprofuse
