#include "checkpoint/shard_index.hpp"

#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "checkpoint/json_reader.hpp"

namespace reprofuse::checkpoint {
namespace {

constexpr std::string_view kSafetensorsSuffix = ".safetensors";
// "metadata" holds a total that writers get wrong; what is in the shards is checked tensor by tensor instead.
constexpr std::string_view kHarmlessKeys[] = {"metadata"};

bool is_plain_file_name(std::string_view name) {
  constexpr std::string_view kForbidden("/\\\0", 3);
  return name.find_first_of(kForbidden) == std::string_view::npos && name.size() > kSafetensorsSuffix.size() &&
         name.ends_with(kSafetensorsSuffix);
}

}  // namespace

WeightMap parse_shard_index(std::string_view json, const std::string& file) {
  const Json root = parse_json_object(json, file);
  JsonReader reader(root, file);
  const Json* weight_map = reader.find("weight_map");
  if (weight_map == nullptr) reader.fail_missing("weight_map");
  if (!weight_map->is_object()) reader.fail_value("weight_map", *weight_map, "an object");
  reader.ignore(kHarmlessKeys);
  reader.refuse_the_rest();
  WeightMap files;
  for (const auto& [tensor, name] : weight_map->items()) {
    require(name.is_string() && is_plain_file_name(name.get_ref<const std::string&>()),
            "{}: weight_map puts tensor {} into {}, which is no plain name of a {} file", file, Shown{tensor},
            shown(name), kSafetensorsSuffix);
    files.emplace(tensor, name.get<std::string>());
  }
  return files;
}

std::string shard_index_to_json(const WeightMap& weight_map, std::int64_t total_bytes) {
  return Json{{"metadata", {{"total_size", total_bytes}}}, {"weight_map", weight_map}}.dump(2) + "\n";
}

}  // namespace reprofuse::checkpoint
