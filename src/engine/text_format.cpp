#include "engine/text_format.hpp"

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/check.hpp"
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
  return *encode_text(prompt, {.add_special_tokens = true});
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

std::optional<std::vector<std::int32_t>> TextFormat::encode_text(std::string_view text, SpecialTokens in_text,
                                                                 const EncodeOptions& options) const {
  const TextSpan all = {0, text.size()};
  EncodeOptions given = options;
  if (in_text == SpecialTokens::kPlain) given.plain = {&all, 1};
  return encode_text(text, given);
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

}  // namespace reprofuse::engine
