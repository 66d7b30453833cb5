// Checkpoints and models.
#include <algorithm>
#include <string>
#include <vector>

#include "capi/boundary.hpp"

using reprofuse::require;
using namespace reprofuse::capi;

namespace {

const reprofuse::Checkpoint& unwrap_checkpoint(const reprofuse_checkpoint* checkpoint) {
  return unwrap(checkpoint, "checkpoint").checkpoint;
}

reprofuse::Progress progress_of(reprofuse_progress progress, void* user) {
  if (progress == nullptr) return {};
  return [=](std::int64_t done, std::int64_t total) { progress(done, total, user); };
}

}  // namespace

reprofuse_status reprofuse_checkpoint_open(const char* folder, reprofuse_checkpoint** checkpoint) {
  return create(checkpoint, "checkpoint", [&] {
    auto opened = reprofuse::Checkpoint::open(std::string(required_text(folder, "folder")));
    std::vector<std::string> names;
    for (std::size_t i = 0; i < opened.tensor_count(); ++i) names.push_back(opened.tensor(i).name);
    return new reprofuse_checkpoint{std::move(opened), std::move(names)};
  });
}

void reprofuse_checkpoint_destroy(reprofuse_checkpoint* checkpoint) {
  delete checkpoint;
}

reprofuse_status reprofuse_checkpoint_facts(const reprofuse_checkpoint* checkpoint, reprofuse_facts* facts,
                                            size_t size) {
  return guarded([&] {
    const reprofuse::Checkpoint& self = unwrap_checkpoint(checkpoint);
    const reprofuse::ModelFacts& from = self.facts();
    fill_struct(facts, size, "struct of facts", [&](auto& to) {
      to.folder = self.folder().c_str();
      to.architecture = from.architecture.c_str();
      to.vocab_size = from.vocab_size;
      to.hidden_size = from.hidden_size;
      to.intermediate_size = from.intermediate_size;
      to.layers = from.layers;
      to.heads = from.heads;
      to.kv_heads = from.kv_heads;
      to.head_dim = from.head_dim;
      to.max_positions = from.max_positions;
      to.parameters = from.parameters;
      to.rms_norm_eps = from.rms_norm_eps;
      to.tied_embeddings = from.tied_embeddings ? 1 : 0;
      to.has_tokenizer = self.has_tokenizer() ? 1 : 0;
      to.has_chat_template = self.has_chat_template() ? 1 : 0;
      to.stop_tokens = self.stop_tokens().data();
      to.stop_token_count = self.stop_tokens().size();
      to.suggested_sampling = sampling(self.suggested_sampling());
    });
  });
}

reprofuse_status reprofuse_checkpoint_rotary_table(const reprofuse_checkpoint* checkpoint, int64_t positions,
                                                   float* cos, float* sin) {
  return guarded([&] {
    const reprofuse::Checkpoint& self = unwrap_checkpoint(checkpoint);
    give_table(reprofuse::rotary_table(self.rotary(), self.facts().head_dim, positions), cos, sin);
  });
}

reprofuse_status reprofuse_checkpoint_tensor_count(const reprofuse_checkpoint* checkpoint, size_t* count) {
  return guarded([&] { receiver(count, "count") = unwrap_checkpoint(checkpoint).tensor_count(); });
}

reprofuse_status reprofuse_checkpoint_tensor(const reprofuse_checkpoint* checkpoint, size_t index,
                                             reprofuse_tensor* tensor, size_t size) {
  return guarded([&] {
    const reprofuse::Tensor from = unwrap_checkpoint(checkpoint).tensor(index);
    fill_struct(tensor, size, "struct of a tensor", [&](auto& to) {
      reprofuse::invariant(from.shape.size() <= std::size(to.shape), "a tensor of more than four dimensions");
      to.name = checkpoint->tensor_names[index].c_str();
      to.dtype = static_cast<int32_t>(from.dtype);
      to.rank = static_cast<int32_t>(from.shape.size());
      std::copy(from.shape.begin(), from.shape.end(), to.shape);
      to.bytes = from.bytes;
    });
  });
}

reprofuse_status reprofuse_checkpoint_read_tensor(const reprofuse_checkpoint* checkpoint, size_t index, void* data,
                                                  size_t bytes) {
  return guarded([&] {
    const reprofuse::Checkpoint& self = unwrap_checkpoint(checkpoint);
    require(data != nullptr || bytes == 0, "the pointer that receives the elements is null");
    self.read_tensor(self.tensor(index).name, {static_cast<std::byte*>(data), bytes});
  });
}

reprofuse_status reprofuse_checkpoint_digest(const reprofuse_checkpoint* checkpoint, reprofuse_progress progress,
                                             void* user, char digest[65]) {
  return guarded([&] {
    require(digest != nullptr, "the pointer that receives the digest is null");
    const std::string made = unwrap_checkpoint(checkpoint).digest(progress_of(progress, user));
    std::copy_n(made.c_str(), 65, digest);
  });
}

reprofuse_status reprofuse_checkpoint_tokenizer(const reprofuse_checkpoint* checkpoint,
                                                reprofuse_tokenizer** tokenizer) {
  return create(tokenizer, "tokenizer",
                [&] { return new reprofuse_tokenizer{unwrap_checkpoint(checkpoint).tokenizer()}; });
}

reprofuse_status reprofuse_checkpoint_chat_template(const reprofuse_checkpoint* checkpoint,
                                                    reprofuse_chat_template** chat_template) {
  return create(chat_template, "chat template",
                [&] { return new reprofuse_chat_template{unwrap_checkpoint(checkpoint).chat_template()}; });
}

reprofuse_status reprofuse_checkpoint_encode_prompt(const reprofuse_checkpoint* checkpoint, const char* text,
                                                    int32_t** tokens, size_t* count) {
  return guarded(
      [&] { give_tokens(unwrap_checkpoint(checkpoint).encode_prompt(required_text(text, "text")), tokens, count); });
}

reprofuse_status reprofuse_checkpoint_encode_chat(const reprofuse_checkpoint* checkpoint, const char* messages_json,
                                                  const reprofuse_chat_options* options, int32_t** tokens,
                                                  size_t* count) {
  return guarded([&] {
    const reprofuse::Checkpoint& self = unwrap_checkpoint(checkpoint);
    const std::string text =
        self.chat_template().render_json(required_text(messages_json, "list of messages"), chat_options(options));
    give_tokens(self.tokenizer().encode(text, false), tokens, count);
  });
}

reprofuse_status reprofuse_load_options_init(reprofuse_load_options* options, size_t size) {
  return guarded([&] { init_struct(options, size, "struct of load options", [](auto&) {}); });
}

reprofuse_status reprofuse_model_load(const reprofuse_context* context, const reprofuse_checkpoint* checkpoint,
                                      const reprofuse_load_options* options, reprofuse_model** model) {
  return create(model, "model", [&] {
    const auto given = options == nullptr ? reprofuse_load_options{} : read_struct(options, "struct of load options");
    return new reprofuse_model{reprofuse::Model::load(
        unwrap(context, "context").context, unwrap_checkpoint(checkpoint),
        {.max_positions = given.max_positions, .progress = progress_of(given.progress, given.user)})};
  });
}

void reprofuse_model_destroy(reprofuse_model* model) {
  delete model;
}

reprofuse_status reprofuse_model_max_positions(const reprofuse_model* model, int64_t* positions) {
  return guarded([&] { receiver(positions, "number of positions") = unwrap(model, "model").model.max_positions(); });
}
