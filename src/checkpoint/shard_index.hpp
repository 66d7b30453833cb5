// model.safetensors.index.json: which file of a sharded checkpoint holds which tensor.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace reprofuse::checkpoint {

// Tensor name to file name. File names are plain: nothing in an index can point out of its folder.
using WeightMap = std::map<std::string, std::string>;

WeightMap parse_shard_index(std::string_view json, const std::string& file);

std::string shard_index_to_json(const WeightMap& weight_map, std::int64_t total_bytes);

}  // namespace reprofuse::checkpoint
