#include "linear_compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "base/fp_environment.hpp"
#include "base/thread_pool.hpp"
#include "kernels/cpu/linear/tables.hpp"
#include "numerics/float_ops.hpp"
#include "ops/buffer.hpp"
#include "ops/context_state.hpp"
#include "ops/contract.hpp"
#include "ops/op_registry.hpp"
#include "reprofuse/reprofuse.hpp"
#include "study/probe/probe.hpp"

namespace reprofuse::fuzz {
namespace {

constexpr float kUntouched = 0x1.2345p23F;  // fills y beforehand: padding must still hold it afterwards

struct Outcome {
  std::vector<std::vector<float>> y;  // storage per output: offset, then [m, y_stride]
  std::string non_finite;             // the message of the error; empty when there was none
};

template <typename T>
std::size_t bytes_of(const std::vector<T>& values) {
  return values.size() * sizeof(T);
}

WeightView weight_view(const LinearCase& drawn, const FuzzOutput& output, const void* storage) {
  const auto offset = static_cast<std::size_t>(drawn.offset) * dtype_bytes(drawn.dtype);
  return {static_cast<const char*>(storage) + offset, drawn.dtype, output.n, drawn.k, output.weight_stride};
}

Matrix y_view(const LinearCase& drawn, const FuzzOutput& output, float* storage) {
  return {storage + drawn.offset, drawn.m, output.n, output.y_stride};
}

ConstMatrix x_view(const LinearCase& drawn, const float* storage) {
  return {storage + drawn.offset, drawn.m, drawn.k, drawn.x_stride};
}

const float* bias_of(const FuzzOutput& output) {
  return output.bias.empty() ? nullptr : output.bias.data();
}

Outcome untouched(const LinearCase& drawn) {
  Outcome outcome;
  for (const FuzzOutput& output : drawn.outputs) outcome.y.emplace_back(drawn.y_elements(output), kUntouched);
  return outcome;
}

// Sets non_finite to what an error message must contain: the first place by row, then output, then column.
Outcome run_reference(const LinearCase& drawn, const Numerics& contract) {
  Outcome outcome = untouched(drawn);
  const std::size_t outputs = drawn.outputs.size();
  for (std::size_t i = 0; i < outputs; ++i) {
    const FuzzOutput& output = drawn.outputs[i];
    contract.linear->reference(x_view(drawn, drawn.x.data()), weight_view(drawn, output, output.weight.data()),
                               bias_of(output), y_view(drawn, output, outcome.y[i].data()));
  }
  for (std::int64_t row = 0; row < drawn.m; ++row)
    for (std::size_t i = 0; i < outputs; ++i)
      for (std::int64_t column = 0; column < drawn.outputs[i].n; ++column) {
        const Matrix y = y_view(drawn, drawn.outputs[i], outcome.y[i].data());
        if (is_finite_bits(y.data[row * y.stride + column])) continue;
        const std::string which = outputs > 1 ? fmt::format("output {} ", i) : "";
        outcome.non_finite = fmt::format("{}row {} column {}:", which, row, column);
        return outcome;
      }
  return outcome;
}

// Calls compute(); a non-finite result becomes part of the outcome.
template <typename Compute>
void catch_non_finite(Outcome& outcome, Compute compute) {
  try {
    compute();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNonFinite) throw;
    outcome.non_finite = error.what();
  }
}

std::vector<WeightView> host_weights(const LinearCase& drawn) {
  std::vector<WeightView> weights;
  for (const FuzzOutput& output : drawn.outputs) weights.push_back(weight_view(drawn, output, output.weight.data()));
  return weights;
}

std::vector<LinearOutput> host_outputs(const LinearCase& drawn, Outcome& outcome) {
  std::vector<LinearOutput> outputs;
  for (std::size_t i = 0; i < drawn.outputs.size(); ++i)
    outputs.push_back({y_view(drawn, drawn.outputs[i], outcome.y[i].data()), bias_of(drawn.outputs[i])});
  return outputs;
}

Outcome run_cpu(const LinearCase& drawn, const Context& context) {
  Outcome outcome = untouched(drawn);
  const std::vector<LinearOutput> outputs = host_outputs(drawn, outcome);
  const LinearLayer layer(context, host_weights(drawn), "fuzz");
  const Workspace workspace(context, layer.workspace_bytes(drawn.m));
  catch_non_finite(outcome, [&] { layer.run(x_view(drawn, drawn.x.data()), outputs, workspace); });
  return outcome;
}

// By kernels of one table, whatever a context would choose.
Outcome run_prepared(const LinearCase& drawn, const kernels::PreparedLinear& layer) {
  Outcome outcome = untouched(drawn);
  const FpEnvironment pinned;
  const std::vector<LinearOutput> outputs = host_outputs(drawn, outcome);
  std::vector<std::byte> workspace(layer.workspace_bytes(drawn.m));
  std::vector<std::int64_t> n;
  for (const FuzzOutput& output : drawn.outputs) n.push_back(output.n);
  const auto non_finite =
      layer.run({.x = x_view(drawn, drawn.x.data()), .outputs = outputs, .workspace = workspace.data()});
  if (non_finite) catch_non_finite(outcome, [&] { fail_non_finite("fuzz", n, *non_finite); });
  return outcome;
}

template <typename T>
Buffer to_device(const Context& context, const std::vector<T>& values) {
  Buffer buffer(context, bytes_of(values));
  copy_to_device(context, buffer.as<void>(), values.data(), bytes_of(values));
  return buffer;
}

Outcome run_cuda(const LinearCase& drawn, const Context& context) {
  Outcome outcome = untouched(drawn);
  const Buffer x = to_device(context, drawn.x);
  std::vector<Buffer> buffers;  // kept until the results are back
  std::vector<WeightView> weights;
  std::vector<LinearOutput> outputs;
  std::vector<const float*> y;
  for (std::size_t i = 0; i < drawn.outputs.size(); ++i) {
    const FuzzOutput& output = drawn.outputs[i];
    weights.push_back(weight_view(drawn, output, buffers.emplace_back(to_device(context, output.weight)).as<void>()));
    float* storage = buffers.emplace_back(to_device(context, outcome.y[i])).as<float>();
    y.push_back(storage);
    const float* bias =
        output.bias.empty() ? nullptr : buffers.emplace_back(to_device(context, output.bias)).as<float>();
    outputs.push_back({y_view(drawn, output, storage), bias});
  }
  const LinearLayer layer(context, weights, "fuzz");
  const Workspace workspace(context, layer.workspace_bytes(drawn.m));
  catch_non_finite(outcome, [&] {
    layer.run(x_view(drawn, x.as<float>()), outputs, workspace);
    check_workspace(context, workspace.data(), nullptr);
  });
  for (std::size_t i = 0; i < y.size(); ++i) copy_to_host(context, outcome.y[i].data(), y[i], bytes_of(outcome.y[i]));
  return outcome;
}

void flip_bit(const LinearCase& drawn, Outcome& outcome) {
  if (!outcome.non_finite.empty()) {
    outcome.non_finite.clear();
    return;
  }
  const std::size_t which = drawn.seed % drawn.outputs.size();
  const Matrix y = y_view(drawn, drawn.outputs[which], outcome.y[which].data());
  const auto pick = static_cast<std::int64_t>(drawn.seed % static_cast<std::uint64_t>(y.rows * y.cols));
  float& value = y.data[pick / y.cols * y.stride + pick % y.cols];
  value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ 1U << (drawn.seed >> 59));
}

std::optional<std::string> difference_between(const LinearCase& drawn, const Outcome& got, const Outcome& expected) {
  if (expected.non_finite.empty() != got.non_finite.empty() ||
      got.non_finite.find(expected.non_finite) == std::string::npos)
    return fmt::format("non-finite results: '{}', expected '{}'", got.non_finite, expected.non_finite);
  if (!expected.non_finite.empty()) return std::nullopt;
  for (std::size_t i = 0; i < drawn.outputs.size(); ++i) {
    const std::int64_t stride = drawn.outputs[i].y_stride;  // padding is compared too
    if (const auto found = study::first_difference({got.y[i].data() + drawn.offset, drawn.m, stride, stride},
                                                   {expected.y[i].data() + drawn.offset, drawn.m, stride, stride}))
      return fmt::format("output {}: {}", i, found->description());
  }
  return std::nullopt;
}

bool has_cuda() {
  try {
    Context::cuda();
    return true;
  } catch (const Error&) {
    return false;
  }
}

struct Result {
  std::string implementation;
  Outcome outcome;
};

// Each input draws its number of threads, so each gets its own contexts.
std::vector<Result> run_contexts(const LinearCase& drawn, const Numerics& contract) {
  static const bool cuda_is_here = has_cuda();
  std::vector<Result> results;
  for (const Isa isa : supported_isas()) {
    const Context context = Context::cpu(contract.name, isa, drawn.threads);
    results.push_back({context.description(), run_cpu(drawn, context)});
  }
  if (cuda_is_here) {
    const Context context = Context::cuda(contract.name);
    results.push_back({context.description(), run_cuda(drawn, context)});
  }
  return results;
}

// By the kernels that a context passes over because the machine has better ones of the instruction set, such as AVX-512
// without VNNI.
std::vector<Result> run_passed_over(const LinearCase& drawn, const kernels::LinearScheme& scheme) {
  const cpu::LinearTables* tables = cpu::find_linear_tables(scheme);
  if (tables == nullptr) return {};
  std::vector<Result> results;
  ThreadPool pool(drawn.threads);
  for (const Isa isa : supported_isas())
    for (std::size_t table = 0; table + 1 < tables->count(isa); ++table) {
      const auto layer = tables->prepare(table, {.isa = isa, .pool = &pool}, "fuzz", host_weights(drawn));
      results.push_back({fmt::format("{} kernels by name", layer->implementation()), run_prepared(drawn, *layer)});
    }
  return results;
}

void compare_contract(const LinearCase& drawn, const Numerics& contract, Sabotage sabotage, Comparison& comparison) {
  const Outcome expected = run_reference(drawn, contract);
  comparison.non_finite |= !expected.non_finite.empty();
  std::vector<Result> results = run_contexts(drawn, contract);
  std::ranges::move(run_passed_over(drawn, *contract.linear), std::back_inserter(results));
  for (Result& result : results) {
    ++comparison.implementations;
    if (sabotage == Sabotage::kFlipBit) flip_bit(drawn, result.outcome);
    if (const auto difference = difference_between(drawn, result.outcome, expected))
      comparison.differences.push_back(fmt::format("{} on {} differs from the reference: {}\n  {}", contract.name,
                                                   result.implementation, *difference, drawn.description()));
  }
}

}  // namespace

Comparison compare_implementations(const LinearCase& drawn, Sabotage sabotage) {
  Comparison comparison;
  for (const Numerics& contract : contracts())
    if (contract.names_its_linear())  // otherwise its linear layer is another's
      compare_contract(drawn, contract, sabotage, comparison);
  return comparison;
}

}  // namespace reprofuse::fuzz
