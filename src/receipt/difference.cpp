#include "receipt/difference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/json.hpp"

namespace reprofuse::receipt {
namespace {

using Json = nlohmann::json;

// Where two values differ first; what stands there, or nothing.
struct Difference {
  std::string path;
  const Json* said;
  const Json* written;
};

std::optional<Difference> first_difference(const Json& said, const Json& written) {
  const auto within = [](const auto& key, std::optional<Difference> found) {
    if (found) found->path = fmt::format("/{}{}", key, found->path);
    return found;
  };
  if (said.is_array() && written.is_array()) {
    for (std::size_t i = 0; i < std::max(said.size(), written.size()); ++i) {
      if (i >= written.size()) return within(i, Difference{"", &said[i], nullptr});
      if (i >= said.size()) return within(i, Difference{"", nullptr, &written[i]});
      if (auto found = first_difference(said[i], written[i])) return within(i, std::move(found));
    }
    return std::nullopt;
  }
  if (said.is_object() && written.is_object()) {
    for (const auto& [key, value] : said.get_ref<const Json::object_t&>()) {
      const auto other = written.find(key);
      if (other == written.end()) return within(key, Difference{"", &value, nullptr});
      if (auto found = first_difference(value, *other)) return within(key, std::move(found));
    }
    for (const auto& [key, value] : written.get_ref<const Json::object_t&>())
      if (!said.contains(key)) return within(key, Difference{"", nullptr, &value});
    return std::nullopt;
  }
  return said == written ? std::nullopt : std::optional(Difference{"", &said, &written});
}

}  // namespace

std::string difference_between(const Json& said, const Json& written) {
  const auto found = first_difference(said, written);
  if (!found) return "its JSON is not canonical: keys in order, no white space";
  const auto value_of = [](const Json* value) { return value != nullptr ? shown(*value) : "not there"; };
  return fmt::format("{} is {}, and in a receipt of its answer it is {}", shown(found->path), value_of(found->said),
                     value_of(found->written));
}

}  // namespace reprofuse::receipt
