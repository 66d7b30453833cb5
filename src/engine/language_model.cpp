#include "engine/language_model.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/check.hpp"

namespace reprofuse::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

std::optional<std::string> read_if_there(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  require(!file.bad() && file.is_open(), "{} cannot be read", path.string());
  return text;
}

ordered_json parse_json(const std::string& text, const fs::path& path) {
  ordered_json json = ordered_json::parse(text, nullptr, false);
  require(json.is_object(), "{} is not a JSON object", path.string());
  return json;
}

// A special token is written as its text, or as an object with its "content".
ordered_json read_special_tokens(const ordered_json& config, const fs::path& path) {
  ordered_json tokens = ordered_json::object();
  for (const char* key : {"bos_token", "eos_token", "unk_token", "pad_token"}) {
    if (!config.contains(key) || config[key].is_null()) continue;
    const ordered_json& value = config[key];
    const ordered_json content = value.is_object() && value.contains("content") ? value["content"] : value;
    require(content.is_string(), "{}: {} is neither a string nor an object with a string 'content'", path.string(),
            key);
    tokens[key] = content;
  }
  return tokens;
}

// tokenizer_config.json holds one template, or a list of named ones of which "default" counts.
std::optional<std::string> read_template(const ordered_json& config, const fs::path& path) {
  if (!config.contains("chat_template") || config["chat_template"].is_null()) return std::nullopt;
  const ordered_json& value = config["chat_template"];
  if (value.is_string()) return value.get<std::string>();
  require(value.is_array(), "{}: chat_template is neither a string nor a list", path.string());
  for (const ordered_json& named : value)
    if (named.value("name", "") == "default") return named.at("template").get<std::string>();
  fail(ErrorCode::kInvalidArgument, "{}: chat_template has no entry named 'default'", path.string());
}

}  // namespace

TextFormat::TextFormat(const std::string& folder) : folder_(folder) {
  const fs::path tokenizer_path = fs::path(folder) / "tokenizer.json";
  std::error_code ignored;
  if (!fs::exists(tokenizer_path, ignored)) {
    why_no_tokenizer_ = fmt::format("{} does not exist", tokenizer_path.string());
  } else {
    try {
      tokenizer_ = text::Tokenizer::load(tokenizer_path);
    } catch (const Error& error) {
      if (REPROFUSE_HAVE_TEXT) throw;
      why_no_tokenizer_ = error.what();
    }
  }
  const fs::path config_path = fs::path(folder) / "tokenizer_config.json";
  std::optional<std::string> source = read_if_there(fs::path(folder) / "chat_template.jinja");
  if (const auto text = read_if_there(config_path)) {
    const ordered_json config = parse_json(*text, config_path);
    special_tokens_ = read_special_tokens(config, config_path);
    if (!source) source = read_template(config, config_path);
  }
  if (source) chat_template_.emplace(*source, fmt::format("chat template of {}", folder));
}

const text::Tokenizer& TextFormat::tokenizer() const {
  if (!tokenizer_) fail(ErrorCode::kUnsupported, "there is no tokenizer, only token ids: {}", why_no_tokenizer_);
  return *tokenizer_;
}

std::vector<std::int32_t> TextFormat::encode_prompt(std::string_view prompt) const {
  return tokenizer().encode(prompt, true);
}

std::string TextFormat::render_chat(const ordered_json& messages, const text::DateTime& date) const {
  require(chat_template_.has_value(), "{} has no chat template (chat_template.jinja or tokenizer_config.json)",
          folder_);
  text::ChatOptions options;
  options.date = date;
  options.special_tokens = special_tokens_;
  return chat_template_->render(messages, options);
}

std::vector<std::int32_t> TextFormat::encode_chat(const ordered_json& messages, const text::DateTime& date) const {
  return tokenizer().encode(render_chat(messages, date), false);  // the template writes the special tokens itself
}

LanguageModel::LanguageModel(const Context& context, const std::string& folder, std::int64_t max_positions,
                             const model::LoadProgress& progress)
    : text_(folder),
      source_(std::make_shared<model::CheckpointSource>(checkpoint::Checkpoint::open(folder))),
      model_(std::make_unique<model::Model>(context, source_, max_positions, progress)) {
  for (const std::int64_t id : source_->checkpoint().eos_tokens().ids)
    stop_tokens_.push_back(static_cast<std::int32_t>(id));
  const auto embedded = static_cast<std::size_t>(source_->config().vocab_size);
  require(!text_.has_tokenizer() || text_.tokenizer().vocab_size() <= embedded,
          "{}: tokenizer.json has ids up to {}, config.json a vocab_size of {}", folder,
          text_.has_tokenizer() ? text_.tokenizer().vocab_size() - 1 : 0, embedded);
}

}  // namespace reprofuse::engine
