#include "study/bench/engine.hpp"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>

#include "base/check.hpp"
#include "engine/engine.hpp"
#include "ops/context_state.hpp"
#include "study/seeded/models.hpp"

namespace reprofuse::study {
namespace {

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

double sum_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

engine::EngineOptions engine_options(const EngineBenchOptions& options, std::int64_t batch) {
  constexpr std::int64_t kPage = model::kDefaultPageSize;
  return {.kv_pages = batch * ((options.prompt + options.tokens + kPage - 1) / kPage),
          .max_batch = batch,
          .max_rows = options.max_rows,
          .speculation = options.speculation};
}

// What happened between the arrival of all requests and their last token.
class Round {
 public:
  // Request i has the prompt of first_seed + i.
  Round(engine::Engine& engine, const EngineBenchOptions& options, std::int64_t batch, std::uint64_t first_seed)
      : answers_(static_cast<std::size_t>(batch)) {
    const std::int64_t vocabulary = engine.model().config().vocab_size;
    std::vector<engine::Request> requests(answers_.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      requests[i].prompt = random_tokens(first_seed + i, options.prompt, vocabulary);
      requests[i].max_tokens = options.tokens;
    }
    const engine::EngineStats before = engine.stats();
    const Stopwatch watch;
    for (std::size_t i = 0; i < requests.size(); ++i) engine.add(i, std::move(requests[i]));
    while (!engine.idle()) step(engine, watch);
    seconds_ = watch.seconds();
    guessed_ = engine.stats().guessed_tokens - before.guessed_tokens;
    accepted_ = engine.stats().accepted_tokens - before.accepted_tokens;
  }

  const std::vector<Answer>& answers() const { return answers_; }

  EngineBenchRow row(const EngineBenchOptions& options) const {
    const auto batch = static_cast<std::int64_t>(answers_.size());
    EngineBenchRow row;
    row.batch = batch;
    row.seconds = seconds_;
    for (const Answer& answer : answers_) row.output_tokens += static_cast<std::int64_t>(answer.size());
    row.prefill_per_second = static_cast<double>(batch * options.prompt) / first_tokens_.back();
    row.first_token = summarise(first_tokens_).median;
    if (!decode_passes_.empty()) {
      row.decode = summarise(decode_passes_);
      row.decode_per_second = static_cast<double>(decode_tokens_) / sum_of(decode_passes_);
    }
    row.guessed_tokens = guessed_;
    row.accepted_tokens = accepted_;
    return row;
  }

 private:
  void step(engine::Engine& engine, const Stopwatch& watch) {
    const bool every_answer_goes_on = first_tokens_.size() == answers_.size() && ended_ == 0;
    const double begin = watch.seconds();
    const std::vector<engine::RequestUpdate> news = engine.step();
    const double end = watch.seconds();
    if (every_answer_goes_on) decode_passes_.push_back(end - begin);
    for (const auto& [request, update] : news) {
      Answer& answer = answers_[request];
      if (answer.empty() && !update.tokens.empty()) first_tokens_.push_back(end);
      for (const engine::AnswerToken& token : update.tokens) answer.push_back(token.id);
      if (every_answer_goes_on) decode_tokens_ += static_cast<std::int64_t>(update.tokens.size());
      if (!update.end) continue;
      if (update.end->finish_reason == engine::FinishReason::kError)
        fail(ErrorCode::kNonFinite, "the answer to request {} failed: {}", request, update.end->error);
      ++ended_;
    }
  }

  std::vector<Answer> answers_;       // by request
  std::vector<double> first_tokens_;  // seconds from the start, in the order in which they came
  std::vector<double> decode_passes_;
  std::int64_t decode_tokens_ = 0;
  std::size_t ended_ = 0;
  double seconds_ = 0;
  std::int64_t guessed_ = 0;
  std::int64_t accepted_ = 0;
};

void reserve(model::Sequence& text, std::int64_t tokens) {
  invariant(text.reserve(tokens), "the cache of the benchmark is too small");
}

void fill(model::Runner& runner, model::Sequence& text, std::span<const std::int32_t> tokens) {
  const auto max_rows = static_cast<std::size_t>(runner.limits().rows);
  for (std::size_t begin = 0; begin < tokens.size(); begin += max_rows) {
    const auto next = tokens.subspan(begin, std::min(max_rows, tokens.size() - begin));
    reserve(text, static_cast<std::int64_t>(next.size()));
    const model::TokenChunk chunk{&text, next, model::Logits::kNone};
    runner.run(std::span(&chunk, 1));
  }
}

// The median time of a decode step by the model alone, in the middle of the answers.
double time_model_step(const model::Model& model, const EngineBenchOptions& options, std::int64_t batch) {
  constexpr int kWarmUp = 3;
  constexpr int kSteps = 11;
  const std::int64_t length = options.prompt + options.tokens / 2;
  const std::int32_t next = 1;
  model::KvCache cache(model.context(), model.own_config(), batch * (length / model::kDefaultPageSize + 1));
  model::Runner runner(model, cache, {.rows = options.max_rows, .sequences = batch, .logit_rows = batch});
  std::vector<model::Sequence> texts;
  for (std::int64_t i = 0; i < batch; ++i) texts.emplace_back(cache);
  std::vector<model::TokenChunk> step;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    fill(runner, texts[i], random_tokens(i, length, model.config().vocab_size));
    step.push_back({&texts[i], std::span(&next, 1), model::Logits::kLast});
  }
  std::vector<double> seconds;
  for (int i = 0; i < kWarmUp + kSteps; ++i) {
    for (model::Sequence& text : texts) reserve(text, 1);
    const Stopwatch watch;
    runner.run(step);
    if (i >= kWarmUp) seconds.push_back(watch.seconds());
    for (model::Sequence& text : texts) text.truncate(length);
  }
  return summarise(std::move(seconds)).median;
}

Round run_rounds(const model::Model& model, const EngineBenchOptions& options, std::int64_t batch) {
  // Kept pages of the warm-up's prompts would spare the round that counts its own, so that it has others.
  constexpr std::uint64_t kWarmUpSeed = std::uint64_t{1} << 32;
  engine::Engine engine(model, engine_options(options, batch), std::nullopt);
  const Round warm_up(engine, options, batch, kWarmUpSeed);
  return {engine, options, batch, 0};
}

}  // namespace

std::optional<double> EngineBenchRow::outside_model() const {
  if (!decode || !model_step) return std::nullopt;
  return 1 - *model_step / decode->median;
}

std::int64_t count_changed(std::span<const Answer> before, std::span<const Answer> now) {
  std::int64_t changed = 0;
  for (std::size_t i = 0; i < std::min(before.size(), now.size()); ++i) changed += before[i] != now[i] ? 1 : 0;
  return changed;
}

std::unique_ptr<model::Model> make_engine_bench_model(const Context& context,
                                                      const std::shared_ptr<const model::WeightSource>& source,
                                                      const EngineBenchOptions& options, const OnProgress& on_progress,
                                                      const model::TeamPlace& place) {
  const auto progress = [&](std::int64_t done, std::int64_t total) {
    if (on_progress)
      on_progress(fmt::format("{:.1f} of {:.1f} GB of weights", 1e-9 * static_cast<double>(done),
                              1e-9 * static_cast<double>(total)));
  };
  return std::make_unique<model::Model>(context, source, options.prompt + options.tokens, progress, place);
}

void bench_engine(const model::Model& model, const EngineBenchOptions& options, const EngineBenchObserver& observer) {
  const auto progress = [&](const std::string& doing) {
    if (observer.on_progress) observer.on_progress(doing);
  };
  std::vector<Answer> first_answers;
  for (const std::int64_t batch : options.batches) {
    progress(fmt::format("batch {}", batch));
    const Round round = run_rounds(model, options, batch);
    EngineBenchRow row = round.row(options);
    row.numerics = model.context().numerics();
    if (options.speculation == 0) row.model_step = time_model_step(model, options, batch);
    row.compared_answers = static_cast<std::int64_t>(std::min(first_answers.size(), round.answers().size()));
    row.changed_answers = count_changed(first_answers, round.answers());
    if (round.answers().size() > first_answers.size())
      first_answers.insert(first_answers.end(),
                           round.answers().begin() + static_cast<std::ptrdiff_t>(first_answers.size()),
                           round.answers().end());
    observer.on_row(row);
  }
}

namespace {

constexpr std::int64_t kAnswerTokens = 3;
constexpr std::uint64_t kSeed = 1;

// Bytes in use, as the allocator counts them: the C library's where the device shares the host's memory, else what the
// device has less of than before. What others allocate meanwhile counts, too.
class AllocatedBytes {
 public:
  explicit AllocatedBytes(const Context& context) : backend_(*context.state().backend) {}

  std::int64_t now() const {
    if (!backend_.capabilities().shares_host_memory) return -backend_.free_bytes();
    const struct mallinfo2 counts = mallinfo2();
    return static_cast<std::int64_t>(counts.uordblks + counts.hblkhd);
  }

 private:
  const kernels::Backend& backend_;
};

std::int64_t pages_of(std::int64_t tokens) {
  return (tokens + model::kDefaultPageSize - 1) / model::kDefaultPageSize;
}

engine::EngineOptions engine_options(const MemoryOptions& options, std::int64_t pages) {
  engine::EngineOptions engine;
  engine.kv_pages = pages;
  engine.max_batch = options.batch;
  engine.max_rows = std::max(options.rows, options.batch);
  engine.max_prompt_logit_rows = 1;
  engine.prefix_cache = false;
  return engine;
}

// A prefill pass of as many tokens as there may be, then decode passes of as many answers; `after_pass` after each.
void answer(const model::Model& model, engine::Engine& engine, const MemoryOptions& options,
            const std::function<void()>& after_pass) {
  const std::int64_t vocabulary = model.config().vocab_size;
  const auto ask = [&](engine::RequestId id, std::int64_t prompt) {
    engine::Request request;
    request.prompt = random_tokens(id, prompt, vocabulary);
    request.max_tokens = kAnswerTokens;
    engine.add(id, std::move(request));
  };
  const auto run = [&] {
    while (!engine.idle()) {
      for (const engine::RequestUpdate& entry : engine.step())
        if (entry.update.end && entry.update.end->finish_reason == engine::FinishReason::kError)
          fail(ErrorCode::kNonFinite, "an answer failed: {}", entry.update.end->error);
      after_pass();
    }
  };
  ask(0, options.rows);
  run();
  for (std::int64_t i = 0; i < options.batch; ++i) ask(static_cast<engine::RequestId>(i) + 1, 1);
  run();
}

// Pages that answer() needs.
std::int64_t least_pages(const MemoryOptions& options) {
  return std::max(pages_of(options.rows + kAnswerTokens), options.batch * pages_of(1 + kAnswerTokens));
}

model::Model make_model(const Context& context, std::shared_ptr<const model::WeightSource> source,
                        const MemoryOptions& options) {
  return {context, std::move(source), std::max(options.context, options.rows + kAnswerTokens)};
}

// A device loads its code and its libraries when they are first used: that is neither weights nor transient.
void load_code(const Context& context, const MemoryOptions& options, const RepeatedSource& weights) {
  checkpoint::ModelConfig config = options.config;
  config.layers = 1;
  config.layer_windows.resize(1);
  const model::Model model = make_model(context, std::make_shared<RepeatedSource>(config, weights), options);
  engine::Engine engine(model, engine_options(options, least_pages(options)), std::nullopt);
  answer(model, engine, options, [] {});
}

}  // namespace

MemoryRow measure_memory(const Context& context, const MemoryOptions& options) {
  std::shared_ptr<const model::WeightSource> weights;
  if (context.state().backend->capabilities().shares_host_memory) {
    weights = std::make_shared<RandomSource>(options.config, DType::kBF16, kSeed);  // the model may keep its tensors
  } else {
    const auto repeated = std::make_shared<RepeatedSource>(options.config, DType::kBF16, kSeed);
    load_code(context, options, *repeated);
    weights = repeated;
  }
  const AllocatedBytes allocated(context);
  MemoryRow row{.numerics = std::string(context.numerics())};

  const std::int64_t before = allocated.now();
  const model::Model model = make_model(context, weights, options);
  const std::int64_t with_weights = allocated.now();
  row.weight_bytes = with_weights - before;
  require(row.weight_bytes > 0, "the allocator of this build or machine does not tell how much it has given out");

  std::int64_t small_cache = 0;
  {
    const model::KvCache cache(context, options.config, least_pages(options));
    small_cache = allocated.now() - with_weights;
  }
  {
    // Workspaces stay with the engine, so that a pass has what it took when it has ended.
    engine::Engine engine(model, engine_options(options, least_pages(options)), std::nullopt);
    std::int64_t peak = allocated.now();
    answer(model, engine, options, [&] { peak = std::max(peak, allocated.now()); });
    row.transient_bytes = peak - with_weights - small_cache;
  }

  // The rest of the budget; an allocator may round up, so that the last pages may not fit.
  const std::int64_t page = model::KvCache::bytes_per_page(context, options.config, model::kDefaultPageSize);
  const std::int64_t room = options.budget - row.weight_bytes - row.transient_bytes;
  for (std::int64_t pages = room / page; pages >= least_pages(options);
       pages -= std::max<std::int64_t>(1, pages / 256)) {
    const std::int64_t without = allocated.now();
    {
      const model::KvCache cache(context, options.config, pages);
      row.kv_bytes = allocated.now() - without;
    }
    if (row.kv_bytes > room) continue;
    engine::Engine engine(model, engine_options(options, pages), std::nullopt);
    answer(model, engine, options, [] {});
    row.kv_tokens = pages * model::kDefaultPageSize;
    return row;
  }
  row.kv_bytes = 0;
  return row;
}

std::int64_t default_budget(const Context& context) {
  return context.state().backend->free_bytes() / 10 * 9;
}

}  // namespace reprofuse::study
