#include "server/api/models.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "server/api/error.hpp"
#include "server/api/json.hpp"

namespace reprofuse::server {
namespace {

std::string card_of(const ServedFacts& facts) {
  return json_object([&](JsonWriter& json) {
    json.field("id", facts.id).field("object", "model").field("created", facts.created);
    json.field("owned_by", "reprofuse").field("root", facts.id).field("parent", nullptr);
    json.field("max_model_len", facts.max_positions).field("system_fingerprint", facts.fingerprint);
    json.field("receipts", facts.issuer != nullptr);
    json.field("receipts_key", facts.issuer == nullptr ? std::nullopt : std::optional(facts.issuer->public_key().id()));
  });
}

}  // namespace

void check_model_name(std::string_view name, const ServedFacts& facts) {
  if (name == facts.id) return;
  throw ApiError(404, "invalid_request_error",
                 fmt::format("the model {} does not exist; this server has '{}'", shown(name), facts.id), "model",
                 "model_not_found");
}

std::string model_list(const ServedFacts& facts) {
  return json_object([&](JsonWriter& json) {
    json.field("object", "list");
    json.key("data").array([&] { json.raw(card_of(facts)); });
  });
}

std::string model_card(std::string_view name, const ServedFacts& facts) {
  check_model_name(name, facts);
  return card_of(facts);
}

}  // namespace reprofuse::server
