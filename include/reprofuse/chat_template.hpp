// A model's chat template: turns messages into the text that the model was trained to continue.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reprofuse/export.hpp"

namespace reprofuse {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

struct ChatOptions {
  bool add_generation_prompt = true;  // end where the answer begins
  std::string date = "2024-07-26";    // what the template sees as today, never a clock: a prompt is the same tomorrow
  std::string tools_json = {};        // functions that the model may call, as a JSON array; empty: none
  std::string variables_json = {};    // others that the template reads, as a JSON object; empty: none
};

// Jinja2 as Hugging Face sets it up. Copies are cheap and share one template; any number of threads may use one.
class REPROFUSE_API ChatTemplate {
 public:
  // `name` begins every error message. special_tokens_json: {"bos_token": "<s>", ...}.
  // Throws kInvalidArgument with the line, and kUnsupported for what is not implemented. Checkpoint::chat_template()
  // gives the one of a folder.
  ChatTemplate(std::string_view source, std::string name, std::string_view special_tokens_json = "{}");

  // A function of its arguments alone.
  std::string render(const std::vector<ChatMessage>& messages, const ChatOptions& options = {}) const;
  // Messages as OpenAI's API has them: a JSON array of objects with "role" and "content", and whatever else the
  // template reads.
  std::string render_json(std::string_view messages_json, const ChatOptions& options = {}) const;

 private:
  friend class Checkpoint;
  struct Impl;
  explicit ChatTemplate(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace reprofuse
