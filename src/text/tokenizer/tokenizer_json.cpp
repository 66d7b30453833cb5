#include "text/tokenizer/tokenizer_json.hpp"

#include <algorithm>

namespace reprofuse::text {

std::string shown(const nlohmann::json& value) {
  constexpr std::size_t kMaxShownBytes = 60;
  if (value.is_structured()) return fmt::format("(an {} of {})", value.type_name(), value.size());
  if (!value.is_string()) return value.dump();
  const auto& text = value.get_ref<const std::string&>();
  if (text.size() <= kMaxShownBytes) return fmt::format("'{}'", text);
  std::size_t cut = kMaxShownBytes;
  while ((static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
  return fmt::format("'{}...'", text.substr(0, cut));
}

void JsonNode::reject(std::string_view reason) const {
  fail(ErrorCode::kInvalidArgument, "{}: {}{}{} {}", file_, key_, key_.empty() ? "" : " ", shown(*value_), reason);
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

}  // namespace reprofuse::text
