#include "engine/model_files.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/check.hpp"
#include "base/fp_environment.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "text/tokenizer/unicode.hpp"

namespace reprofuse::engine {
namespace {

using Json = nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kMaxTextBytes = 16 << 20;
constexpr const char* kConfigFile = "tokenizer_config.json";
constexpr std::string_view kSpecialTokens[] = {"bos_token", "eos_token", "unk_token", "pad_token"};

// A link to nothing counts as there: reading it then fails and says so.
std::optional<std::string> read_if_there(const std::string& folder, const std::string& file) {
  const std::filesystem::path path = std::filesystem::path(folder) / file;
  std::error_code ignored;
  if (symlink_status(path, ignored).type() == std::filesystem::file_type::not_found) return std::nullopt;
  return read_text_file(path.string(), path.string(), kMaxTextBytes);
}

std::string config_path(const std::string& folder) {
  return (std::filesystem::path(folder) / kConfigFile).string();
}

// Without a file: an object without keys.
Json read_config(const std::string& folder) {
  const auto text = read_if_there(folder, kConfigFile);
  return text ? parse_json_object(*text, config_path(folder)) : Json::object();
}

// A special token is written as its text, or as an object with its "content".
std::optional<std::string> read_special_token(JsonReader& reader, std::string_view key) {
  const Json* value = reader.find(key);
  if (value == nullptr) return std::nullopt;
  const Json& content = value->is_object() && value->contains("content") ? (*value)["content"] : *value;
  require(content.is_string(), "{}: {} is {}, neither a string nor an object with a string 'content'", reader.file(),
          key, shown(*value));
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
          Shown{*token});
  return {*id};
}

// One template, or a list of named ones of which "default" counts.
std::optional<std::string> read_template(JsonReader& reader) {
  const Json* value = reader.find("chat_template");
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  require(value->is_array(), "{}: chat_template is {}, neither a string nor a list", reader.file(), shown(*value));
  for (const Json& named : *value) {
    require(named.is_object(), "{}: chat_template holds {}, which is no object", reader.file(), shown(named));
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

std::string_view to_string(SpecialTokens special_tokens) {
  return special_tokens == SpecialTokens::kPlain ? "plain" : "as-tokens";
}

std::optional<SpecialTokens> special_tokens_from(std::string_view name) {
  for (const SpecialTokens known : {SpecialTokens::kAsTokens, SpecialTokens::kPlain})
    if (name == to_string(known)) return known;
  return std::nullopt;
}

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
  why_no_marked_template_ = tokenizer_ ? reason_of([&] { mark_template(*source, folder); }) : why_no_tokenizer_;
  template_variables_ = chat_template_->variables();
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

std::string TextFormat::token_name(std::int32_t id) const {
  if (!tokenizer_ || !tokenizer_->has_token(id)) return fmt::format("token_id:{}", id);
  const std::string& bytes = tokenizer_->token_bytes(id);
  if (!text::find_invalid_utf8(bytes)) return bytes;
  std::string name = "bytes:";
  for (const char byte : bytes) name += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return name;
}

void TextFormat::mark_template(const std::string& source, const std::string& folder) {
  const auto markers = std::make_shared<text::jinja::Markers>();
  const auto marked = [&](const std::string& text) { return markers->mark(text, tokenizer_->added_tokens_in(text)); };
  try {
    for (const auto& [name, token] : special_tokens_.items())
      marked_special_tokens_[name] = marked(token.get<std::string>());
    marked_template_.emplace(marked(source), fmt::format("chat template of {}", folder), text::jinja::Limits{},
                             markers);
  } catch (const text::jinja::TemplateError& error) {
    fail(ErrorCode::kUnsupported, "chat template of {}: {}", folder, error.what());
  }
  markers_ = markers;
}

std::vector<std::int32_t> TextFormat::encode_prompt(std::string_view prompt) const {
  EncodeOptions options;
  options.add_special_tokens = true;
  return *encode_text(prompt, options);
}

std::optional<std::vector<std::int32_t>> TextFormat::encode_text(std::string_view text,
                                                                 const EncodeOptions& options) const {
  std::optional<std::vector<std::int32_t>> ids = tokenizer().encode_within(text, options);
  if (!ids || !options.add_special_tokens) return ids;
  ids->insert(ids->begin(), before_prompt_.begin(), before_prompt_.end());
  ids->insert(ids->end(), after_prompt_.begin(), after_prompt_.end());
  if (ids->size() > options.max_tokens) return std::nullopt;
  return ids;
}

std::string TextFormat::render_chat(const ordered_json& messages, const text::ChatVariables& given) const {
  if (!chat_template_) fail(ErrorCode::kUnsupported, "{}", why_no_chat_template_);
  return chat_template_->render(messages, given, special_tokens_);
}

std::vector<std::int32_t> TextFormat::encode_chat(const ordered_json& messages,
                                                  const text::ChatVariables& given) const {
  return *encode_chat(messages, given, SpecialTokens::kAsTokens, {});  // the template writes the special tokens itself
}

std::optional<std::vector<std::int32_t>> TextFormat::encode_chat(const ordered_json& messages,
                                                                 const text::ChatVariables& given,
                                                                 SpecialTokens in_content,
                                                                 const EncodeOptions& options) const {
  if (in_content == SpecialTokens::kPlain) return encode_plain_chat(messages, given, options);
  return encode_text(render_chat(messages, given), options);
}

namespace {

void require_no_markers(const ordered_json& value) {
  constexpr const char* kMessage = "characters from U+10F000 to U+10F7FF cannot be in a chat with plain contents";
  if (const auto* text = value.get_ptr<const std::string*>()) require(!text::jinja::Markers::occur_in(*text), kMessage);
  if (!value.is_structured()) return;
  for (const auto& [key, entry] : value.items()) {
    require(!value.is_object() || !text::jinja::Markers::occur_in(key), kMessage);
    require_no_markers(entry);
  }
}

}  // namespace

text::jinja::Markers::Unmarked TextFormat::render_marked(const ordered_json& messages,
                                                         const text::ChatVariables& given) const {
  return markers_->unmark(marked_template_->render(messages, given, marked_special_tokens_));
}

// With a letter in place of each.
void TextFormat::copy_without_special_tokens(const ordered_json& value, ordered_json& result) const {
  const auto replaced = [&](const std::string& text) {
    std::string without;
    std::size_t done = 0;
    for (const TextSpan& token : tokenizer().added_tokens_in(text)) {
      without.append(text, done, token.begin - done).append("x");
      done = token.end;
    }
    return without.append(text, done);
  };
  if (const auto* text = value.get_ptr<const std::string*>()) {
    result = replaced(*text);
  } else if (!value.is_structured()) {
    result = value;
  } else if (value.is_array()) {
    result = ordered_json::array();
    for (const ordered_json& entry : value) copy_without_special_tokens(entry, result.emplace_back());
  } else {
    result = ordered_json::object();
    result.get_ref<ordered_json::object_t&>().reserve(value.size());  // it would copy what it has to grow
    for (const auto& [key, entry] : value.items()) copy_without_special_tokens(entry, result[replaced(key)]);
  }
}

std::optional<std::vector<std::int32_t>> TextFormat::encode_plain_chat(const ordered_json& messages,
                                                                       const text::ChatVariables& given,
                                                                       const EncodeOptions& options) const {
  if (!chat_template_) fail(ErrorCode::kUnsupported, "{}", why_no_chat_template_);
  if (!marked_template_) fail(ErrorCode::kUnsupported, "contents cannot be plain: {}", why_no_marked_template_);
  for (const ordered_json* part : {&messages, &given.tools, &*given.variables}) require_no_markers(*part);
  const auto encode = [&](const text::jinja::Markers::Unmarked& chat) {
    EncodeOptions plain = options;
    plain.plain = chat.plain;
    return encode_text(chat.text, plain);
  };
  // The markers must not have led the template another way.
  const auto chat = render_marked(messages, given);
  require(chat.text == render_chat(messages, given),
          "contents cannot be plain: the chat template does with special tokens what cannot be followed");
  std::optional<std::vector<std::int32_t>> ids = encode(chat);
  if (!ids) return std::nullopt;
  // Nor must it make special tokens of parts, which would be plain too: without any in the contents, both are the same.
  text::ChatVariables harmless;
  harmless.add_generation_prompt = given.add_generation_prompt;
  harmless.enable_thinking = given.enable_thinking;
  harmless.date = given.date;
  copy_without_special_tokens(given.tools, harmless.tools);
  copy_without_special_tokens(*given.variables, *harmless.variables);
  BasicOwnedJson<ordered_json> harmless_messages;
  copy_without_special_tokens(messages, *harmless_messages);
  EncodeOptions whole = options;
  whole.max_tokens = EncodeOptions().max_tokens;
  whole.plain = {};
  const auto marked = render_marked(*harmless_messages, harmless);
  EncodeOptions plain = whole;
  plain.plain = marked.plain;
  require(encode_text(marked.text, plain) == encode_text(render_chat(*harmless_messages, harmless), whole),
          "contents cannot be plain: the chat template or the contents make special tokens of parts");
  return ids;
}

namespace {

namespace fs = std::filesystem;

fs::path folder_of_this_program() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

// An owner and a name, as on the Hugging Face Hub.
bool is_hub_name(std::string_view text) {
  const auto is_letter_or_digit = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  const auto is_name = [&](std::string_view part) {
    const auto allowed = [&](char c) { return is_letter_or_digit(c) || c == '_' || c == '.' || c == '-'; };
    return !part.empty() && is_letter_or_digit(part[0]) && std::all_of(part.begin(), part.end(), allowed);
  };
  const std::size_t slash = text.find('/');
  return slash != text.npos && is_name(text.substr(0, slash)) && is_name(text.substr(slash + 1));
}

// Tools that fetch models take such names, so it is easy to think that this one does.
const std::string& not_from_the_hub(const std::string& folder) {
  std::error_code error;
  require(
      fs::exists(folder, error) || !is_hub_name(folder),
      "{0}: there is no such folder. A model is a folder on this machine; `hf download {0} --local-dir {0}` makes one "
      "of a name on the Hugging Face Hub",
      folder);
  return folder;
}

}  // namespace

ModelFiles::ModelFiles(const std::string& folder)
    : source_(std::make_shared<model::CheckpointSource>(checkpoint::Checkpoint::open(not_from_the_hub(folder)))),
      text_(folder) {
  for (const std::int64_t id : checkpoint().eos_tokens().ids) stop_tokens_.push_back(static_cast<std::int32_t>(id));
  if (!text_.has_tokenizer()) return;
  const auto rows = static_cast<std::size_t>(checkpoint().config().vocab_size);
  require(text_.tokenizer().vocab_size() <= rows, "{}: tokenizer.json has ids up to {}, config.json a vocab_size of {}",
          folder, text_.tokenizer().vocab_size() - 1, rows);
}

SamplingParams ModelFiles::suggested_sampling() const {
  const FpEnvironment pinned;  // decimals are rounded to binary32
  const checkpoint::GenerationConfig& config = checkpoint().generation_config();
  SamplingParams params;
  params.repetition_penalty = static_cast<float>(config.repetition_penalty.value_or(1.0));
  if (!config.do_sample.value_or(false)) return params;
  params.temperature = static_cast<float>(config.temperature.value_or(1.0));
  params.top_k = static_cast<int>(config.top_k.value_or(0));
  params.top_p = static_cast<float>(config.top_p.value_or(1.0));
  params.min_p = static_cast<float>(config.min_p.value_or(0.0));
  return params;
}

std::string bundled_model_folder() {
  const fs::path installed = folder_of_this_program() / REPROFUSE_INSTALLED_MODELS / kBundledModel;
  const fs::path source = fs::path(REPROFUSE_SOURCE_MODELS) / kBundledModel;
  const fs::path moved = folder_of_this_program() / "../../models" / kBundledModel;  // a source tree that was moved
  for (const fs::path& folder : {installed, source, moved}) {
    std::error_code ignored;
    if (fs::exists(folder / "config.json", ignored)) return folder.lexically_normal().string();
  }
  fail(ErrorCode::kInvalidArgument, "the model {} is not in {}, {} or {}", kBundledModel,
       installed.lexically_normal().string(), source.string(), moved.lexically_normal().string());
}

}  // namespace reprofuse::engine
