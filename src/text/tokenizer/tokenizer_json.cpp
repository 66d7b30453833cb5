#include "text/tokenizer/tokenizer_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "text/tokenizer/stages.hpp"
#include "text/tokenizer/unicode.hpp"

namespace reprofuse::text {
namespace {

// A value for a message.
std::string short_form(const nlohmann::json& value) {
  constexpr std::size_t kMaxShownBytes = 60;
  if (value.is_structured()) return fmt::format("(an {} of {})", value.type_name(), value.size());
  if (!value.is_string()) return value.dump();
  const auto& text = value.get_ref<const std::string&>();
  if (text.size() <= kMaxShownBytes) return fmt::format("'{}'", text);
  std::size_t cut = kMaxShownBytes;
  while ((static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
  return fmt::format("'{}...'", text.substr(0, cut));
}

}  // namespace

void JsonNode::reject(std::string_view reason) const {
  fail(ErrorCode::kInvalidArgument, "{}: {}{}{} {}", file_, key_, key_.empty() ? "" : " ", short_form(*value_), reason);
}

JsonNode JsonNode::member(std::string_view key, const nlohmann::json& value) const {
  return JsonNode(value, file_, key_.empty() ? std::string(key) : fmt::format("{}.{}", key_, key));
}

std::optional<JsonNode> JsonNode::find(std::string_view key) const {
  if (!value_->is_object()) reject("must be an object");
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return member(key, *found);
}

JsonNode JsonNode::node(std::string_view key) const {
  auto found = find(key);
  if (!found) fail(ErrorCode::kInvalidArgument, "{}: {}{}{} is missing", file_, key_, key_.empty() ? "" : ".", key);
  return *std::move(found);
}

std::vector<JsonNode> JsonNode::elements(std::size_t max) const {
  std::vector<JsonNode> elements;
  for_each(max, [&](const JsonNode& element) { elements.push_back(element); });
  return elements;
}

void JsonNode::for_each(std::size_t max, const std::function<void(const JsonNode&)>& visit) const {
  if (!value_->is_array()) reject("must be an array");
  if (value_->size() > max) reject(fmt::format("is too long; at most {} are supported", max));
  std::size_t i = 0;
  for (const auto& element : *value_) visit(JsonNode(element, file_, fmt::format("{}[{}]", key_, i++)));
}

std::vector<JsonNode> JsonNode::steps(std::string_view key) const {
  if (node("type").string() != "Sequence") return {*this};
  require_keys_among({"type", key});
  return node(key).elements(kMaxSteps);
}

std::string JsonNode::string() const {
  if (!value_->is_string()) reject("must be a string");
  return value_->get<std::string>();
}

bool JsonNode::boolean() const {
  if (!value_->is_boolean()) reject("must be true or false");
  return value_->get<bool>();
}

std::int32_t JsonNode::token_id() const {
  if (!value_->is_number_unsigned() || value_->get<std::uint64_t>() > kMaxTokenId) {
    reject(fmt::format("is no token id: a whole number from 0 to {}", kMaxTokenId));
  }
  return value_->get<std::int32_t>();
}

bool JsonNode::boolean_or(std::string_view key, bool fallback) const {
  const auto found = find(key);
  return found ? found->boolean() : fallback;
}

void JsonNode::require_type(std::string_view supported) const {
  const JsonNode type = node("type");
  if (type.string() != supported) type.reject(fmt::format("is not supported; only '{}' is", supported));
}

void JsonNode::require_keys_among(std::initializer_list<std::string_view> keys) const {
  if (!value_->is_object()) reject("must be an object");
  for (const auto& [key, value] : value_->items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) member(key, value).reject("is a key not known here");
  }
}

namespace {

nlohmann::json parse_document(std::string_view json, const std::string& name) {
  try {
    return parse_json(json, name);
  } catch (const nlohmann::json::exception&) {
    fail(ErrorCode::kInvalidArgument, "{}: not a JSON document", name);
  }
}

bool reads_nfc(const JsonNode& document) {
  const auto normalizer = document.find("normalizer");
  if (!normalizer) return false;
  bool nfc = false;
  for (const JsonNode& step : normalizer->steps("normalizers")) {
    step.require_type("NFC");
    step.require_keys_among({"type"});
    nfc = true;
  }
  return nfc;
}

void require_byte_level(const JsonNode& step) {
  step.require_type("ByteLevel");
  step.require_keys_among({"type", "add_prefix_space", "trim_offsets", "use_regex"});
}

void require_byte_level_decoder(const JsonNode& document) {
  const JsonNode decoder = document.node("decoder");
  const std::vector<JsonNode> steps = decoder.steps("decoders");
  for (const JsonNode& step : steps) require_byte_level(step);
  if (steps.size() != 1) decoder.reject("must be one 'ByteLevel'");
}

// The ids that a template's {"SpecialToken": {"id": NAME}} stands for.
std::vector<std::int32_t> special_token_ids(const JsonNode& item, const JsonNode& processor) {
  item.require_keys_among({"SpecialToken"});
  const JsonNode token = item.node("SpecialToken");
  token.require_keys_among({"id", "type_id"});
  std::vector<std::int32_t> ids;
  for (const JsonNode& id :
       processor.node("special_tokens").node(token.node("id").string()).node("ids").elements(kMaxSteps)) {
    ids.push_back(id.token_id());
  }
  return ids;
}

// Puts the template's special tokens around what is there already. "pair" is for two texts at once: never used here.
void read_template(const JsonNode& processor, TokenizerParts& parts) {
  processor.require_keys_among({"type", "single", "pair", "special_tokens"});
  const JsonNode single = processor.node("single");
  std::vector<std::int32_t> before;
  std::vector<std::int32_t> after;
  bool text_seen = false;
  for (const JsonNode& item : single.elements(kMaxSteps)) {
    if (const auto sequence = item.find("Sequence")) {
      item.require_keys_among({"Sequence"});
      sequence->require_keys_among({"id", "type_id"});
      const JsonNode id = sequence->node("id");
      if (id.string() != "A" || text_seen) id.reject("is not supported: the text 'A' must stand there once");
      text_seen = true;
    } else {
      auto& side = text_seen ? after : before;
      const auto ids = special_token_ids(item, processor);
      side.insert(side.end(), ids.begin(), ids.end());
    }
  }
  if (!text_seen) single.reject("has no place for the text");
  parts.has_template = true;
  parts.before.insert(parts.before.begin(), before.begin(), before.end());
  parts.after.insert(parts.after.end(), after.begin(), after.end());
}

void read_post_processor(const JsonNode& document, TokenizerParts& parts) {
  const auto post_processor = document.find("post_processor");
  if (!post_processor) return;
  for (const JsonNode& step : post_processor->steps("processors")) {
    const JsonNode type = step.node("type");
    if (type.string() == "TemplateProcessing") {
      read_template(step, parts);
    } else if (type.string() == "ByteLevel") {
      require_byte_level(step);  // concerns offsets alone
    } else {
      type.reject("is not supported; 'TemplateProcessing', 'ByteLevel' and 'Sequence' are");
    }
  }
}

// The token's place in the table. Two names for one id would make decoding ambiguous.
Token& take_place(TokenizerParts& parts, std::int32_t id, const std::string& spelling) {
  if (parts.tokens.size() <= static_cast<std::size_t>(id)) parts.tokens.resize(id + 1);
  Token& token = parts.tokens[id];
  require(token.bytes.empty(), "{}: the token id {} of '{}' is taken by another token", parts.name, id, spelling);
  return token;
}

void read_added(const JsonNode& document, TokenizerParts& parts) {
  const auto list = document.find("added_tokens");
  if (!list) return;
  for (const AddedToken& token : read_added_tokens(*list)) {
    const auto known = parts.bpe.vocabulary().find(token.content);
    const bool in_vocabulary = known != parts.bpe.vocabulary().end();
    require(!in_vocabulary || known->second == token.id,
            "{}: added_tokens gives '{}' the id {}, model.vocab gives it {}", parts.name, token.content, token.id,
            in_vocabulary ? known->second : 0);
    require(insert_token(parts.added_ids, token.content, token.id, *list), "{}: added_tokens has '{}' twice",
            parts.name, token.content);
    Token& place = in_vocabulary ? parts.tokens[token.id] : take_place(parts, token.id, token.content);
    place = {token.content, token.special, !token.white_space};
    const bool looked_for_normalized = token.normalized && parts.normalize_nfc;
    (token.normalized ? parts.normalized : parts.verbatim)
        .add(looked_for_normalized ? normalize_nfc(token.content) : token.content, token);
  }
  parts.normalized.finish();
  parts.verbatim.finish();
}

void require_ids_known(const TokenizerParts& parts, const std::vector<std::int32_t>& ids) {
  for (const std::int32_t id : ids) {
    require(static_cast<std::size_t>(id) < parts.tokens.size() && !parts.tokens[id].bytes.empty(),
            "{}: post_processor puts the token id {} around a text, but no token has it", parts.name, id);
  }
}

}  // namespace

TokenizerParts read_tokenizer(std::string_view json, const std::string& name) {
  const nlohmann::json value = parse_document(json, name);
  const JsonNode document(value, name);
  // "truncation" and "padding" are read by nothing: transformers sets them anew for every call.
  document.require_keys_among({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                               "post_processor", "decoder", "model"});
  if (const auto version = document.find("version"); version && version->string() != "1.0") {
    version->reject("is not supported; only '1.0' is");
  }
  document.node("model").require_type("BPE");  // first: the other parts of another model differ too
  require_byte_level_decoder(document);
  TokenizerParts parts{.name = name,
                       .normalize_nfc = reads_nfc(document),
                       .pre_tokenizer = PreTokenizer(document.node("pre_tokenizer")),
                       .bpe = Bpe(document.node("model"))};
  for (const auto& [spelling, id] : parts.bpe.vocabulary()) {
    take_place(parts, id, spelling).bytes = bytes_of_spelling(spelling);
  }
  read_added(document, parts);
  read_post_processor(document, parts);
  require_ids_known(parts, parts.before);
  require_ids_known(parts, parts.after);
  return parts;
}

}  // namespace reprofuse::text
