// The header of a safetensors file: eight bytes of length, then JSON that says where each tensor's bytes are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprofuse/types.hpp"

namespace reprofuse::checkpoint {

inline constexpr std::size_t kLengthBytes = 8;
inline constexpr std::size_t kMaxHeaderBytes = 100'000'000;  // the official library's limit

// An element type of the format; those without a DType can be stored, and told from damage, but not computed with.
struct StoredType {
  std::string_view name;
  std::int64_t bits;
  std::optional<DType> dtype;
};

const StoredType* find_stored_type(std::string_view name);  // null: the format has no such type
const StoredType& stored_type(DType dtype);

struct TensorEntry {
  std::string name;
  const StoredType* type = nullptr;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // bytes from the start of the data
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::uint64_t data_offset = 0;     // bytes from the start of the file
  std::vector<TensorEntry> tensors;  // by ascending offset
  std::map<std::string, std::string> metadata;
};

// Reads the start of `contents`, a whole file, and nothing of the tensors' data. Throws unless the header is complete
// and well-formed and its tensors lie end to end from the first byte of the data to the last, as the format demands.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> contents, const std::string& file);

// The header's JSON alone: tensors in the order of the text; their offsets are not yet compared with anything. Memory
// stays within a small multiple of the text: what does not belong into a header is refused at its first byte, before it
// is stored.
SafetensorsHeader parse_header_json(std::string_view json, const std::string& file);

std::string header_to_json(const SafetensorsHeader& header);

}  // namespace reprofuse::checkpoint
