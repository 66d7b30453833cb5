#include "study/bench/memory.hpp"

#include <malloc.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "base/check.hpp"
#include "engine/engine.hpp"
#include "ops/context_state.hpp"
#include "study/seeded/models.hpp"

namespace reprofuse::study {
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
