// A backend and a contract that no table of the library lists: both run whole models, so that adding one changes
// nothing but its own files and a row.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/reference/reference.hpp"
#include "ops/context_state.hpp"
#include "reprofuse/sampler.hpp"
#include "study/probe/probe.hpp"
#include "support/expected_digest.hpp"
#include "support/host_backend.hpp"
#include "support/messages.hpp"
#include "support/plain_generate.hpp"

namespace reprofuse {
namespace {

using test::HostBackend;

study::ModelCase case_named(std::string_view name) {
  for (const study::ModelCase& spec : study::model_cases())
    if (spec.name == name) return spec;
  ADD_FAILURE() << "there is no case " << name;
  return study::model_cases().front();
}

study::ModelCase small_case() {
  study::ModelCase spec = study::model_cases().front();
  spec.tokens = std::min<std::int64_t>(spec.tokens, 40);  // plain loops
  return spec;
}

// y = x · Wᵀ + b by one chain of fused multiply-adds, from the last term to the first.
void linear_descending(ConstMatrix x, const WeightView& weight, const float* bias, Matrix y) {
  for (std::int64_t m = 0; m < y.rows; ++m)
    for (std::int64_t n = 0; n < y.cols; ++n) {
      float sum = 0.0F;
      for (std::int64_t k = x.cols; k-- > 0;)
        sum = std::fma(x.data[m * x.stride + k], reference::widened(weight, n, k), sum);
      y.data[m * y.stride + n] = bias == nullptr ? sum : sum + bias[n];
    }
}

class DescendingLinear final : public kernels::PreparedLinear {
 public:
  explicit DescendingLinear(std::span<const WeightView> weights) {
    for (const WeightView& weight : weights) {
      const auto* bytes = static_cast<const std::byte*>(weight.data);
      copies_.emplace_back(bytes,
                           bytes + static_cast<std::size_t>(weight.n * weight.stride) * dtype_bytes(weight.dtype));
      views_.push_back(weight);
      views_.back().data = copies_.back().data();
    }
  }
  std::size_t workspace_bytes(std::int64_t) const override { return 0; }
  std::string implementation() const override { return "descending"; }
  std::optional<kernels::NonFinite> run(const kernels::LinearCall& call) const override {
    for (std::size_t i = 0; i < views_.size(); ++i)
      linear_descending(call.x, views_[i], call.outputs[i].bias, call.outputs[i].y);
    return std::nullopt;
  }

 private:
  std::vector<std::vector<std::byte>> copies_;
  std::vector<WeightView> views_;
};

// What a contract of one's own consists of: a scheme with its reference, kernels for a backend, and a row.
constexpr kernels::ExternalLinear kDescendingOnCpu[] = {
    {"cpu",
     [](const kernels::Backend&, const kernels::LayerOptions&, std::span<const WeightView> weights)
         -> std::unique_ptr<kernels::PreparedLinear> { return std::make_unique<DescendingLinear>(weights); }}};
constexpr kernels::LinearScheme kLinearDescending{
    .name = "descending", .reference = linear_descending, .max_terms = 4096, .external = kDescendingOnCpu};
constexpr Numerics kDescending{.name = "descending",
                               .summary = "one chain, from the last term to the first",
                               .linear = &kLinearDescending,
                               .attention = &reference::kAttentionFma1,
                               .cache = &reference::kCacheBf16,
                               .elementwise = &reference::kElementwiseFma1};

Context host_context(const Numerics& contract) {
  return make_context(std::make_shared<HostBackend>(), contract);
}

Context cpu_context(const Numerics& contract) {
  return make_context(parse_device("cpu").backend->open({.ordinal = 0, .isa = std::nullopt, .threads = 2}), contract);
}

std::string digest(const Context& context, const study::ModelCase& spec, std::int64_t chunk) {
  return study::logits_digest(*study::make_model(context, spec), spec, {.chunk = chunk, .page_size = 16});
}

TEST(OwnBackend, GivesTheCommittedLogitsOfEveryContract) {
  for (const Numerics& contract : contracts()) {
    const study::ModelCase spec = case_named("llama-f32");
    EXPECT_EQ(digest(host_context(contract), spec, 512), study::expected_digest(contract, spec)) << contract.name;
  }
}

TEST(OwnBackend, ReplaysDecodeStepsWithTheBitsOfOnePass) {
  const auto backend = std::make_shared<HostBackend>();
  const Context context = make_context(backend, contracts().front());
  const study::ModelCase spec = small_case();
  const std::string in_one_pass = digest(context, spec, 512);
  EXPECT_EQ(backend->replays, 0);
  EXPECT_EQ(digest(context, spec, 1), in_one_pass);
  EXPECT_EQ(backend->replays, spec.tokens);
  EXPECT_EQ(digest(cpu_context(contracts().front()), spec, 1), in_one_pass);
}

// Of a text that grows the sampler is sent what is new. A slot that another text takes over starts anew.
TEST(OwnBackend, IsGivenEachTokenOfATextOnce) {
  const auto backend = std::make_shared<HostBackend>();
  constexpr std::int64_t kVocabulary = 50;
  const Sampler sampler(make_context(backend, contracts().front()), kVocabulary, 4);
  const std::vector<float> logits(4 * kVocabulary);
  const auto ids_given = [&](std::vector<SampleInput> inputs) {
    const std::int64_t before = backend->seen_ids;
    for (SampleInput& input : inputs) input.params.repetition_penalty = 2.0F;
    sampler.run({logits.data(), static_cast<std::int64_t>(inputs.size()), kVocabulary, kVocabulary}, inputs);
    return backend->seen_ids - before;
  };
  const std::vector<std::int32_t> text = {1, 2, 3, 4, 5, 6, 7, 8, 9}, other = {1, 2, 9, 9, 9, 9, 9};
  const auto row = [](std::span<const std::int32_t> history, std::int32_t slot) {
    return SampleInput{.params = {}, .history = history, .slot = slot};
  };
  const auto begin = [&](std::size_t size) { return std::span(text).first(size); };
  EXPECT_EQ(ids_given({row(begin(5), 3)}), 5);
  EXPECT_EQ(ids_given({row(begin(6), 3), row(begin(4), 0)}), 1 + 4);
  EXPECT_EQ(ids_given({row(begin(7), 3), row(begin(8), 3), row(begin(9), 3)}), 1 + 2 + 3) << "two guesses";
  EXPECT_EQ(ids_given({row(begin(8), 3)}), 1) << "the first one was right";
  EXPECT_EQ(ids_given({row(other, 3), row(begin(8), 0)}), 7 + 4);
  EXPECT_EQ(ids_given({row(begin(8), -1)}), 8);
}

TEST(OwnBackend, AnswersLikeTheCpu) {
  const study::ModelCase spec = small_case();
  const auto answer = [&](const Context& context) {
    return model::plain_generate(*study::make_model(context, spec), study::case_tokens(spec),
                                 {.max_tokens = 8,
                                  .sampling = {.temperature = 0.8F, .repetition_penalty = 1.2F},
                                  .prefill_chunk = 16,
                                  .page_size = 16})
        .tokens;
  };
  EXPECT_EQ(answer(host_context(contracts().front())), answer(cpu_context(contracts().front())));
}

TEST(OwnBackend, NamesTheOpWhoseResultIsNotFinite) {
  const Context context = host_context(contracts().front());
  const float weight[] = {1.0F, 2.0F}, x[] = {1.0F, INFINITY};
  Buffer device_weight(context, sizeof(weight)), device_x(context, sizeof(x)), device_y(context, sizeof(float));
  copy_to_device(context, device_weight.as<void>(), weight, sizeof(weight));
  copy_to_device(context, device_x.as<void>(), x, sizeof(x));
  const WeightView view{device_weight.as<float>(), DType::kF32, 1, 2, 2};
  const LinearLayer layer(context, {&view, 1}, "tested");
  const Workspace workspace(context, layer.workspace_bytes(1));
  const LinearOutput output{{device_y.as<float>(), 1, 1, 1}, nullptr};
  layer.run({device_x.as<float>(), 1, 2, 2}, {&output, 1}, workspace);
  try {
    check_workspace(context, workspace.data(), nullptr);
    FAIL() << "nothing was found";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "linear 'tested' row 0 column 0: the result is not finite");
  }
  check_workspace(context, workspace.data(), nullptr);  // told once
}

TEST(OwnContract, HasTheSameBitsOnBothBackendsAndNoOthers) {
  const study::ModelCase spec = small_case();
  const std::string expected = digest(host_context(kDescending), spec, 512);
  EXPECT_EQ(digest(cpu_context(kDescending), spec, 512), expected);
  EXPECT_EQ(digest(cpu_context(kDescending), spec, 7), expected);
  for (const Numerics& contract : contracts()) EXPECT_NE(digest(cpu_context(contract), spec, 512), expected);
}

TEST(OwnContract, ItsLimitIsChecked) {
  const std::vector<float> weight(4097);
  const WeightView view{weight.data(), DType::kF32, 1, 4097, 4097};
  try {
    const LinearLayer layer(cpu_context(kDescending), {&view, 1}, "long");
    FAIL() << "k = 4097 was taken";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "linear 'long': k = 4097 is more than the 4096 terms whose sum contract descending can hold");
  }
}

TEST(OwnContract, ABackendWithoutKernelsForASchemeSaysSo) {
  constexpr kernels::AttentionScheme kUnknown{.name = "unknown", .rotary = nullptr, .attention = nullptr, .caches = {}};
  Numerics contract = kDescending;
  contract.attention = &kUnknown;
  try {
    cpu_context(contract);
    FAIL() << "attention 'unknown' was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_STREQ(error.what(), "the cpu backend has no kernels for attention by 'unknown'");
  }
}

TEST(OwnContract, ACacheFormatThatTheAttentionDoesNotHaveIsRefused) {
  constexpr kernels::CacheFormat kBytes{.name = "bytes", .element_bytes = 1, .unit_bytes = 1};
  Numerics contract = kDescending;
  contract.cache = &kBytes;
  for (const bool on_cpu : {true, false})
    EXPECT_EQ(error_of([&] { on_cpu ? cpu_context(contract) : host_context(contract); }),
              "attention by 'fma-1' has no cache format 'bytes', which numerics 'descending' combine with it");
}

TEST(OpRegistry, GivesIndicesBackWithoutMemory) {
  OpRegistry registry;
  EXPECT_EQ(registry.add("a", {}, OpKind::kNorm), 0U);
  EXPECT_EQ(registry.add("b", {}, OpKind::kNorm), 1U);
  registry.remove(0);
  EXPECT_EQ(registry.add("c", {}, OpKind::kNorm), 0U) << "the smallest that is free";
  EXPECT_EQ(registry.add("d", {}, OpKind::kNorm), 2U);
  static_assert(noexcept(registry.remove(0)));
}

TEST(Devices, HaveNames) {
  EXPECT_EQ(Context::open("cpu").device(), "cpu");
  EXPECT_EQ(host_context(contracts().front()).device(), HostBackend().name());
  EXPECT_EQ(device_names(), "cpu, cuda, cuda:N");
  EXPECT_EQ(parse_device("cuda").ordinal, 0);
  EXPECT_EQ(parse_device("cuda:3").ordinal, 3);
  EXPECT_EQ(parse_device("cuda:3").backend->name, "cuda");
  for (const char* name : {"", "tpu", "cpu:0", "cuda:", "cuda:x", "cuda:-1", "cuda:1 ", "cuda:99999999999", "CUDA"})
    try {
      Context::open(name);
      ADD_FAILURE() << name << " was opened";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      EXPECT_EQ(error.what(), fmt::format("device '{}' does not exist; there are {}", name, device_names()));
    }
}

TEST(Devices, ThatHaveNoThreadsTakeNone) {
  try {
    Context::open("cuda", kDefaultNumerics, std::nullopt, 2);
    FAIL() << "threads of a GPU";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "device 'cuda' takes neither an instruction set nor threads");
  }
}

}  // namespace
}  // namespace reprofuse
