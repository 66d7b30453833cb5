#include "engine/text_format.hpp"

#include <filesystem>

#include "base/check.hpp"
#include "checkpoint/json_reader.hpp"

namespace reprofuse::engine {
namespace {

using checkpoint::Json;
using checkpoint::JsonReader;
using nlohmann::ordered_json;

constexpr std::size_t kMaxTextBytes = 16 << 20;
constexpr std::string_view kSpecialTokens[] = {"bos_token", "eos_token", "unk_token", "pad_token"};

// A link to nothing counts as there: reading it then fails and says so.
std::optional<std::string> read_if_there(const std::string& folder, const std::string& file) {
  const std::filesystem::path path = std::filesystem::path(folder) / file;
  std::error_code ignored;
  if (symlink_status(path, ignored).type() == std::filesystem::file_type::not_found) return std::nullopt;
  return checkpoint::read_text_file(path.string(), path.string(), kMaxTextBytes);
}

// A special token is written as its text, or as an object with its "content".
ordered_json read_special_tokens(JsonReader& reader) {
  ordered_json tokens = ordered_json::object();
  for (const std::string_view key : kSpecialTokens) {
    const Json* value = reader.find(key);
    if (value == nullptr) continue;
    const Json& content = value->is_object() && value->contains("content") ? (*value)["content"] : *value;
    require(content.is_string(), "{}: {} is {}, neither a string nor an object with a string 'content'", reader.file(),
            key, checkpoint::shown(*value));
    tokens[std::string(key)] = content.get<std::string>();
  }
  return tokens;
}

// One template, or a list of named ones of which "default" counts.
std::optional<std::string> read_template(JsonReader& reader) {
  const Json* value = reader.find("chat_template");
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  require(value->is_array(), "{}: chat_template is {}, neither a string nor a list", reader.file(),
          checkpoint::shown(*value));
  for (const Json& named : *value) {
    require(named.is_object(), "{}: chat_template holds {}, which is no object", reader.file(),
            checkpoint::shown(named));
    JsonReader entry(named, reader.file(), "chat_template.");
    if (entry.optional_string("name") == "default") return entry.optional_string("template");
  }
  fail(ErrorCode::kInvalidArgument, "{}: chat_template has no entry named 'default'", reader.file());
}

// Runs `load`; what it throws becomes the reason why there is nothing.
template <typename Load>
std::string reason_of(const Load& load) {
  try {
    load();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TextFormat::TextFormat(const std::string& folder) {
  why_no_tokenizer_ = reason_of([&] { load_tokenizer(folder); });
  why_no_chat_template_ = reason_of([&] { load_template(folder); });
}

void TextFormat::load_tokenizer(const std::string& folder) {
  tokenizer_ = text::Tokenizer::load(std::filesystem::path(folder) / "tokenizer.json");
}

void TextFormat::load_template(const std::string& folder) {
  std::optional<std::string> source = read_if_there(folder, "chat_template.jinja");
  const std::string file = (std::filesystem::path(folder) / "tokenizer_config.json").string();
  if (const auto text = read_if_there(folder, "tokenizer_config.json")) {
    const Json config = checkpoint::parse_json_object(*text, file);
    JsonReader reader(config, file);
    special_tokens_ = read_special_tokens(reader);
    if (!source) source = read_template(reader);
  }
  require(source.has_value(), "{} has no chat template, neither chat_template.jinja nor in tokenizer_config.json",
          folder);
  for (const std::string_view token : {kSpecialTokens[0], kSpecialTokens[1]})
    require(special_tokens_.contains(token) || source->find(token) == std::string::npos,
            "the chat template of {} uses {}, which tokenizer_config.json does not define", folder, token);
  template_uses_date_ = source->find("strftime_now") != std::string::npos;
  chat_template_.emplace(*source, fmt::format("chat template of {}", folder));
}

const text::Tokenizer& TextFormat::tokenizer() const {
  if (!tokenizer_) fail(ErrorCode::kUnsupported, "there is no tokenizer, only token ids: {}", why_no_tokenizer_);
  return *tokenizer_;
}

std::vector<std::int32_t> TextFormat::encode_prompt(std::string_view prompt) const {
  return tokenizer().encode(prompt, true);
}

std::string TextFormat::render_chat(const ordered_json& messages, const text::DateTime& date) const {
  if (!chat_template_) fail(ErrorCode::kUnsupported, "{}", why_no_chat_template_);
  text::ChatOptions options;
  options.date = date;
  options.special_tokens = special_tokens_;
  return chat_template_->render(messages, options);
}

std::vector<std::int32_t> TextFormat::encode_chat(const ordered_json& messages, const text::DateTime& date) const {
  return tokenizer().encode(render_chat(messages, date), false);  // the template writes the special tokens itself
}

}  // namespace reprofuse::engine
