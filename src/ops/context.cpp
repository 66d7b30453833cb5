#include "reprofuse/context.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

#include "base/check.hpp"
#include "base/math.hpp"
#include "ops/context_state.hpp"

namespace reprofuse {

DeviceName parse_device(std::string_view text) {
  const std::size_t colon = text.find(':');
  for (const kernels::BackendRow& row : kernels::backends()) {
    if (row.name != text.substr(0, colon)) continue;
    if (colon == std::string_view::npos) return {&row};
    const std::string_view digits = text.substr(colon + 1);
    int ordinal = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
    const bool is_number = error == std::errc() && end == digits.data() + digits.size() && ordinal >= 0;
    if (row.has_ordinals && is_number) return {&row, ordinal};
  }
  fail(ErrorCode::kUnsupported, "device '{}' does not exist; there are {}", text, device_names());
}

std::string_view default_numerics(std::string_view device) {
  return default_numerics_on(parse_device(device).backend->name);
}

std::string device_names() {
  std::string names;
  for (const kernels::BackendRow& row : kernels::backends()) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
    if (row.has_ordinals) names += fmt::format(", {}:N", row.name);
  }
  return names;
}

namespace {

Context open_device(DeviceName device, std::string_view numerics, std::optional<Isa> isa, int threads) {
  auto backend = device.backend->open({.ordinal = device.ordinal, .isa = isa, .threads = threads});
  return make_context(std::move(backend), find_numerics(numerics));
}

}  // namespace

Context make_context(std::shared_ptr<const kernels::Backend> backend, const Numerics& numerics) {
  auto state = std::make_shared<ContextState>();
  state->elementwise = backend->make_elementwise(*numerics.elementwise);
  state->attention = backend->make_attention(*numerics.attention, *numerics.cache);
  if (!numerics.attention->supports(*numerics.cache))
    fail(ErrorCode::kUnsupported, "attention by '{}' has no cache format '{}', which numerics '{}' combine with it",
         numerics.attention->name, numerics.cache->name, numerics.name);
  state->backend = std::move(backend);
  state->numerics = &numerics;
  return Context(std::move(state));
}

Context Context::open(std::string_view device, std::string_view numerics, std::optional<Isa> isa, int threads) {
  const DeviceName parsed = parse_device(device);
  require(parsed.backend->takes_threads || (!isa && threads == 0),
          "device '{}' takes neither an instruction set nor threads", device);
  return open_device(parsed, numerics, isa, threads);
}

Context Context::cpu(std::string_view numerics, std::optional<Isa> isa, int threads) {
  return open("cpu", numerics, isa, threads);
}

Context Context::cuda(std::string_view numerics, int ordinal) {
  DeviceName device = parse_device("cuda");
  device.ordinal = ordinal;
  return open_device(device, numerics, std::nullopt, 0);
}

std::string Context::device() const {
  const kernels::Backend& backend = *state_->backend;
  for (const kernels::BackendRow& row : kernels::backends())
    if (row.name == backend.name() && row.has_ordinals) return fmt::format("{}:{}", row.name, backend.ordinal());
  return std::string(backend.name());
}

std::string_view Context::numerics() const {
  return state_->numerics->name;
}

Isa Context::isa() const {
  return state_->backend->isa();
}

int Context::threads() const {
  const ThreadPool* pool = state_->backend->pool();
  return pool == nullptr ? 0 : pool->threads();
}

std::string Context::description() const {
  return state_->backend->description();
}

Workspace::Workspace(const Context& context, std::size_t bytes) : context_(std::make_shared<const Context>(context)) {
  require(bytes <= PTRDIFF_MAX, "a workspace of {} bytes is larger than any memory", bytes);
  bytes_ = round_up(std::max(bytes, kernels::kWorkspaceAlignment), kernels::kWorkspaceAlignment);
  data_ = context.state().backend->allocate_workspace(bytes_);
}

Workspace::~Workspace() {
  if (data_ != nullptr) context_->state().backend->release(data_);
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
  context.state().backend->reset_record(workspace, bytes, stream);
}

void check_workspace(const Context& context, void* workspace, void* stream) {
  if (const auto found = context.state().backend->take_record(workspace, stream))
    context.state().ops.fail_non_finite(found->op, found->place);
}

std::vector<Device> devices() {
  std::vector<Device> found;
  for (const kernels::BackendRow& row : kernels::backends()) {
    const int count = row.count();
    for (int i = 0; i < count; ++i) {
      Device& device = found.emplace_back();
      device.name = row.has_ordinals ? fmt::format("{}:{}", row.name, i) : std::string(row.name);
      try {
        device.description = row.open({.ordinal = i, .isa = std::nullopt, .threads = 0})->description();
      } catch (const Error& error) {
        device.problem = error.what();
      }
    }
  }
  return found;
}

std::vector<std::string> available_devices() {
  std::vector<std::string> names;
  for (Device& device : devices())
    if (device.problem.empty()) names.push_back(std::move(device.name));
  return names;
}

}  // namespace reprofuse
