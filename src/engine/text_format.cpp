#include "engine/text_format.hpp"

#include <filesystem>
#include <utility>

#include "base/check.hpp"
#include "base/sha256.hpp"
#include "checkpoint/json_reader.hpp"

namespace reprofuse::engine {
namespace {

using checkpoint::Json;
using checkpoint::JsonReader;
using nlohmann::ordered_json;

constexpr std::size_t kMaxTextBytes = 16 << 20;
constexpr const char* kConfigFile = "tokenizer_config.json";
constexpr std::string_view kSpecialTokens[] = {"bos_token", "eos_token", "unk_token", "pad_token"};

// A link to nothing counts as there: reading it then fails and says so.
std::optional<std::string> read_if_there(const std::string& folder, const std::string& file) {
  const std::filesystem::path path = std::filesystem::path(folder) / file;
  std::error_code ignored;
  if (symlink_status(path, ignored).type() == std::filesystem::file_type::not_found) return std::nullopt;
  return checkpoint::read_text_file(path.string(), path.string(), kMaxTextBytes);
}

std::string config_path(const std::string& folder) {
  return (std::filesystem::path(folder) / kConfigFile).string();
}

// Without a file: an object without keys.
Json read_config(const std::string& folder) {
  const auto text = read_if_there(folder, kConfigFile);
  return text ? checkpoint::parse_json_object(*text, config_path(folder)) : Json::object();
}

// A special token is written as its text, or as an object with its "content".
std::optional<std::string> read_special_token(JsonReader& reader, std::string_view key) {
  const Json* value = reader.find(key);
  if (value == nullptr) return std::nullopt;
  const Json& content = value->is_object() && value->contains("content") ? (*value)["content"] : *value;
  require(content.is_string(), "{}: {} is {}, neither a string nor an object with a string 'content'", reader.file(),
          key, checkpoint::shown(*value));
  return content.get<std::string>();
}

ordered_json read_special_tokens(JsonReader& reader) {
  ordered_json tokens = ordered_json::object();
  for (const std::string_view key : kSpecialTokens) {
    if (const auto token = read_special_token(reader, key)) tokens[std::string(key)] = *token;
  }
  return tokens;
}

// The token that goes around a prompt if `add_key` is true: one, or none.
std::vector<std::int32_t> read_added_token(JsonReader& reader, std::string_view add_key, std::string_view token_key,
                                           const Tokenizer& tokenizer) {
  // Where tokenizer.json has a template it counts, whatever this key says: transformers 5 has it so. Without one,
  // transformers 5 passes over this key; here it counts, as it did for the Llama tokenizer of transformers 4.
  const bool add = reader.optional_boolean(add_key).value_or(false);
  if (!add || tokenizer.has_template()) return {};
  const auto token = read_special_token(reader, token_key);
  require(token.has_value(), "{}: {} is true, but there is no {}", reader.file(), add_key, token_key);
  const auto id = tokenizer.token_id(*token);
  require(id.has_value(), "{}: {} is true, but tokenizer.json has no {} {}", reader.file(), add_key, token_key,
          checkpoint::Shown{*token});
  return {*id};
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
  Tokenizer tokenizer = Tokenizer::load(std::filesystem::path(folder) / "tokenizer.json");
  const Json config = read_config(folder);
  JsonReader reader(config, config_path(folder));
  before_prompt_ = read_added_token(reader, "add_bos_token", "bos_token", tokenizer);
  after_prompt_ = read_added_token(reader, "add_eos_token", "eos_token", tokenizer);
  tokenizer_ = std::move(tokenizer);
}

void TextFormat::load_template(const std::string& folder) {
  std::optional<std::string> source = read_if_there(folder, "chat_template.jinja");
  const Json config = read_config(folder);
  JsonReader reader(config, config_path(folder));
  special_tokens_ = read_special_tokens(reader);
  if (!source) source = read_template(reader);
  require(source.has_value(), "{} has no chat template, neither chat_template.jinja nor in tokenizer_config.json",
          folder);
  Sha256 hash;
  hash.update(source->data(), source->size());
  template_digest_ = to_hex(hash.finish());
  for (const std::string_view token : {kSpecialTokens[0], kSpecialTokens[1]})
    require(special_tokens_.contains(token) || source->find(token) == std::string::npos,
            "the chat template of {} uses {}, which tokenizer_config.json does not define", folder, token);
  template_uses_date_ = source->find("strftime_now") != std::string::npos;
  chat_template_.emplace(*source, fmt::format("chat template of {}", folder));
  template_variables_ = chat_template_->variables();
  template_uses_tools_ = template_variables_.contains("tools");
  const auto give = [&](const std::string& name) {
    if (template_variables_.erase(name) != 0) given_variables_.insert(name);
  };
  for (const char* name : {"messages", "tools", "add_generation_prompt"}) give(name);
  for (const auto& [token, text] : special_tokens_.items()) give(token);
}

const Tokenizer& TextFormat::tokenizer() const {
  if (!tokenizer_) fail(ErrorCode::kUnsupported, "there is no tokenizer, only token ids: {}", why_no_tokenizer_);
  return *tokenizer_;
}

std::vector<std::int32_t> TextFormat::encode_prompt(std::string_view prompt) const {
  std::vector<std::int32_t> ids = before_prompt_;
  const std::vector<std::int32_t> text = tokenizer().encode(prompt, true);
  ids.insert(ids.end(), text.begin(), text.end());
  ids.insert(ids.end(), after_prompt_.begin(), after_prompt_.end());
  return ids;
}

std::string TextFormat::render_chat(const ordered_json& messages, const text::DateTime& date,
                                    const ChatExtras& extras) const {
  if (!chat_template_) fail(ErrorCode::kUnsupported, "{}", why_no_chat_template_);
  text::ChatOptions options;
  options.add_generation_prompt = extras.add_generation_prompt;
  options.tools = extras.tools;
  options.date = date;
  options.special_tokens = special_tokens_;
  options.variables = extras.variables;
  return chat_template_->render(messages, options);
}

std::vector<std::int32_t> TextFormat::encode_chat(const ordered_json& messages, const text::DateTime& date,
                                                  const ChatExtras& extras) const {
  // The template writes the special tokens itself.
  return tokenizer().encode(render_chat(messages, date, extras), false);
}

}  // namespace reprofuse::engine
