// Engines, which answer over a model, and their answers.
#include "reprofuse/engine.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "api/handles.hpp"
#include "base/check.hpp"
#include "engine/service.hpp"
#include "model/model.hpp"
#include "reprofuse/checkpoint.hpp"

namespace reprofuse {
namespace {

engine::EngineOptions options_of(const model::Model& model, const EngineOptions& options) {
  require(options.kv_bytes >= 0, "kv_bytes = {} is below 0", options.kv_bytes);
  require(options.max_queue >= 1, "max_queue = {} is below 1", options.max_queue);
  engine::EngineOptions made;
  made.max_batch = options.max_batch;
  made.max_rows = std::max(options.max_rows, options.max_batch);
  made.prefix_cache = options.prefix_cache;
  made.speculation = options.speculation;
  engine::check_limits(made);  // before memory is made of them
  const std::int64_t bytes = options.kv_bytes == 0 ? engine::default_kv_bytes(model, made) : options.kv_bytes;
  made.kv_pages = engine::kv_pages_within(model, bytes, made.page_size);
  const std::int64_t held = made.kv_pages * made.page_size;  // no overflow: a page has more bytes than positions
  // Else the memory of a machine would decide how long an answer may be.
  require(
      held >= model.max_positions(),
      "{} bytes of keys and values hold {} tokens, fewer than the {} of the longest text. Load the model with fewer "
      "max_positions, or give more kv_bytes",
      bytes, held, model.max_positions());
  return made;
}

engine::Request request_of(const Request& request, const Checkpoint& checkpoint) {
  return {.prompt = request.prompt,
          .sampling = request.sampling,
          .max_tokens = request.max_tokens,
          .choices = request.choices,
          .priority = request.priority,
          .stop_tokens = request.stop_tokens.value_or(checkpoint.stop_tokens()),
          .stop_strings = request.stop_strings,
          .keep_stop_string = request.keep_stop_string,
          .skip_special_tokens = request.skip_special_tokens,
          .logprobs = request.logprobs,
          .prompt_logprobs = request.prompt_logprobs,
          .digest = request.digest};
}

void add(Completion& completion, Update& update) {
  for (AnswerToken& token : update.tokens) {
    completion.tokens.push_back(token.id);
    completion.text += token.text;
    if (token.likelihood) completion.likelihoods.push_back(std::move(*token.likelihood));
  }
  std::move(update.prompt.begin(), update.prompt.end(), std::back_inserter(completion.prompt));
  if (!update.end) return;
  completion.text += update.end->text;
  completion.finish_reason = update.end->finish_reason;
  completion.digest = update.end->digest;
}

}  // namespace

struct Engine::Impl {
  Impl(const Model& loaded, const model::Model& inside, const EngineOptions& options)
      : model(loaded), service(make_engine(loaded, inside, options), {.max_queue = options.max_queue}) {}

  static std::unique_ptr<engine::Engine> make_engine(const Model& loaded, const model::Model& inside,
                                                     const EngineOptions& options) {
    std::optional<Tokenizer> tokenizer;
    if (loaded.checkpoint().has_tokenizer()) tokenizer = loaded.checkpoint().tokenizer();
    return std::make_unique<engine::Engine>(inside, options_of(inside, options), std::move(tokenizer));
  }

  Model model;  // outlives the service
  mutable engine::Service service;
};

struct Answers::Impl {
  std::shared_ptr<const Engine::Impl> engine;  // outlives the answers
  std::unique_ptr<engine::Answers> answers;    // none: cancelled
};

Answers::Answers(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Answers::~Answers() = default;
Answers::Answers(Answers&&) noexcept = default;
Answers& Answers::operator=(Answers&&) noexcept = default;

std::optional<Update> Answers::next(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kMaxTimeout = std::chrono::hours(24);  // beyond it clocks overflow
  return impl_->answers ? impl_->answers->next(std::min(timeout, kMaxTimeout)) : std::nullopt;
}

bool Answers::finished() const {
  return !impl_->answers || impl_->answers->finished();
}

void Answers::cancel() {
  impl_->answers.reset();
}

Engine::Engine(const Model& model, const EngineOptions& options)
    : impl_(std::make_shared<const Impl>(model, model.impl_->model, options)) {}

Answers Engine::submit(const Request& request) const {
  auto answers = impl_->service.submit(request_of(request, model().checkpoint()));
  return Answers(std::make_unique<Answers::Impl>(Answers::Impl{impl_, std::move(answers)}));
}

std::vector<Completion> Engine::generate(const Request& request) const {
  Answers answers = submit(request);
  std::vector<Completion> completions(static_cast<std::size_t>(request.choices));
  while (!answers.finished()) {
    std::optional<Update> update = answers.next(std::chrono::hours(1));
    if (!update) continue;
    if (update->end && update->end->finish_reason == FinishReason::kError) {
      if (update->end->by_memory) throw std::bad_alloc();
      fail(update->end->error_code, "{}", update->end->error);
    }
    add(completions[static_cast<std::size_t>(update->choice)], *update);
  }
  return completions;
}

EngineStats Engine::stats() const {
  return impl_->service.stats();
}

const Model& Engine::model() const {
  return impl_->model;
}

std::int64_t Engine::max_positions() const {
  return impl_->service.engine().max_positions();
}

}  // namespace reprofuse
