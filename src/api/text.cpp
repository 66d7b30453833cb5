// Chat templates, and tokens to text while they come.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "api/handles.hpp"
#include "base/check.hpp"
#include "base/fp_environment.hpp"
#include "reprofuse/chat_template.hpp"
#include "reprofuse/tokenizer.hpp"
#include "text/chat_template.hpp"
#include "text/tokenizer/detokenizer.hpp"

namespace reprofuse {
namespace {

using nlohmann::ordered_json;

ordered_json parse(std::string_view json, const char* what) {
  try {
    return ordered_json::parse(json);
  } catch (const ordered_json::parse_error& error) {
    fail(ErrorCode::kInvalidArgument, "{} are not JSON: it goes wrong at byte {}", what, error.byte);
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

}  // namespace reprofuse
