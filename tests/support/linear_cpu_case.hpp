// Operands for tests of the CPU linear layer, and what the reference makes of them.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/reference/reference.hpp"
#include "numerics/float_ops.hpp"
#include "reprofuse/reprofuse.hpp"
#include "study/probe/probe.hpp"
#include "study/seeded/inputs.hpp"

namespace reprofuse {

inline constexpr DType kDTypes[] = {DType::kBF16, DType::kF16, DType::kF32};
inline constexpr float kPoison = 12345.678F;

// What the numbers are like.
enum class Operands {
  kOrdinary,      // magnitudes of a model, full mantissas
  kSubnormal,     // products and sums among the subnormals
  kHuge,          // sums within a few binades of the largest float
  kNegativeZero,  // every product underflows to -0, and so does every chain
};
inline constexpr Operands kOperands[] = {Operands::kOrdinary, Operands::kSubnormal, Operands::kHuge,
                                         Operands::kNegativeZero};

// Rows may be padded and may start off any alignment but an element's own.
struct LinearCase {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  DType dtype;
  Operands operands = Operands::kOrdinary;
  bool bias = false;
  std::int64_t padding = 0;
  std::int64_t offset = 0;
};

inline float scale_exponent(float value, int exponent) {
  return value * std::bit_cast<float>(static_cast<std::uint32_t>(127 + exponent) << 23);
}

class CaseData {
 public:
  explicit CaseData(const LinearCase& spec, std::uint64_t seed = 1) : spec_(spec) {
    ThreadPool pool(1);
    const std::int64_t stride = spec.k + spec.padding;
    x_ = study::make_activations(seed, 1, spec.m * stride + spec.offset);
    weights_ = study::make_weights(seed + 1, spec.dtype, 1, spec.n * stride + spec.offset, pool);
    bias_ = study::make_activations(seed + 2, 1, spec.n);
    for (float& value : x_) value = altered(value);
    if (spec.operands == Operands::kNegativeZero) make_weights_negative();
    expected_.resize(static_cast<std::size_t>(spec.m * spec.n));
    reference::linear_fma1(x(), weight(), bias(), {expected_.data(), spec.m, spec.n, spec.n});
  }

  const LinearCase& spec() const { return spec_; }
  ConstMatrix x() const { return {x_.data() + spec_.offset, spec_.m, spec_.k, spec_.k + spec_.padding}; }
  WeightView weight() const {
    return {weights_.storage.data() + static_cast<std::size_t>(spec_.offset) * dtype_bytes(spec_.dtype), spec_.dtype,
            spec_.n, spec_.k, spec_.k + spec_.padding};
  }
  const float* bias() const { return spec_.bias ? bias_.data() : nullptr; }
  ConstMatrix expected(std::int64_t rows) const { return {expected_.data(), rows, spec_.n, spec_.n}; }

 private:
  float altered(float value) const {
    switch (spec_.operands) {
      case Operands::kOrdinary: return value;
      case Operands::kSubnormal: return scale_exponent(value, -126) * 0x1p-6F;
      case Operands::kHuge: return scale_exponent(value, 120);
      case Operands::kNegativeZero: return 0x1p-149F;
    }
    return value;
  }

  void make_weights_negative() {
    const std::uint32_t sign = spec_.dtype == DType::kF32 ? 0x80000000U : 0x8000U;
    void* all = weights_.storage.data();
    for (std::int64_t i = 0; i < weights_.n * weights_.k; ++i)
      store_weight(all, spec_.dtype, i, load_weight(all, spec_.dtype, i) | sign);
  }

  LinearCase spec_;
  std::vector<float> x_;
  study::Weights weights_{};
  std::vector<float> bias_;
  std::vector<float> expected_;
};

inline Context cpu_context(Isa isa, int threads = 1) {
  return Context::cpu("fma-1", isa, threads);
}

// Runs the first `rows` rows into a padded, poisoned y. Fails when anything beside y's columns was written.
inline std::vector<float> run_layer(const Context& context, const LinearLayer& layer, const CaseData& data,
                                    std::int64_t rows) {
  const LinearCase& spec = data.spec();
  const std::int64_t stride = spec.n + spec.padding;
  std::vector<float> padded(static_cast<std::size_t>(spec.offset + rows * stride), kPoison);
  ConstMatrix x = data.x();
  x.rows = rows;
  const LinearOutput output{.y = {padded.data() + spec.offset, rows, spec.n, stride}, .bias = data.bias()};
  const Workspace workspace(context, layer.workspace_bytes(rows));
  layer.run(x, std::span(&output, 1), workspace);
  std::vector<float> y;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(padded.size()); ++i) {
    const bool inside = i >= spec.offset && (i - spec.offset) % stride < spec.n;
    if (inside)
      y.push_back(padded[static_cast<std::size_t>(i)]);
    else
      EXPECT_EQ(padded[static_cast<std::size_t>(i)], kPoison) << "a value outside y was written";
  }
  return y;
}

inline std::string describe(const LinearCase& spec, std::int64_t rows, Isa isa) {
  return fmt::format("{} {} m {} n {} k {} operands {}", isa_name(isa), dtype_name(spec.dtype), rows, spec.n, spec.k,
                     static_cast<int>(spec.operands));
}

// True when the layer's bits are the reference's for the first `rows` rows.
inline ::testing::AssertionResult matches_reference(const Context& context, const LinearLayer& layer,
                                                    const CaseData& data, std::int64_t rows) {
  const std::vector<float> y = run_layer(context, layer, data, rows);
  const auto difference = study::first_difference({y.data(), rows, data.spec().n, data.spec().n}, data.expected(rows));
  if (!difference) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << describe(data.spec(), rows, context.isa()) << ": "
                                       << difference->description();
}

inline std::string message_of(ErrorCode code, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "no error";
}

inline LinearLayer make_layer(const Context& context, const CaseData& data) {
  const WeightView weight = data.weight();
  return LinearLayer(context, std::span(&weight, 1), "tested");
}

}  // namespace reprofuse
