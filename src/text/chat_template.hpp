// A model's chat template: turns messages into the text that the model was trained to continue.
// Jinja2 as Hugging Face sets it up, or an Error with the line and the thing that is not supported.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "base/json.hpp"
#include "text/date.hpp"
#include "text/jinja/value.hpp"

namespace reprofuse::text {

namespace jinja {
class Markers;
}

// What a chat template is given beside the messages and the special tokens.
struct ChatVariables {
  bool add_generation_prompt = true;
  nlohmann::ordered_json tools;  // functions the model may call; null: none
  DateTime date;                 // what strftime_now() tells
  BasicOwnedJson<nlohmann::ordered_json> variables = nlohmann::ordered_json::object();  // others, by name
};

class ChatTemplate {
 public:
  // `name` begins every error message: "chat template of model X".
  // With markers, `source` is marked by them, and so is what it renders.
  ChatTemplate(std::string_view source, std::string name, const jinja::Limits& limits = {},
               std::shared_ptr<const jinja::Markers> markers = nullptr);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // `messages` is a list of {"role": ..., "content": ...}, `special_tokens` an object: {"bos_token": "<s>", ...}. A
  // function of its arguments alone; any thread may call it.
  std::string render(const nlohmann::ordered_json& messages, const ChatVariables& given,
                     const nlohmann::ordered_json& special_tokens) const;

  // What it may be given, by name: it may ask for nothing else. See jinja::free_names().
  const std::set<std::string>& variables() const { return variables_; }

  // With these variables and no others.
  std::string render_variables(const nlohmann::ordered_json& variables, const DateTime& date = {}) const;

 private:
  struct Parsed;

  std::unique_ptr<const Parsed> parsed_;
  std::string name_;
  jinja::Limits limits_;
  std::shared_ptr<const jinja::Markers> markers_;
  std::set<std::string> variables_;
};

}  // namespace reprofuse::text
