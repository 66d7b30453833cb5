// A trace has the bits of every op, and the difference of two names the op that is to blame.
#include "study/trace/trace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "kernels/reference/reference.hpp"
#include "model/kv_cache.hpp"
#include "ops/context_state.hpp"
#include "study/seeded/models.hpp"
#include "support/files.hpp"
#include "support/host_backend.hpp"
#include "support/messages.hpp"

namespace reprofuse {
namespace {

study::TraceRequest small_request(const study::ModelCase& spec) {
  const std::vector<std::int32_t> tokens = study::case_tokens(spec);
  return {.prompt = {tokens.begin(), tokens.begin() + 12}, .answer = {tokens[12]}, .positions = {}};
}

// Of positions in two pages of the cache.
study::TraceRequest request_of_two_pages(const study::ModelCase& spec) {
  const std::vector<std::int32_t> tokens = study::case_tokens(spec);
  constexpr std::int32_t kPage = model::kDefaultPageSize, kPrompt = kPage + 5;
  return {.prompt = {tokens.begin(), tokens.begin() + kPrompt},
          .answer = {tokens[kPrompt]},
          .positions = {0, 5, kPage - 1, kPage, kPrompt - 1, kPrompt}};
}

study::Trace trace_of(const Context& context, const study::ModelCase& spec, const study::TraceRequest& request) {
  return study::make_trace(*study::make_model(context, spec), request);
}

// An op of a pass as a test plants an error: which call of the schemes' functions it is, and which of its results.
struct Plant {
  int call = -1;
  int result = 0;
};
Plant g_plant;
int g_calls = 0;

void flip(void* word) {
  *static_cast<std::uint16_t*>(word) ^= 1U;  // the lowest bit of a little-endian word
}

// The bit of the last row's second element, when the call's turn has come.
void plant(std::initializer_list<Matrix> results) {
  if (g_calls++ != g_plant.call) return;
  const Matrix& y = results.begin()[g_plant.result];
  flip(y.data + (y.rows - 1) * y.stride + 1);
}

void planted_embedding(const kernels::EmbeddingCall& call) {
  reference::embedding(call);
  plant({call.x});
}
std::optional<kernels::NonFinite> planted_norm(const kernels::RmsNormCall& call) {
  const auto place = reference::rms_norm(call);
  plant({call.y, call.x});
  return place;
}
void planted_silu(const kernels::SiluGateCall& call) {
  reference::silu_gate(call);
  plant({call.y});
}
void planted_linear(ConstMatrix x, const WeightView& weight, const float* bias, Matrix y) {
  reference::linear_fma1(x, weight, bias, y);
  plant({y});
}
std::optional<kernels::NonFinite> planted_attention(const kernels::AttentionCall& call) {
  const auto place = reference::attention(call);
  plant({call.out});
  return place;
}
void planted_rotary(const kernels::RotaryCall& call) {
  reference::rotary(call);
  if (g_calls != g_plant.call || g_plant.result == 0) return plant({call.q});
  ++g_calls;
  const std::int32_t row = call.batch.rows - 1;
  const std::int32_t position = call.batch.positions[row];
  const std::int32_t slots = call.kv.page_size;
  const std::int64_t page = call.batch.page_table[position / slots];
  const std::int64_t first = page * call.kv.kv_heads * call.kv.head_dim * slots;
  auto* keys = static_cast<std::uint16_t*>(call.kv.keys) + first;
  auto* values = static_cast<std::uint16_t*>(call.kv.values) + first;
  // Element 1 of head 0.
  flip(g_plant.result == 1 ? keys + slots + position % slots : values + (position % slots) * call.kv.head_dim + 1);
}

constexpr kernels::LinearScheme kPlantedLinear{.name = "planted", .reference = planted_linear};
constexpr kernels::AttentionScheme kPlantedAttention{
    .name = "planted", .rotary = planted_rotary, .attention = planted_attention, .caches = reference::kCachesFma1};
constexpr kernels::ElementwiseScheme kPlantedElementwise{
    .name = "planted", .embedding = planted_embedding, .rms_norm = planted_norm, .silu_gate = planted_silu};
constexpr Numerics kPlanted{.name = "planted",
                            .summary = "fma-1 with one wrong bit",
                            .linear = &kPlantedLinear,
                            .attention = &kPlantedAttention,
                            .cache = &reference::kCacheBf16,
                            .elementwise = &kPlantedElementwise};

struct Expected {
  Plant plant;
  std::string op;
};

// Every result of every op of a pass, in the order of the calls: written down here, not taken from the model.
std::vector<Expected> every_result(std::int64_t layers) {
  std::vector<Expected> all;
  int call = 0;
  const auto add = [&](std::vector<std::string> results) {
    for (std::size_t i = 0; i < results.size(); ++i) all.push_back({{call, static_cast<int>(i)}, results[i]});
    ++call;
  };
  add({"model.embed_tokens"});
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i), attention = layer + "self_attn.";
    if (i == 0)
      add({layer + "input_layernorm"});
    else
      add({layer + "input_layernorm", layer + "input_layernorm.residual"});
    for (const char* name : {"q_proj", "k_proj", "v_proj"}) add({attention + name});
    add({attention + "rotary", attention + "rotary.keys", attention + "rotary.values"});
    add({attention + "attention"});
    add({attention + "o_proj"});
    add({layer + "post_attention_layernorm", layer + "post_attention_layernorm.residual"});
    for (const char* name : {"gate_proj", "up_proj", "silu", "down_proj"}) add({layer + "mlp." + name});
  }
  add({"model.norm", "model.norm.residual"});
  add({"model.norm.logit_rows"});
  add({"lm_head"});
  return all;
}

TEST(Trace, AnErrorPlantedInAnyOpIsFoundThere) {
  if constexpr (std::endian::native != std::endian::little) GTEST_SKIP() << "errors are planted in little-endian words";
  study::ModelCase spec = study::model_cases().front();
  const study::TraceRequest request{.prompt = {5, 3, 8}, .answer = {}, .positions = {}};
  const auto backend = std::make_shared<test::HostBackend>();
  backend->gather_rows = [](const kernels::GatherRowsCall& call) {
    reference::gather_rows(call);
    plant({call.y});
  };
  const Context context = make_context(backend, kPlanted);
  const auto model = study::make_model(context, spec);
  g_plant = {};
  const study::Trace right = study::make_trace(*model, request);
  const std::vector<Expected> all = every_result(model->config().layers);
  ASSERT_EQ(right.steps.size(), 1U);
  EXPECT_EQ(right.steps[0].results.size(), all.size());
  for (const Expected& expected : all) {
    g_plant = expected.plant;
    g_calls = 0;
    const study::Comparison comparison = study::compare_traces(right, study::make_trace(*model, request));
    g_plant = {};
    ASSERT_TRUE(comparison.first) << expected.op;
    EXPECT_EQ(comparison.first->op, expected.op);
    EXPECT_EQ(comparison.first->position, 2);
    EXPECT_EQ(comparison.first->positions_unseen, 2);
    EXPECT_EQ(comparison.first->differing, 1) << expected.op;
    EXPECT_EQ(comparison.first->element, 1) << expected.op;
    EXPECT_EQ(comparison.first->word_a ^ comparison.first->word_b, 1U) << expected.op;
  }
}

TEST(Trace, IsTheSameOnEveryInstructionSetAndInAnyPasses) {
  const study::ModelCase spec = study::model_cases().front();
  for (const Numerics& contract : contracts()) {
    study::TraceRequest request = request_of_two_pages(spec);
    const study::Trace whole = trace_of(make_context(std::make_shared<test::HostBackend>(), contract), spec, request);
    ASSERT_EQ(whole.steps.size(), 6U);
    for (const Isa isa : supported_isas()) {
      request.chunk = isa == Isa::kScalar ? 512 : 31;
      const auto comparison =
          study::compare_traces(whole, trace_of(Context::cpu(contract.name, isa, 2), spec, request));
      EXPECT_FALSE(comparison.first) << contract.name << ", " << isa_name(isa) << ": " << comparison.first->op;
      EXPECT_EQ(comparison.equal, 6);
    }
  }
}

const study::TracedResult& result_of(const study::TracedStep& step, const std::string& op) {
  const auto found =
      std::find_if(step.results.begin(), step.results.end(), [&](const auto& result) { return result.op == op; });
  require(found != step.results.end(), "position {} has no {}", step.position, op);
  return *found;
}

// Values are stored as they are projected, and a rotation keeps the sum of their squares: so keys and values are those
// of their position, whatever page and slot it has.
TEST(Trace, KeysAndValuesOfAPositionAreThoseThatWereProjectedThere) {
  const study::ModelCase spec = study::model_cases().front();
  const study::Trace trace = trace_of(Context::cpu("fma-1"), spec, request_of_two_pages(spec));
  const std::string attention = "model.layers.1.self_attn.";
  const auto squares = [](const study::TracedResult& row) {
    double sum = 0;
    for (std::int64_t i = 0; i < row.elements; ++i) sum += double{row.value(i)} * double{row.value(i)};
    return sum;
  };
  std::set<double> all;
  for (const study::TracedStep& step : trace.steps) {
    const study::TracedResult& projected = result_of(step, attention + "v_proj");
    EXPECT_EQ(result_of(step, attention + "rotary.values").values, projected.values) << step.position;
    const double sum = squares(result_of(step, attention + "k_proj"));
    EXPECT_NEAR(squares(result_of(step, attention + "rotary.keys")), sum, 1e-5 * sum) << step.position;
    all.insert(std::round(sum * 1e4));
  }
  EXPECT_EQ(all.size(), trace.steps.size()) << "positions have the same sums: this test could not fail";
}

// After the same ops up to the cache, which rounds what fma-1 keeps as it is.
TEST(Trace, IntegersOfACacheAreTheNumbersThatTheyStandFor) {
  const study::ModelCase spec = study::model_cases().front();
  const study::Trace whole = trace_of(Context::cpu("fma-1"), spec, request_of_two_pages(spec));
  for (const auto& [attention, cache] : {std::pair(&reference::kAttentionInt16, &reference::kCacheInt16),
                                         std::pair(&reference::kAttentionExact2, &reference::kCacheInt24)}) {
    const Numerics rounding{.name = "rounding",
                            .summary = "fma-1 with a cache of integers",
                            .linear = &reference::kLinearFma1,
                            .attention = attention,
                            .cache = cache,
                            .elementwise = &reference::kElementwiseFma1};
    const auto rounded =
        trace_of(make_context(std::make_shared<test::HostBackend>(), rounding), spec, request_of_two_pages(spec));
    ASSERT_EQ(rounded.steps.size(), whole.steps.size());
    for (std::size_t step = 0; step < whole.steps.size(); ++step)
      for (const std::string& op : {std::string("keys"), std::string("values")}) {
        const std::string name = "model.layers.0.self_attn.rotary." + op;
        const study::TracedResult& numbers = result_of(rounded.steps[step], name);
        const study::TracedResult& units = result_of(rounded.steps[step], name + ".units");
        const study::TracedResult& expected = result_of(whole.steps[step], name);
        ASSERT_EQ(numbers.elements, expected.elements);
        std::int64_t equal = 0;
        for (std::int64_t i = 0; i < numbers.elements; ++i) {
          const float unit = units.value(i * units.elements / numbers.elements);
          EXPECT_LE(std::abs(numbers.value(i) - expected.value(i)), unit / 2)
              << cache->name << " " << op << " " << i << " of step " << step;
          equal += numbers.word(i) == expected.word(i) ? 1 : 0;
        }
        EXPECT_LT(equal, numbers.elements) << "nothing was rounded: this test could not fail";
      }
  }
}

TEST(Trace, WhatASavedOneSaysIsWhatWasComputed) {
  const study::ModelCase spec = study::model_cases().front();
  const TemporaryFolder folder;
  const std::string path = folder.file("a.safetensors");
  study::Trace trace = trace_of(Context::cpu(), spec, small_request(spec));
  trace.model_digest = "of a test";
  study::write_trace(path, trace);
  const study::Trace saved = study::read_trace(path);
  EXPECT_EQ(study::trace_to_json(saved), study::trace_to_json(trace));
  EXPECT_FALSE(study::compare_traces(trace, saved).first);

  // The same text in the same passes.
  study::Trace again = trace_of(Context::cpu(), spec, study::request_of(saved));
  again.model_digest = trace.model_digest;
  EXPECT_EQ(study::trace_to_json(again), study::trace_to_json(trace));

  // Digests alone say which op, not which element.
  study::Trace digests = trace_of(Context::cpu("exact-1"), spec, [&] {
    study::TraceRequest request = study::request_of(saved);
    request.values = false;
    return request;
  }());
  digests.model_digest = trace.model_digest;
  const study::Comparison comparison = study::compare_traces(trace, digests);
  ASSERT_TRUE(comparison.first);
  EXPECT_EQ(comparison.first->op, "model.layers.0.self_attn.q_proj");
  EXPECT_FALSE(comparison.first->element);
  EXPECT_EQ(comparison.first->positions_unseen, comparison.first->position);

  digests.model_digest = "another";
  EXPECT_NE(error_of([&] { study::compare_traces(trace, digests); }).find("different models"), std::string::npos);
}

TEST(Trace, AnyBitOfAFileThatIsFlippedIsNoticed) {
  const study::ModelCase spec = study::model_cases().front();
  const TemporaryFolder folder;
  const std::string path = folder.file("a.safetensors");
  study::TraceRequest request = small_request(spec);
  request.answer.clear();
  const study::Trace trace = trace_of(Context::cpu(), spec, request);
  study::write_trace(path, trace);
  const std::string whole = read_whole_file(path);
  int told_apart = 0, tried = 0;
  for (std::size_t at = 0; at < whole.size(); at += 1 + whole.size() / 120) {
    std::string broken = whole;
    broken[at] = static_cast<char>(broken[at] ^ (1 << (at % 8)));
    write_file(path, broken);
    ++tried;
    try {
      told_apart += study::trace_to_json(study::read_trace(path)) != study::trace_to_json(trace) ? 1 : 0;
    } catch (const Error&) {
      ++told_apart;
    }
  }
  EXPECT_EQ(told_apart, tried);
}

TEST(Trace, ATokenThatFlipsIsTold) {
  const study::ModelCase spec = study::model_cases().front();
  const study::Trace a = trace_of(Context::cpu(), spec, small_request(spec));
  study::Trace b = a;
  std::swap(b.steps[0].likeliest[0], b.steps[0].likeliest[1]);
  b.tokens.back() = b.steps[0].likeliest[0].token;
  const study::Comparison comparison = study::compare_traces(a, b);
  ASSERT_TRUE(comparison.flip);
  EXPECT_EQ(comparison.flip->position, 11);
  EXPECT_EQ(comparison.flip->a[0].token, comparison.flip->b[1].token);
  EXPECT_EQ(comparison.positions, 1);  // the next step read another token
  EXPECT_EQ(comparison.text_differs_at, 12);
}

TEST(Trace, WhatCannotBeTracedIsAnErrorThatSaysWhy) {
  const study::ModelCase spec = study::model_cases().front();
  study::TraceRequest request = small_request(spec);
  request.positions = {13};
  EXPECT_NE(error_of([&] { trace_of(Context::cpu(), spec, request); }).find("position 13"), std::string::npos);
  request.positions = {3, 2};
  EXPECT_NE(error_of([&] { trace_of(Context::cpu(), spec, request); }).find("ascending"), std::string::npos);
}

}  // namespace
}  // namespace reprofuse
