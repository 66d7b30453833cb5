// Runs drawn transformer operations. Every instruction set must give the reference's bits, in results, in pages and in
// the place of a failure.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>

#include "base/thread_pool.hpp"
#include "bytes_target.hpp"
#include "kernels/cpu/attention/attention.hpp"
#include "kernels/cpu/elementwise/elementwise.hpp"
#include "kernels/reference/reference.hpp"
#include "model_ops_case.hpp"
#include "reprofuse/context.hpp"

namespace reprofuse::fuzz {
namespace {

// After a failed attention nothing else is computed: its result is not defined.
State run_reference(const ModelOpsCase& drawn) {
  State state = drawn.start;
  reference::rotary(drawn.rotary(state));
  state.failure = reference::attention(drawn.attention(state));
  if (state.failure) return state;
  reference::silu_gate(drawn.silu_gate(state));
  state.failure = reference::rms_norm(drawn.rms_norm(state));
  return state;
}

State run_cpu(const ModelOpsCase& drawn, const cpu::CpuDevice& device, bool workspace) {
  State state = drawn.start;
  cpu::rotary(device, drawn.rotary(state));
  const kernels::AttentionCall attention = drawn.attention(state);
  std::vector<std::byte> memory(workspace ? cpu::attention_workspace_bytes(attention) : 0);
  state.failure = cpu::attention(device, attention, workspace ? memory.data() : nullptr);
  if (state.failure) return state;
  cpu::silu_gate(device, drawn.silu_gate(state));
  state.failure = cpu::rms_norm(device, drawn.rms_norm(state));
  return state;
}

// No contract promises the payload and sign of a NaN.
bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y) || (x != x && y != y);
  });
}

std::optional<std::string_view> difference(const State& got, const State& expected) {
  const auto place = [](const State& state) {
    return state.failure ? std::pair(state.failure->row, state.failure->column)
                         : std::pair<std::int64_t, std::int64_t>(-1, -1);
  };
  if (!same_bits(got.q, expected.q) && !expected.failure) return "queries";
  if (got.keys != expected.keys) return "keys";
  if (got.values != expected.values) return "values";
  if (place(got) != place(expected)) return "places of failure";
  if (expected.failure) return std::nullopt;
  if (!same_bits(got.out, expected.out)) return "attention";
  if (!same_bits(got.gate, expected.gate)) return "norms";
  return std::nullopt;
}

}  // namespace

Outcome try_input(std::span<const std::uint8_t> input, Sabotage sabotage) {
  const ModelOpsCase drawn = draw_model_ops_case(input);
  const State expected = run_reference(drawn);
  ThreadPool pool(drawn.shape.threads);
  for (const Isa isa : supported_isas())
    for (const bool workspace : {false, true}) {
      State got = run_cpu(drawn, {.isa = isa, .pool = &pool}, workspace);
      if (sabotage == Sabotage::kAlterResult) got.keys.back() ^= std::byte{1};
      if (const auto what = difference(got, expected))
        return {.accepted = true,
                .violation = fmt::format("{} differ on {}, workspace {}: {}", *what, isa_name(isa), workspace,
                                         drawn.shape.description())};
    }
  return {.accepted = true, .violation = std::nullopt};
}

// Long enough that every draw has bytes of its own; mutation does the rest.
std::vector<Bytes> valid_inputs() {
  std::vector<Bytes> inputs;
  for (std::uint32_t seed = 1; seed <= 64; ++seed) {
    Bytes bytes;
    for (std::uint32_t i = 0, state = seed * 2654435761U; i < 96; ++i, state = state * 1664525U + 1013904223U)
      bytes.push_back(static_cast<std::uint8_t>(state >> 24));
    inputs.push_back(std::move(bytes));
  }
  return inputs;
}

// Draws of two bytes each: the lowest value, and one that is as good as any.
std::vector<std::string_view> dictionary() {
  return {std::string_view("\0\0", 2), "\x12\x34"};
}

bool takes_every_input() {
  return true;
}

void repair(Bytes&) {}

}  // namespace reprofuse::fuzz
