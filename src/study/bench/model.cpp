#include "study/bench/model.hpp"

#include <algorithm>
#include <chrono>
#include <memory>

#include "base/check.hpp"
#include "checkpoint/config.hpp"
#include "model/runner.hpp"
#include "ops/context_state.hpp"
#include "study/bench/machine.hpp"
#include "study/seeded/models.hpp"

namespace reprofuse::study {
namespace {

using checkpoint::Architecture;
using checkpoint::ModelConfig;

struct Shape {
  std::string_view name;
  Architecture architecture;
  std::int64_t layers, hidden, heads, kv_heads, head_dim, mlp, vocabulary;
  bool tied;
};

constexpr Shape kShapes[] = {
    {"llama-3.2-1b", Architecture::kLlama, 16, 2048, 32, 8, 64, 8192, 128256, true},
    {"llama-3.2-3b", Architecture::kLlama, 28, 3072, 24, 8, 128, 8192, 128256, true},
    {"llama-8b", Architecture::kLlama, 32, 4096, 32, 8, 128, 14336, 128256, false},
    {"qwen3-4b", Architecture::kQwen3, 36, 2560, 32, 8, 128, 9728, 151936, true},
    {"qwen3-14b", Architecture::kQwen3, 40, 5120, 40, 8, 128, 17408, 151936, false},
};
constexpr DType kWeights = DType::kBF16;

std::int64_t decoded_text(const ModelBenchOptions& options) {
  return options.context + options.steps + kWarmUpSteps;
}

std::int64_t longest_text(const ModelBenchOptions& options) {
  std::int64_t longest = decoded_text(options);
  for (const std::int64_t prompt : options.prompts) longest = std::max(longest, prompt);
  return longest;
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void reserve(model::Sequence& sequence, std::int64_t tokens) {
  require(sequence.reserve(tokens), "the cache of the benchmark is too small");
}

// Tokens per second of filling every text's context.
double prefill(model::Runner& runner, std::span<model::Sequence> texts, std::int64_t context, std::int64_t rows) {
  const std::int64_t vocabulary = runner.model().config().vocab_size;
  const double seconds = seconds_of([&] {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::vector<std::int32_t> tokens = random_tokens(i, context, vocabulary);
      for (std::int64_t begin = 0; begin < context; begin += rows) {
        const auto count = static_cast<std::size_t>(std::min(rows, context - begin));
        reserve(texts[i], static_cast<std::int64_t>(count));
        const model::TokenChunk chunk{&texts[i], std::span(tokens).subspan(static_cast<std::size_t>(begin), count),
                                      model::Logits::kLast};
        runner.run(std::span(&chunk, 1));
      }
    }
  });
  return static_cast<double>(context) * static_cast<double>(texts.size()) / seconds;
}

Times decode(model::Runner& runner, std::vector<model::Sequence>& texts, int steps) {
  const std::int32_t token = 1;
  std::vector<double> seconds;
  constexpr int kWarmUp = 3;
  for (int step = 0; step < kWarmUp + steps; ++step) {
    std::vector<model::TokenChunk> chunks;
    for (model::Sequence& text : texts) {
      reserve(text, 1);
      chunks.push_back({&text, std::span(&token, 1), model::Logits::kLast});
    }
    const double taken = seconds_of([&] { runner.run(chunks); });
    if (step >= kWarmUp) seconds.push_back(taken);
  }
  return summarise(std::move(seconds));
}

}  // namespace

std::vector<std::string_view> published_shapes() {
  std::vector<std::string_view> names;
  for (const Shape& shape : kShapes) names.push_back(shape.name);
  return names;
}

ModelConfig published_shape(std::string_view name) {
  for (const Shape& shape : kShapes) {
    if (shape.name != name) continue;
    ModelConfig config;
    config.architecture = shape.architecture;
    config.vocab_size = shape.vocabulary;
    config.hidden_size = shape.hidden;
    config.intermediate_size = shape.mlp;
    config.layers = shape.layers;
    config.heads = shape.heads;
    config.kv_heads = shape.kv_heads;
    config.head_dim = shape.head_dim;
    config.max_positions = kPublishedPositions;
    config.rms_norm_eps = 1e-5;
    config.rotary.theta = 500000.0;
    config.tied_embeddings = shape.tied;
    config.qk_norm = checkpoint::traits_of(shape.architecture).qk_norm;
    config.layer_windows.assign(static_cast<std::size_t>(shape.layers), 0);
    return config;
  }
  fail(ErrorCode::kInvalidArgument, "there is no shape '{}'; there are {}", name, fmt::join(published_shapes(), ", "));
}

std::unique_ptr<model::Model> make_bench_model(const Context& context, const ModelBenchOptions& options,
                                               const model::TeamPlace& place) {
  const auto source = std::make_shared<RandomSource>(options.config, kWeights, 1);
  return std::make_unique<model::Model>(context, source, longest_text(options), Progress{}, place);
}

void bench_model(const model::Model& model, const ModelBenchOptions& options,
                 const std::function<void(const ModelBenchRow&)>& report) {
  const Context& context = model.context();
  const std::int64_t text = decoded_text(options);
  for (const std::int64_t batch : options.batches) {
    const std::int64_t pages = batch * ((text + model::kDefaultPageSize - 1) / model::kDefaultPageSize);
    model::KvCache cache(context, model.own_config(), pages);
    model::Runner runner(model, cache,
                         {.rows = std::max(batch, std::min(options.prefill_rows, options.context)),
                          .sequences = batch,
                          .logit_rows = batch});
    std::vector<model::Sequence> texts;
    for (std::int64_t i = 0; i < batch; ++i) texts.emplace_back(cache);
    ModelBenchRow row{
        .numerics = std::string(context.numerics()),
        .batch = batch,
        .context = options.context,
        .prefill_per_second = prefill(runner, texts, options.context, options.prefill_rows),
        .step = decode(runner, texts, options.steps),
        .weight_bytes = static_cast<double>(checkpoint::parameter_count(options.config)) * dtype_bytes(kWeights),
        .kv_bytes = 0};
    // Of an untied model, one row of the embedding is read per text, not all of it.
    if (!options.config.tied_embeddings)
      row.weight_bytes -= static_cast<double>(options.config.vocab_size * options.config.hidden_size) * 2;
    row.kv_bytes = static_cast<double>(model::KvCache::bytes_per_page(context, options.config, 16)) / 16 *
                   static_cast<double>(batch * options.context);
    report(row);
  }
}

void bench_prompts(const model::Model& model, const ModelBenchOptions& options,
                   const std::function<void(const PromptBenchRow&)>& report) {
  for (const std::int64_t prompt : options.prompts) {
    const std::int64_t pages = (prompt + model::kDefaultPageSize - 1) / model::kDefaultPageSize;
    model::KvCache cache(model.context(), model.own_config(), pages);
    const std::int64_t rows = std::min(options.prefill_rows, prompt);
    model::Runner runner(model, cache, {.rows = rows, .sequences = 1, .logit_rows = 1});
    double best = 0;
    for (int round = 0; round < 2; ++round) {
      model::Sequence text(cache);
      best = std::max(best, prefill(runner, std::span(&text, 1), prompt, rows));
    }
    report({.numerics = std::string(model.context().numerics()), .tokens = prompt, .tokens_per_second = best});
  }
}

double streaming_bandwidth(const Context& context) {
  constexpr std::size_t kBytes = std::size_t{1} << 30;
  const kernels::Backend& backend = *context.state().backend;
  if (!backend.capabilities().graphs) {
    StreamingRead read(kBytes, backend.required_pool());
    std::size_t bytes = 0;
    std::vector<double> seconds(9);
    for (double& taken : seconds) taken = seconds_of([&] { bytes = read.run(kBytes / 4); });
    return static_cast<double>(bytes) / summarise(std::move(seconds)).median;
  }
  const Buffer memory(context, kBytes);
  const Buffer sink(context, sizeof(std::uint32_t));
  const Times times = summarise(time_replays(
      backend, 10, [&](void* stream) { backend.enqueue_read(memory.as<void>(), kBytes, sink.as<void>(), stream); }));
  return static_cast<double>(kBytes) / times.median;
}

}  // namespace reprofuse::study
