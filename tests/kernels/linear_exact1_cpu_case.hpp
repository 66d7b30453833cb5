// Operands for tests of exact-1 on the CPU, what the reference makes of them, and every table of kernels to try.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cpu/linear/exact1/kernels.hpp"
#include "kernels/reference/reference.hpp"
#include "numerics/exact1.hpp"
#include "numerics/float_ops.hpp"
#include "reprofuse/reprofuse.hpp"
#include "study/probe/probe.hpp"
#include "study/seeded/inputs.hpp"

namespace reprofuse::exact1_cpu {

inline constexpr DType kDTypes[] = {DType::kBF16, DType::kF16, DType::kF32};
inline constexpr float kPoison = 12345.678F;

using cpu::LinearExact1Kernels;

// All that this machine can run, among them AVX-512 with and without VNNI.
inline std::vector<const LinearExact1Kernels*> tables() {
  std::vector<const LinearExact1Kernels*> all;
  for (const Isa isa : supported_isas())
    for (const LinearExact1Kernels* table : cpu::linear_exact1_tables(isa)) all.push_back(table);
  return all;
}

// A matrix with rows padded and starting off any alignment but an element's own.
struct Layout {
  std::int64_t padding = 0;
  std::int64_t offset = 0;
};

// x [m, k] and w [n, k] as floats. Weights are stored in their type; expected is what the reference makes of them.
class Operands {
 public:
  Operands(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype, bool bias = false, Layout layout = {},
           std::uint64_t seed = 1)
      : m_(m), n_(n), k_(k), dtype_(dtype), layout_(layout) {
    ThreadPool pool(1);
    x_ = study::make_activations(seed, 1, m * stride() + layout.offset);
    weights_ = study::make_weights(seed + 1, dtype, 1, n * stride() + layout.offset, pool).storage;
    if (bias) bias_ = study::make_activations(seed + 2, 1, n);
  }

  std::int64_t m() const { return m_; }
  std::int64_t n() const { return n_; }
  std::int64_t k() const { return k_; }
  Layout layout() const { return layout_; }
  const float* bias() const { return bias_.empty() ? nullptr : bias_.data(); }
  ConstMatrix x(std::int64_t rows) const { return {x_.data() + layout_.offset, rows, k_, stride()}; }
  WeightView weight() const {
    return {weights_.data() + static_cast<std::size_t>(layout_.offset) * dtype_bytes(dtype_), dtype_, n_, k_, stride()};
  }
  float& x_at(std::int64_t row, std::int64_t k) {
    return x_[static_cast<std::size_t>(layout_.offset + row * stride() + k)];
  }
  void set_weight(std::int64_t row, std::int64_t k, std::uint32_t bits) {
    store_weight(weights_.data(), dtype_, layout_.offset + row * stride() + k, bits);
  }

  // value(row, k) for every element of x, and the bits of every weight.
  void fill_x(const std::function<float(std::int64_t, std::int64_t)>& value) {
    for (std::int64_t row = 0; row < m_; ++row)
      for (std::int64_t k = 0; k < k_; ++k) x_at(row, k) = value(row, k);
  }
  void fill_weights(const std::function<std::uint32_t(std::int64_t, std::int64_t)>& bits) {
    for (std::int64_t row = 0; row < n_; ++row)
      for (std::int64_t k = 0; k < k_; ++k) set_weight(row, k, bits(row, k));
  }

  std::vector<float> expected() const {
    std::vector<float> y(static_cast<std::size_t>(m_ * n_));
    reference::linear_exact1(x(m_), weight(), bias(), {y.data(), m_, n_, n_});
    return y;
  }

 private:
  std::int64_t stride() const { return k_ + layout_.padding; }

  std::int64_t m_;
  std::int64_t n_;
  std::int64_t k_;
  DType dtype_;
  Layout layout_;
  std::vector<float> x_;
  std::vector<std::byte> weights_;
  std::vector<float> bias_;
};

// One layer, prepared with one table.
class Prepared {
 public:
  Prepared(const LinearExact1Kernels& kernels, std::span<const WeightView> weights, int threads = 1)
      : pool_(threads), prepared_(cpu::prepare_linear_exact1(kernels, device(), "tested", weights)) {}
  Prepared(const LinearExact1Kernels& kernels, const Operands& operands, int threads = 1)
      : Prepared(kernels, std::vector{operands.weight()}, threads) {}

  const kernels::PreparedLinear& layer() const { return *prepared_; }

  std::optional<kernels::NonFinite> run(ConstMatrix x, std::span<const LinearOutput> outputs) const {
    // Of the least size and of odd alignment: a kernel may rely on neither more.
    std::vector<std::byte> workspace(prepared_->workspace_bytes(x.rows) + 1);
    return prepared_->run({.x = x, .outputs = outputs, .workspace = workspace.data() + 1});
  }

 private:
  cpu::CpuDevice device() { return {.isa = Isa::kScalar, .pool = &pool_}; }

  ThreadPool pool_;
  std::unique_ptr<kernels::PreparedLinear> prepared_;
};

// Runs the first `rows` rows into a padded, poisoned y. Fails when anything beside y's columns was written.
inline std::vector<float> run_rows(const Prepared& prepared, const Operands& operands, std::int64_t rows) {
  const auto [padding, offset] = operands.layout();
  const std::int64_t n = operands.n();
  const std::int64_t stride = n + padding;
  std::vector<float> padded(static_cast<std::size_t>(offset + rows * stride), kPoison);
  const LinearOutput output{.y = {padded.data() + offset, rows, n, stride}, .bias = operands.bias()};
  const auto place = prepared.run(operands.x(rows), std::span(&output, 1));
  EXPECT_FALSE(place) << "row " << place->row << " column " << place->column << " is not finite";
  std::vector<float> y;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(padded.size()); ++i) {
    const float value = padded[static_cast<std::size_t>(i)];
    if (i >= offset && (i - offset) % stride < n)
      y.push_back(value);
    else
      EXPECT_EQ(value, kPoison) << "a value outside y was written";
  }
  return y;
}

// True when the first `rows` rows have the bits of `expected`, which may hold more.
inline ::testing::AssertionResult matches(const Prepared& prepared, const Operands& operands, std::int64_t rows,
                                          const std::vector<float>& expected) {
  const std::vector<float> y = run_rows(prepared, operands, rows);
  const std::int64_t n = operands.n();
  const auto difference = study::first_difference({y.data(), rows, n, n}, {expected.data(), rows, n, n});
  if (!difference) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << fmt::format("{} {} m {} n {} k {}: {}", prepared.layer().implementation(),
                                                      dtype_name(operands.weight().dtype), rows, n, operands.k(),
                                                      difference->description());
}

// Every table gives the reference's bits for all rows, and for one row alone.
inline void expect_reference_bits(const Operands& operands) {
  const std::vector<float> expected = operands.expected();
  for (const LinearExact1Kernels* table : tables()) {
    const Prepared prepared(*table, operands);
    for (const std::int64_t rows : {std::int64_t{1}, operands.m()})
      ASSERT_TRUE(matches(prepared, operands, rows, expected));
  }
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

}  // namespace reprofuse::exact1_cpu
