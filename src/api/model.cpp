// Checkpoints and the models that are loaded from them.
#include "reprofuse/model.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "api/handles.hpp"
#include "base/check.hpp"
#include "base/fp_environment.hpp"
#include "base/thread_pool.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/config.hpp"
#include "reprofuse/checkpoint.hpp"
#include "reprofuse/tokenizer.hpp"

namespace reprofuse {
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

}  // namespace reprofuse
