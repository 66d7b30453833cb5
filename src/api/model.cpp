// Checkpoints with their chat templates, models, and engines that answer over one.
#include "reprofuse/model.hpp"

#include <algorithm>
#include <functional>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "base/fp_environment.hpp"
#include "base/thread_pool.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/config.hpp"
#include "engine/model_files.hpp"
#include "engine/service.hpp"
#include "model/model.hpp"
#include "reprofuse/chat_template.hpp"
#include "reprofuse/checkpoint.hpp"
#include "reprofuse/engine.hpp"
#include "reprofuse/tokenizer.hpp"
#include "text/chat_template.hpp"
#include "text/tokenizer/detokenizer.hpp"

namespace reprofuse {

// What the cheap handles of the public classes share.

// The folder's files, as the engine reads them.
struct Checkpoint::Impl {
  explicit Impl(const std::string& folder);

  engine::ModelFiles files;
  ModelFacts facts;
};

// A template of its own, or that of a checkpoint.
struct ChatTemplate::Impl {
  std::function<std::string(const nlohmann::ordered_json& messages, const text::ChatVariables& given)> render;
};

// Engines keep it alive.
struct Model::Impl {
  Checkpoint checkpoint;
  model::Model model;
};

namespace {

ModelFacts facts_of(const checkpoint::ModelConfig& config) {
  return {.architecture = std::string(checkpoint::architecture_name(config.architecture)),
          .vocab_size = config.vocab_size,
          .hidden_size = config.hidden_size,
          .intermediate_size = config.intermediate_size,
          .layers = config.layers,
          .heads = config.heads,
          .kv_heads = config.kv_heads,
          .head_dim = config.head_dim,
          .max_positions = config.max_positions,
          .parameters = checkpoint::parameter_count(config),
          .rms_norm_eps = config.rms_norm_eps,
          .tied_embeddings = config.tied_embeddings};
}

}  // namespace

Checkpoint::Impl::Impl(const std::string& folder) : files(folder), facts(facts_of(files.checkpoint().config())) {}

Checkpoint Checkpoint::open(const std::string& folder) {
  const FpEnvironment pinned;  // templates and JSON may hold numbers
  return Checkpoint(std::make_shared<const Impl>(folder));
}

const std::string& Checkpoint::folder() const {
  return impl_->files.path();
}

const ModelFacts& Checkpoint::facts() const {
  return impl_->facts;
}

const RotaryConfig& Checkpoint::rotary() const {
  return impl_->files.checkpoint().config().rotary;
}

const std::vector<std::int32_t>& Checkpoint::stop_tokens() const {
  return impl_->files.stop_tokens();
}

SamplingParams Checkpoint::suggested_sampling() const {
  return impl_->files.suggested_sampling();
}

std::size_t Checkpoint::tensor_count() const {
  return impl_->files.checkpoint().tensors().size();
}

Tensor Checkpoint::tensor(std::size_t index) const {
  require(index < tensor_count(), "tensor {} of {}: there are only {}", index, folder(), tensor_count());
  return tensor(std::string_view(impl_->files.checkpoint().tensors()[index].name));
}

Tensor Checkpoint::tensor(std::string_view name) const {
  checkpoint::TensorFacts facts = impl_->files.checkpoint().tensor(name);
  return {std::move(facts.name), facts.dtype, std::move(facts.shape), facts.bytes};
}

void Checkpoint::read_tensor(std::string_view name, std::span<std::byte> memory) const {
  impl_->files.checkpoint().read_tensor(name, memory);
}

std::string Checkpoint::digest(const Progress& progress) const {
  ThreadPool pool(available_cores());
  return checkpoint::model_digest(impl_->files.checkpoint(), pool, progress);
}

bool Checkpoint::has_tokenizer() const {
  return impl_->files.text().has_tokenizer();
}

bool Checkpoint::has_chat_template() const {
  return impl_->files.text().has_chat_template();
}

Tokenizer Checkpoint::tokenizer() const {
  return impl_->files.text().tokenizer();
}

ChatTemplate Checkpoint::chat_template() const {
  const engine::TextFormat& text = impl_->files.text();
  if (!text.has_chat_template()) fail(ErrorCode::kUnsupported, "{}", text.why_no_chat_template());
  return ChatTemplate(std::make_shared<const ChatTemplate::Impl>(
      ChatTemplate::Impl{[impl = impl_](const auto& messages, const text::ChatVariables& given) {
        return impl->files.text().render_chat(messages, given);
      }}));
}

std::vector<std::int32_t> Checkpoint::encode_prompt(std::string_view text) const {
  return impl_->files.text().encode_prompt(text);
}

std::vector<std::int32_t> Checkpoint::encode_chat(const std::vector<ChatMessage>& messages,
                                                  const ChatOptions& options) const {
  const FpEnvironment pinned;  // templates and JSON may hold numbers
  return tokenizer().encode(chat_template().render(messages, options), false);
}

Model Model::load(const Context& context, const Checkpoint& checkpoint, const LoadOptions& options) {
  return Model(std::make_shared<const Impl>(
      Impl{checkpoint, {context, checkpoint.impl_->files.source(), options.max_positions, options.progress}}));
}

const Context& Model::context() const {
  return impl_->model.context();
}

const Checkpoint& Model::checkpoint() const {
  return impl_->checkpoint;
}

std::int64_t Model::max_positions() const {
  return impl_->model.max_positions();
}

// Chat templates, and tokens to text while they come.

namespace {

using nlohmann::ordered_json;

ordered_json parse(std::string_view json, const char* what) {
  try {
    return ordered_json::parse(json);
  } catch (const ordered_json::exception& error) {
    fail(ErrorCode::kInvalidArgument, "{} are not JSON: {}", what, error.what());
  }
}

text::ChatVariables variables_of(const ChatOptions& options) {
  text::ChatVariables given;
  given.add_generation_prompt = options.add_generation_prompt;
  given.date = text::parse_date(options.date);
  if (!options.tools_json.empty()) given.tools = parse(options.tools_json, "the tools of a chat");
  if (!options.variables_json.empty()) given.variables = parse(options.variables_json, "the variables of a chat");
  return given;
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view source, std::string name, std::string_view special_tokens_json) {
  const FpEnvironment pinned;  // templates and JSON may hold numbers
  const auto parsed = std::make_shared<const text::ChatTemplate>(source, std::move(name));
  const ordered_json special_tokens = parse(special_tokens_json, "the special tokens of a chat template");
  impl_ = std::make_shared<const Impl>(
      Impl{[parsed, special_tokens](const ordered_json& messages, const text::ChatVariables& given) {
        return parsed->render(messages, given, special_tokens);
      }});
}

std::string ChatTemplate::render(const std::vector<ChatMessage>& messages, const ChatOptions& options) const {
  const FpEnvironment pinned;  // templates and JSON may hold numbers
  ordered_json list = ordered_json::array();
  for (const ChatMessage& message : messages) list.push_back({{"role", message.role}, {"content", message.content}});
  return impl_->render(list, variables_of(options));
}

std::string ChatTemplate::render_json(std::string_view messages_json, const ChatOptions& options) const {
  const FpEnvironment pinned;  // templates and JSON may hold numbers
  return impl_->render(parse(messages_json, "the messages of a chat"), variables_of(options));
}

struct StreamDetokenizer::Impl {
  text::StreamDetokenizer inside;
};

StreamDetokenizer::StreamDetokenizer(const Tokenizer& tokenizer, bool skip_special_tokens)
    : impl_(new Impl{text::StreamDetokenizer(tokenizer, skip_special_tokens)}) {}
StreamDetokenizer::~StreamDetokenizer() = default;
StreamDetokenizer::StreamDetokenizer(StreamDetokenizer&&) noexcept = default;
StreamDetokenizer& StreamDetokenizer::operator=(StreamDetokenizer&&) noexcept = default;

std::string StreamDetokenizer::push(std::int32_t id) {
  return impl_->inside.push(id);
}

std::string StreamDetokenizer::flush() {
  return impl_->inside.flush();
}

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
