#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "model/runner.hpp"
#include "reprofuse/error.hpp"
#include "study/bench/error.hpp"
#include "study/seeded/inputs.hpp"
#include "study/seeded/models.hpp"
#include "support/altered_linear.hpp"

namespace reprofuse::study {
namespace {

WeightView f32_view(const std::vector<float>& values, std::int64_t n, std::int64_t k) {
  return {values.data(), DType::kF32, n, k, k};
}

TEST(ExactLinear, WhatCancelsLeavesTheRestBehind) {
  ThreadPool pool(1);
  const std::vector<float> x = {0x1p80F, 3.0F, -0x1p80F, 0x1p-30F};
  const std::vector<float> ones(4, 1.0F);
  EXPECT_EQ(exact_linear({x.data(), 1, 4, 4}, f32_view(ones, 1, 4), pool)[0], 3.0 + 0x1p-30);
  double plain = 0;
  for (const float value : x) plain += value;
  EXPECT_EQ(plain, 0x1p-30) << "a plain sum would not need the compensation that is tested here";
}

TEST(ExactLinear, IntegersGiveTheirIntegerSumsAtAnyThreadCount) {
  constexpr std::int64_t kM = 3, kN = 5, kK = 700;
  std::vector<float> x, w;
  for (int i = 0; i < kM * kK; ++i) x.push_back(static_cast<float>(i * 7919 % 2001 - 1000));
  for (int i = 0; i < kN * kK; ++i) w.push_back(static_cast<float>(i * 104729 % 4001 - 2000));
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    const std::vector<double> exact = exact_linear({x.data(), kM, kK, kK}, f32_view(w, kN, kK), pool);
    for (std::int64_t m = 0; m < kM; ++m)
      for (std::int64_t n = 0; n < kN; ++n) {
        std::int64_t sum = 0;
        for (std::int64_t k = 0; k < kK; ++k)
          sum += static_cast<std::int64_t>(x[static_cast<std::size_t>(m * kK + k)]) *
                 static_cast<std::int64_t>(w[static_cast<std::size_t>(n * kK + k)]);
        ASSERT_EQ(exact[static_cast<std::size_t>(m * kN + n)], static_cast<double>(sum)) << m << " " << n;
      }
  }
}

TEST(ErrorSum, IsTheRootOfSquaresOverAllOutputsAndOverTheWorstRow) {
  ErrorSum sum;
  sum.add(std::vector<float>{1, 2, 3, 5}, std::vector<double>{1, 2, 3, 4}, 2);
  EXPECT_DOUBLE_EQ(sum.error().rms, std::sqrt(1.0 / 30));
  EXPECT_DOUBLE_EQ(sum.error().worst_row, std::sqrt(1.0 / 25));
  sum.add(std::vector<float>{2, 0}, std::vector<double>{1, 0}, 1);  // a row of zeros has no relative error
  EXPECT_DOUBLE_EQ(sum.error().rms, std::sqrt(2.0 / 31));
  EXPECT_DOUBLE_EQ(sum.error().worst_row, 1.0);
}

// Binary64, rounded to binary32 once.
class RoundedOnce final : public HostLinear {
 public:
  explicit RoundedOnce(const WeightView& weight) : weight_(weight) {}
  void run(ConstMatrix x, const float*, Matrix y) override {
    ThreadPool pool(1);
    const std::vector<double> exact = exact_linear(x, weight_, pool);
    std::copy(exact.begin(), exact.end(), y.data);
  }
  std::string implementation() const override { return "rounded once"; }

 private:
  WeightView weight_;
};

// The first term is missing.
class OneTermShort final : public HostLinear {
 public:
  explicit OneTermShort(const WeightView& weight) : weight_(weight) {}
  void run(ConstMatrix x, const float* bias, Matrix y) override {
    std::vector<float> cut(x.data, x.data + x.rows * x.cols);
    for (std::int64_t m = 0; m < x.rows; ++m) cut[static_cast<std::size_t>(m * x.cols)] = 0;
    reference::linear_fma1({cut.data(), x.rows, x.cols, x.cols}, weight_, bias, y);
  }
  std::string implementation() const override { return "one term short"; }

 private:
  WeightView weight_;
};

template <typename Linear>
PrepareLinear layers_of() {
  return [](const WeightView& weight, std::int64_t) { return std::make_unique<Linear>(weight); };
}

std::vector<ErrorRow> seeded(const std::vector<PrepareLinear>& numerics, std::int64_t k) {
  ThreadPool pool(2);
  std::vector<ErrorRow> rows;
  bench_seeded_errors(numerics, std::span(&k, 1), pool, [&](const ErrorRow& row) { rows.push_back(row); });
  return rows;
}

TEST(SeededErrors, AreThoseThatTheArithmeticMustHave) {
  constexpr double kUnit = 0x1p-24;
  const auto rows = seeded({layers_of<RoundedOnce>(), altered(Alteration::kNone), layers_of<OneTermShort>()}, 1030);
  ASSERT_EQ(rows.size(), 9U);
  for (const ErrorRow& row : rows) {
    SCOPED_TRACE(row.activations + ", " + row.weights);
    EXPECT_EQ(row.k, 1030);
    EXPECT_EQ(row.outputs, 2048);
    EXPECT_GT(row.errors[0].rms, 0.2 * kUnit);  // one rounding: evenly spread below half a unit of a random significand
    EXPECT_LT(row.errors[0].worst_row, kUnit);
    EXPECT_GT(row.errors[1].rms, row.errors[0].rms);
    EXPECT_LT(row.errors[1].worst_row, 100 * kUnit);
    EXPECT_GT(row.errors[2].worst_row, 1e-4);  // a lost term cannot hide
  }
}

TEST(SeededErrors, AnotherOrderShows) {
  const auto rows = seeded({altered(Alteration::kNone), altered(Alteration::kHalfSegments)}, 1030);
  for (const ErrorRow& row : rows) EXPECT_NE(row.errors[0].rms, row.errors[1].rms) << row.activations;
}

TEST(SeededErrors, OfAContractAreItsReferencesOnEveryIsa) {
  ThreadPool pool(2);
  for (const Numerics& contract : contracts()) {
    std::vector<PrepareLinear> numerics = {reference_of(contract, pool)};
    for (const Isa isa : supported_isas()) numerics.push_back(kernels_of(Context::cpu(contract.name, isa, 2)));
    for (const ErrorRow& row : seeded(numerics, 600))
      for (const RelativeError& error : row.errors) {
        ASSERT_EQ(error.rms, row.errors[0].rms) << contract.name << ": " << row.activations << ", " << row.weights;
        ASSERT_EQ(error.worst_row, row.errors[0].worst_row) << contract.name;
      }
  }
}

class CapturedInputs : public testing::Test {
 protected:
  const ModelCase spec_ = model_cases().front();
  const Context context_ = Context::cpu(kDefaultNumerics, std::nullopt, 2);
  const std::shared_ptr<const RandomSource> source_ =
      std::make_shared<RandomSource>(spec_.config, spec_.dtype, spec_.seed);
  const std::vector<std::int32_t> tokens_ = random_tokens(3, 11, spec_.config.vocab_size);
};

TEST_F(CapturedInputs, AreThoseOfEveryLinearLayerInTheirOrder) {
  const auto inputs = capture_linear_inputs(context_, source_, tokens_);
  ASSERT_EQ(inputs.size(), static_cast<std::size_t>(4 * spec_.config.layers + 1));
  EXPECT_EQ(inputs[4].tensors, (std::vector<std::string>{"model.layers.1.self_attn.q_proj.weight",
                                                         "model.layers.1.self_attn.k_proj.weight",
                                                         "model.layers.1.self_attn.v_proj.weight"}));
  EXPECT_EQ(inputs[7].tensors, (std::vector<std::string>{"model.layers.1.mlp.down_proj.weight"}));
  EXPECT_EQ(inputs[7].cols, spec_.config.intermediate_size);
  EXPECT_EQ(inputs.back().tensors, (std::vector<std::string>{"model.embed_tokens.weight"})) << "a tied head";
  for (const LinearInput& input : inputs) EXPECT_EQ(input.rows, 11);
}

TEST_F(CapturedInputs, OfTheHeadGiveTheLogitsOfAPassThatNobodyObserves) {
  const auto inputs = capture_linear_inputs(context_, source_, tokens_);
  const checkpoint::TensorView view = source_->tensor(inputs.back().tensors[0]);
  const checkpoint::HostTensor head(view);
  const std::int64_t n = view.shape[0], k = view.shape[1];
  std::vector<float> y(static_cast<std::size_t>(11 * n));
  kernels_of(context_)({head.data(), view.dtype, n, k, k}, 11)
      ->run(inputs.back().view(), nullptr, {y.data(), 11, n, n});

  const model::Model model(context_, source_, 11);
  model::KvCache cache(context_, spec_.config, 1);
  model::Runner runner(model, cache, {.rows = 11, .sequences = 1, .logit_rows = 11});
  model::Sequence sequence(cache);
  ASSERT_TRUE(sequence.reserve(11));
  const model::TokenChunk chunk{&sequence, tokens_, model::Logits::kAll};
  runner.run({&chunk, 1});
  EXPECT_EQ(y, runner.host_logits());
}

TEST_F(CapturedInputs, GiveOneRowOfErrorsPerKindOfProjection) {
  ThreadPool pool(2);
  const std::vector<PrepareLinear> numerics = {layers_of<RoundedOnce>(), kernels_of(context_)};
  std::vector<std::string> kinds;
  std::int64_t outputs = 0;
  bench_model_errors(numerics, *source_, capture_linear_inputs(context_, source_, tokens_), pool,
                     [&](const ErrorRow& row) {
                       kinds.push_back(row.weights);
                       outputs += row.outputs;
                       EXPECT_LT(row.errors[0].worst_row, 0x1p-24) << row.weights;
                       EXPECT_GT(row.errors[1].rms, row.errors[0].rms) << row.weights;
                       EXPECT_LT(row.errors[1].worst_row, 1e-5) << row.weights;
                     });
  EXPECT_EQ(kinds, (std::vector<std::string>{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj",
                                             "down_proj", "lm_head"}));
  const checkpoint::ModelConfig& c = spec_.config;
  EXPECT_EQ(outputs, 11 * (c.layers * (c.q_size() + 2 * c.kv_size() + 2 * c.hidden_size + 2 * c.intermediate_size) +
                           c.vocab_size));
}

}  // namespace
}  // namespace reprofuse::study
