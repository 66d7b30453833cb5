// safetensors files: reading through a mapping, writing, and the index of a checkpoint that has several.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.hpp"
#include "checkpoint/safetensors_header.hpp"
#include "checkpoint/tensor_view.hpp"

namespace reprofuse::checkpoint {

class Safetensors {
 public:
  // Maps the file and reads its header; `file` is its name in messages.
  Safetensors(const std::string& path, std::string file);

  const std::string& file() const { return file_; }
  const SafetensorsHeader& header() const { return header_; }

  // Null when the file has no such tensor.
  const TensorEntry* find(std::string_view name) const;

  // Throws kUnsupported when its elements are neither BF16 nor F16 nor F32.
  TensorView view(const TensorEntry& entry) const;

  // Gives the pages of a view's data back; touching them again reads the file again.
  void release(const TensorView& view) const { mapping_.advise_dontneed(view.bytes); }

 private:
  std::string file_;
  MappedFile mapping_;
  SafetensorsHeader header_;
  std::map<std::string_view, const TensorEntry*> by_name_;  // into header_
};

struct TensorToWrite {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
  // Called once, when the tensor's turn has come, so that one tensor at a time need be in memory: its elements in file
  // order (little-endian).
  std::function<std::vector<std::byte>()> make_bytes;
};

// Lays the tensors out as the official library does: wide elements first, then by name, so that all are aligned.
// Replaces a file of that name.
void write_safetensors(const std::string& path, std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata = {});

// model.safetensors.index.json: which file of a sharded checkpoint holds which tensor.
// Tensor name to file name. File names are plain: nothing in an index can point out of its folder.
using WeightMap = std::map<std::string, std::string>;

WeightMap parse_shard_index(std::string_view json, const std::string& file);

std::string shard_index_to_json(const WeightMap& weight_map, std::int64_t total_bytes);

}  // namespace reprofuse::checkpoint
