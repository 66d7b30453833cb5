// The committed logits of every model case, under every contract, are those of the reference loops alone, put together
// here as NUMERICS.md says: no kernel, no cache of the library's, no batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "checkpoint/config.hpp"
#include "kernels/reference/reference.hpp"
#include "model/logits_digest.hpp"
#include "numerics/float_ops.hpp"
#include "numerics/rotary.hpp"
#include "ops/contract.hpp"
#include "study/probe/probe.hpp"
#include "study/seeded/models.hpp"
#include "support/expected_digest.hpp"

namespace reprofuse::study {
namespace {

using checkpoint::HostTensor;
using checkpoint::layer_tensor_name;

struct Dense {
  std::int64_t rows, cols;
  std::vector<float> values = std::vector<float>(static_cast<std::size_t>(rows * cols));

  Matrix view() { return {values.data(), rows, cols, cols}; }
  ConstMatrix read() const { return {values.data(), rows, cols, cols}; }
};

class ReferenceModel {
 public:
  ReferenceModel(const Numerics& contract, const ModelCase& spec)
      : contract_(contract),
        config_(spec.config),
        source_(spec.config, spec.dtype, spec.seed),
        tokens_(case_tokens(spec)) {
    rotary_ = rotary_table(config_.rotary, config_.head_dim, rows());
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(rows()); ++i) positions_.push_back(i);
    sequences_.assign(tokens_.size(), 0);
    page_table_ = {0};
  }

  Dense logits() {
    Dense x{rows(), config_.hidden_size}, delta{rows(), config_.hidden_size};
    const checkpoint::TensorView embedding = source_.tensor(checkpoint::kEmbeddingName);
    const HostTensor table(embedding);
    reference::embedding({.table = weight_of(embedding, table), .tokens = tokens_.data(), .x = x.view()});
    for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
      delta = linear(attend(layer, norm(x, layer_tensor_name(layer, "input_layernorm.weight"))),
                     layer_tensor_name(layer, "self_attn.o_proj"), config_.o_bias);
      add(x, delta);
      delta = feed_forward(layer, norm(x, layer_tensor_name(layer, "post_attention_layernorm.weight")));
      add(x, delta);
    }
    const Dense last = norm(x, std::string(checkpoint::kFinalNormName));
    return linear(last, config_.tied_embeddings ? "model.embed_tokens" : "lm_head", false);
  }

 private:
  std::int64_t rows() const { return static_cast<std::int64_t>(tokens_.size()); }

  static WeightView weight_of(const checkpoint::TensorView& view, const HostTensor& host) {
    return {host.data(), view.dtype, view.shape[0], view.shape[1], view.shape[1]};
  }

  std::vector<float> vector(const std::string& name) {
    const checkpoint::TensorView view = source_.tensor(name);
    const HostTensor host(view);
    std::vector<float> values;
    for (std::int64_t i = 0; i < view.elements(); ++i)
      values.push_back(widen(view.dtype, load_weight(host.data(), view.dtype, i)));
    return values;
  }

  Dense linear(const Dense& x, const std::string& name, bool with_bias) {
    const checkpoint::TensorView view = source_.tensor(name + ".weight");
    const HostTensor host(view);
    const std::vector<float> bias = with_bias ? vector(name + ".bias") : std::vector<float>{};
    Dense y{x.rows, view.shape[0]};
    contract_.linear->reference(x.read(), weight_of(view, host), with_bias ? bias.data() : nullptr, y.view());
    return y;
  }

  Dense norm(Dense x, const std::string& name) {
    const std::vector<float> weight = vector(name);
    Dense y{x.rows, x.cols};
    EXPECT_FALSE(reference::rms_norm(
        {.x = x.view(), .delta = {}, .weight = weight.data(), .eps = config_.rms_norm_eps_f32(), .y = y.view()}));
    return y;
  }

  static void add(Dense& x, const Dense& delta) {
    for (std::size_t i = 0; i < x.values.size(); ++i) x.values[i] = x.values[i] + delta.values[i];
  }

  Dense attend(std::int64_t layer, const Dense& h) {
    const auto name = [&](const char* part) { return layer_tensor_name(layer, part); };
    Dense q = linear(h, name("self_attn.q_proj"), config_.qkv_bias);
    const Dense k = linear(h, name("self_attn.k_proj"), config_.qkv_bias);
    const Dense v = linear(h, name("self_attn.v_proj"), config_.qkv_bias);
    const auto q_norm = config_.qk_norm ? vector(name("self_attn.q_norm.weight")) : std::vector<float>{};
    const auto k_norm = config_.qk_norm ? vector(name("self_attn.k_norm.weight")) : std::vector<float>{};
    const auto cache_bytes = static_cast<std::size_t>(config_.kv_size() * kOnePage) *
                             static_cast<std::size_t>(contract_.cache->element_bytes);
    std::vector<std::byte> keys(cache_bytes), values(cache_bytes);
    std::vector<std::byte> key_units(static_cast<std::size_t>(config_.kv_heads * kOnePage));
    std::vector<std::byte> value_units(key_units.size());
    const kernels::KvPages kv{.keys = keys.data(),
                              .values = values.data(),
                              .dtype = contract_.cache->dtype,
                              .kv_heads = static_cast<std::int32_t>(config_.kv_heads),
                              .head_dim = static_cast<std::int32_t>(config_.head_dim),
                              .page_size = kOnePage,
                              .pages = 1,
                              .key_units = key_units.data(),
                              .value_units = value_units.data()};
    kernels::Batch batch;
    batch.rows = static_cast<std::int32_t>(rows());
    batch.positions = positions_.data();
    batch.sequences = sequences_.data();
    batch.page_table = page_table_.data();
    batch.page_table_stride = 1;
    contract_.attention->rotary({.q = q.view(),
                                 .k = k.read(),
                                 .v = v.read(),
                                 .q_norm = config_.qk_norm ? q_norm.data() : nullptr,
                                 .k_norm = config_.qk_norm ? k_norm.data() : nullptr,
                                 .eps = config_.rms_norm_eps_f32(),
                                 .cos = rotary_.cos.data(),
                                 .sin = rotary_.sin.data(),
                                 .batch = batch,
                                 .kv = kv});
    Dense out{rows(), config_.q_size()};
    EXPECT_FALSE(contract_.attention->attention(
        {.q = q.read(),
         .kv = kv,
         .batch = batch,
         .heads = static_cast<std::int32_t>(config_.heads),
         .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim))),
         .window = static_cast<std::int32_t>(config_.layer_windows[static_cast<std::size_t>(layer)]),
         .out = out.view()}));
    return out;
  }

  Dense feed_forward(std::int64_t layer, const Dense& h) {
    const Dense gate = linear(h, layer_tensor_name(layer, "mlp.gate_proj"), config_.mlp_bias);
    const Dense up = linear(h, layer_tensor_name(layer, "mlp.up_proj"), config_.mlp_bias);
    Dense inner{gate.rows, gate.cols};
    reference::silu_gate({.gate = gate.read(), .up = up.read(), .y = inner.view()});
    return linear(inner, layer_tensor_name(layer, "mlp.down_proj"), config_.mlp_bias);
  }

  static constexpr std::int32_t kOnePage = 512;  // holds every case's text

  const Numerics& contract_;
  checkpoint::ModelConfig config_;
  RandomSource source_;
  std::vector<std::int32_t> tokens_, positions_, sequences_, page_table_;
  RotaryTable rotary_;
};

std::vector<std::string> names_of_contracts() {
  std::vector<std::string> names;
  for (const Numerics& contract : contracts()) names.emplace_back(contract.name);
  return names;
}

class ModelReference : public testing::TestWithParam<std::string> {};

TEST_P(ModelReference, CommittedDigestsAreThoseOfTheReferenceLoops) {
  const Numerics& contract = find_contract(GetParam());
  for (const ModelCase& spec : model_cases()) {
    const Dense logits = ReferenceModel(contract, spec).logits();
    model::LogitsDigest digest(DigestKind::kChain1);
    for (std::int64_t row = 0; row < logits.rows; ++row)
      digest.add_row(std::span(logits.values)
                         .subspan(static_cast<std::size_t>(row * logits.cols), static_cast<std::size_t>(logits.cols)));
    EXPECT_EQ(digest.text(), expected_digest(contract, spec)) << spec.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Contracts, ModelReference, testing::ValuesIn(names_of_contracts()),
                         [](const auto& param_info) {
                           std::string name = param_info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace reprofuse::study
