// safetensors files: reading, writing, and the index of a checkpoint that has several.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::checkpoint {

// The header of a safetensors file: eight bytes of length, then JSON that says where each tensor's bytes are.
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

// Reads the header at the start of a file of `file_bytes` bytes; `start` holds at least the header. Throws unless it is
// complete and well-formed and its tensors lie end to end from the first byte of the data to the last, as the format
// demands.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> start, std::uint64_t file_bytes,
                                           const std::string& file);
inline SafetensorsHeader parse_safetensors_header(std::span<const std::byte> contents, const std::string& file) {
  return parse_safetensors_header(contents, contents.size(), file);
}

// The header's JSON alone: tensors in the order of the text; their offsets are not yet compared with anything. Memory
// stays within a small multiple of the text: what does not belong into a header is refused at its first byte, before it
// is stored.
SafetensorsHeader parse_header_json(std::string_view json, const std::string& file);

std::string header_to_json(const SafetensorsHeader& header);

// Files hold little-endian elements; this is the only place that knows what the machine holds.
static_assert(std::endian::native == std::endian::little || std::endian::native == std::endian::big);
inline constexpr bool kFileOrderIsHostOrder = std::endian::native == std::endian::little;

// Reverses the bytes of each element in place.
inline void swap_element_bytes(std::span<std::byte> elements, DType dtype) {
  const std::size_t bytes = dtype_bytes(dtype);
  for (std::size_t i = 0; i + bytes <= elements.size(); i += bytes)
    std::reverse(elements.begin() + static_cast<std::ptrdiff_t>(i),
                 elements.begin() + static_cast<std::ptrdiff_t>(i + bytes));
}

// Between file order and host order, either way, in place. Nothing to do on a little-endian machine.
inline void convert_byte_order(std::span<std::byte> elements, DType dtype) {
  if constexpr (!kFileOrderIsHostOrder) swap_element_bytes(elements, dtype);
}

// What a file says of a tensor.
struct TensorFacts {
  std::string name;
  std::string file;  // its name, for messages
  DType dtype;
  std::vector<std::int64_t> shape;
  std::size_t bytes;
};

// Valid as long as its owner or, without one, as what it came from.
struct TensorView {
  std::string name;
  std::string file;                  // its name, for messages
  std::span<const std::byte> bytes;  // as in a file: little-endian elements, perhaps unaligned
  DType dtype;
  std::vector<std::int64_t> shape;
  std::shared_ptr<const void> owner = {};  // of the bytes

  std::int64_t elements() const { return static_cast<std::int64_t>(bytes.size() / dtype_bytes(dtype)); }
};

// Elements in host order, aligned to themselves: those of the view where they are both already, else a copy.
class HostTensor {
 public:
  explicit HostTensor(const TensorView& view) : owner_(view.owner), bytes_(view.bytes) {
    const bool aligned = reinterpret_cast<std::uintptr_t>(bytes_.data()) % dtype_bytes(view.dtype) == 0;
    if (aligned && kFileOrderIsHostOrder) return;
    copy_.assign(bytes_.begin(), bytes_.end());
    owner_.reset();
    convert_byte_order(copy_, view.dtype);
  }

  const void* data() const { return copy_.empty() ? bytes_.data() : copy_.data(); }
  bool is_copy() const { return !copy_.empty(); }

 private:
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> bytes_;
  std::vector<std::byte> copy_;
};

class Safetensors {
 public:
  // Opens the file and reads its header; `file` is its name in messages.
  Safetensors(const std::string& path, std::string file);

  const std::string& file() const { return file_; }
  const SafetensorsHeader& header() const { return header_; }

  // Null when the file has no such tensor.
  const TensorEntry* find(std::string_view name) const;

  // Throws kUnsupported when its elements are neither BF16 nor F16 nor F32.
  TensorFacts facts(const TensorEntry& entry) const;

  // The tensor, some of its bytes, and all of them in memory of the caller. Throw as SourceFile::read() does.
  TensorView read(const TensorEntry& entry) const;
  std::shared_ptr<const std::byte[]> read(const TensorEntry& entry, std::size_t offset, std::size_t bytes) const;
  void read_into(const TensorEntry& entry, std::span<std::byte> memory) const;

 private:
  std::string file_;
  SourceFile source_;
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
