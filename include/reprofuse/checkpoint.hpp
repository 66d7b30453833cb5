// A model on disk, in the layout of Hugging Face: config.json, safetensors files, tokenizer.json, a chat template.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprofuse/chat_template.hpp"
#include "reprofuse/export.hpp"
#include "reprofuse/rotary.hpp"
#include "reprofuse/sampling.hpp"
#include "reprofuse/tokenizer.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse {

// What config.json says, resolved and checked.
struct ModelFacts {
  std::string architecture;  // "LlamaForCausalLM"
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t max_positions = 0;  // the longest text that the model declares
  std::int64_t parameters = 0;
  double rms_norm_eps = 0;
  bool tied_embeddings = false;  // the head is the embedding matrix
};

struct Tensor {
  std::string name;
  DType dtype = DType::kBF16;
  std::vector<std::int64_t> shape;  // matrices are [outputs, inputs]
  std::size_t bytes = 0;            // of all elements
};

// Immutable: copies are cheap and share the open files, and any number of threads may use one.
class REPROFUSE_API Checkpoint {
 public:
  // Opens the files and reads their headers; weights are read when something needs them.
  // Throws kInvalidArgument or kUnsupported with file, key and value. A tokenizer or a chat template that is missing or
  // not supported is no error here: tokenizer() and chat_template() then throw with the reason.
  static Checkpoint open(const std::string& folder);

  const std::string& folder() const;
  const ModelFacts& facts() const;
  const RotaryConfig& rotary() const;                    // for rotary_table()
  const std::vector<std::int32_t>& stop_tokens() const;  // any of them ends an answer
  SamplingParams suggested_sampling() const;  // what generation_config.json asks for: greedy unless it says do_sample

  std::size_t tensor_count() const;
  Tensor tensor(std::size_t index) const;      // in the order of the forward pass
  Tensor tensor(std::string_view name) const;  // throws kInvalidArgument where there is none
  // Fills memory of the caller, as many bytes as the tensor has, with its elements, little-endian as in the file.
  // Throws kInvalidArgument where the file cannot be read, or has changed since it was opened.
  void read_tensor(std::string_view name, std::span<std::byte> memory) const;

  // A name for the model's bits: SHA-256 over its constants and all tensors, in hex. Reads every weight.
  std::string digest(const Progress& progress = {}) const;

  // The getters throw kUnsupported, with the reason, where the folder has none that this build understands.
  bool has_tokenizer() const;
  bool has_chat_template() const;
  Tokenizer tokenizer() const;
  ChatTemplate chat_template() const;

  // A prompt as it is, with the special tokens that the folder's files put around a text.
  std::vector<std::int32_t> encode_prompt(std::string_view text) const;
  // Messages through the chat template, as tokens.
  std::vector<std::int32_t> encode_chat(const std::vector<ChatMessage>& messages,
                                        const ChatOptions& options = {}) const;

 private:
  friend class Model;
  struct Impl;
  explicit Checkpoint(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace reprofuse
