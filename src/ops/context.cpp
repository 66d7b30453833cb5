#include "reprofuse/context.hpp"

#include <cstdint>
#include <cstdlib>
#include <utility>

#include "base/check.hpp"
#include "base/math.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cuda/runtime/backend.hpp"
#include "ops/context_state.hpp"

namespace reprofuse {
namespace {

constexpr Isa kIsas[] = {Isa::kScalar, Isa::kNeon, Isa::kAvx2, Isa::kAvx512};
constexpr int kMaxThreads = 1024;
constexpr std::size_t kAlignment = 256;

}  // namespace

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::kScalar: return "scalar";
    case Isa::kAvx2: return "avx2";
    case Isa::kAvx512: return "avx512";
    case Isa::kNeon: return "neon";
  }
  return "?";
}

std::optional<Isa> parse_isa(std::string_view name) {
  for (Isa isa : kIsas)
    if (isa_name(isa) == name) return isa;
  return std::nullopt;
}

std::vector<Isa> supported_isas() {
  std::vector<Isa> isas;
  for (Isa isa : kIsas)
    if (cpu::is_supported(isa)) isas.push_back(isa);
  return isas;
}

Context Context::cpu(std::string_view numerics, std::optional<Isa> isa, int threads) {
  require(threads >= 0 && threads <= kMaxThreads, "threads = {} is outside 0 to {}", threads, kMaxThreads);
  if (isa && !cpu::is_supported(*isa)) {
    std::string have;
    for (Isa supported : supported_isas()) have += fmt::format("{}{}", have.empty() ? "" : ", ", isa_name(supported));
    fail(ErrorCode::kUnsupported, "this machine or build has no {} kernels; it has {}", isa_name(*isa), have);
  }
  auto state = std::make_shared<ContextState>();
  state->device = DeviceKind::kCpu;
  state->contract = &find_numerics(numerics);
  state->isa = isa.value_or(supported_isas().back());
  state->pool = std::make_unique<ThreadPool>(threads == 0 ? available_cores() : threads);
  return Context(std::move(state));
}

Context Context::cuda(std::string_view numerics, int ordinal) {
  cuda::require_device(ordinal);
  auto state = std::make_shared<ContextState>();
  state->device = DeviceKind::kCuda;
  state->contract = &find_numerics(numerics);
  state->ordinal = ordinal;
  return Context(std::move(state));
}

DeviceKind Context::device() const {
  return state_->device;
}

std::string_view Context::numerics() const {
  return state_->contract->name;
}

Isa Context::isa() const {
  return state_->isa;
}

int Context::threads() const {
  return state_->pool ? state_->pool->threads() : 0;
}

std::string Context::description() const {
  if (device() == DeviceKind::kCuda)
    return fmt::format("cuda:{} {}", state_->ordinal, cuda::device_description(state_->ordinal));
  return fmt::format("cpu {}, {} thread{}", isa_name(isa()), threads(), threads() == 1 ? "" : "s");
}

Workspace::Workspace(const Context& context, std::size_t bytes) : context_(std::make_shared<const Context>(context)) {
  require(bytes <= PTRDIFF_MAX, "a workspace of {} bytes is larger than any memory", bytes);
  bytes_ = round_up(std::max(bytes, kAlignment), kAlignment);
  if (context.device() == DeviceKind::kCuda) {
    data_ = cuda::allocate_workspace(context.state().ordinal, bytes_);
  } else {
    data_ = std::aligned_alloc(kAlignment, bytes_);
    if (data_ == nullptr) throw std::bad_alloc();
  }
}

Workspace::~Workspace() {
  if (data_ == nullptr) return;
  if (context_->device() == DeviceKind::kCuda)
    cuda::release(data_);
  else
    std::free(data_);
}

Workspace::Workspace(Workspace&& other) noexcept
    : context_(std::move(other.context_)), data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

Workspace& Workspace::operator=(Workspace&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void reset_workspace(const Context& context, void* workspace, std::size_t bytes, void* stream) {
  if (context.device() == DeviceKind::kCpu) return;
  require(bytes >= cuda::kWorkspaceHead, "a workspace of {} bytes is too small; {} are the least", bytes,
          cuda::kWorkspaceHead);
  cuda::reset_record(context.state().ordinal, workspace, stream);
}

void check_workspace(const Context& context, void* workspace, void* stream) {
  if (context.device() == DeviceKind::kCpu) return;
  if (const auto found = cuda::take_record(context.state().ordinal, workspace, stream))
    context.state().ops.fail_non_finite(found->op, found->place);
}

unsigned OpNames::add(std::string name, std::vector<std::int64_t> columns, OpKind kind) {
  std::lock_guard lock(mutex_);
  if (free_.empty()) {
    require(ops_.size() < kMost, "a CUDA context holds at most {} layers at a time", kMost);
    free_.insert(static_cast<unsigned>(ops_.size()));
    ops_.emplace_back();
  }
  const unsigned op = free_.extract(free_.begin()).value();
  ops_[op] = {std::move(name), std::move(columns), kind};
  return op;
}

void OpNames::remove(unsigned op) {
  std::lock_guard lock(mutex_);
  free_.insert(op);
}

void OpNames::fail_non_finite(unsigned op, kernels::Place place) const {
  std::lock_guard lock(mutex_);
  invariant(op < ops_.size(), "a non-finite result names an op that does not exist");
  reprofuse::fail_non_finite(ops_[op].name, ops_[op].columns, place, ops_[op].kind);
}

void fail_non_finite(const std::string& name, const std::vector<std::int64_t>& columns, kernels::Place place,
                     OpKind kind) {
  if (kind == OpKind::kNorm)
    fail(ErrorCode::kNonFinite, "norm '{}' row {}: the sum of squares is not finite", name, place.row);
  if (kind == OpKind::kAttention)
    fail(ErrorCode::kNonFinite, "attention '{}' row {} head {}: a score is not finite", name, place.row, place.column);
  std::size_t output = 0;
  std::int64_t column = place.column;
  while (output + 1 < columns.size() && column >= columns[output]) column -= columns[output++];
  const std::string which = columns.size() > 1 ? fmt::format(" output {}", output) : "";
  fail(ErrorCode::kNonFinite, "linear '{}'{} row {} column {}: the result is not finite", name, which, place.row,
       column);
}

}  // namespace reprofuse
