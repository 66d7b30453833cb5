#include "checkpoint/safetensors_header.hpp"

#include <algorithm>
#include <tuple>

#include "base/check.hpp"
#include "checkpoint/json_reader.hpp"
#include "checkpoint/safetensors_json.hpp"

namespace reprofuse::checkpoint {
namespace {

constexpr StoredType kTypes[] = {
    {"F32", 32, DType::kF32},
    {"BF16", 16, DType::kBF16},
    {"F16", 16, DType::kF16},
    {"BOOL", 8, {}},
    {"U8", 8, {}},
    {"I8", 8, {}},
    {"F8_E5M2", 8, {}},
    {"F8_E4M3", 8, {}},
    {"F8_E8M0", 8, {}},
    {"F8_E4M3FNUZ", 8, {}},
    {"F8_E5M2FNUZ", 8, {}},
    {"F4", 4, {}},
    {"F6_E2M3", 6, {}},
    {"F6_E3M2", 6, {}},
    {"I16", 16, {}},
    {"U16", 16, {}},
    {"I32", 32, {}},
    {"U32", 32, {}},
    {"C64", 64, {}},
    {"F64", 64, {}},
    {"I64", 64, {}},
    {"U64", 64, {}},
};

std::uint64_t read_length(std::span<const std::byte> contents, const std::string& file) {
  require(contents.size() >= kLengthBytes, "{}: {} bytes, too few for a safetensors header", file, contents.size());
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length |= std::to_integer<std::uint64_t>(contents[i]) << (8 * i);
  require(length <= kMaxHeaderBytes, "{}: a header of {} bytes, more than the {} that the format allows", file, length,
          kMaxHeaderBytes);
  require(length <= contents.size() - kLengthBytes, "{}: a header of {} bytes in a file of {}; the file is truncated",
          file, length, contents.size());
  return length;
}

// The bytes that dtype and shape ask for, or nothing when they cannot be counted or are no whole number.
std::optional<std::uint64_t> stored_bytes(const TensorEntry& tensor) {
  std::optional<std::int64_t> bits = tensor.type->bits;
  for (const std::int64_t size : tensor.shape) {
    bits = checked_product(*bits, size);
    if (!bits) return std::nullopt;
  }
  if (*bits % 8 != 0) return std::nullopt;
  return static_cast<std::uint64_t>(*bits) / 8;
}

void check_layout(const SafetensorsHeader& header, std::uint64_t data_bytes, const std::string& file) {
  std::uint64_t expected = 0;
  const TensorEntry* previous = nullptr;
  for (const TensorEntry& tensor : header.tensors) {
    require(tensor.begin <= tensor.end && tensor.end <= data_bytes,
            "{}: tensor {} has data_offsets [{}, {}] in {} bytes of data; the file is truncated or damaged", file,
            Shown{tensor.name}, tensor.begin, tensor.end, data_bytes);
    const auto bytes = stored_bytes(tensor);
    require(bytes == tensor.end - tensor.begin,
            "{}: tensor {} of dtype {} and shape [{}] has data_offsets [{}, {}], which is another size", file,
            Shown{tensor.name}, tensor.type->name, fmt::join(tensor.shape, ", "), tensor.begin, tensor.end);
    require(tensor.begin >= expected, "{}: tensor {} begins at byte {}, inside tensor {}, which ends at {}", file,
            Shown{tensor.name}, tensor.begin, Shown{previous == nullptr ? "" : std::string_view(previous->name)},
            expected);
    require(tensor.begin == expected, "{}: bytes {} to {} before tensor {} belong to no tensor", file, expected,
            tensor.begin, Shown{tensor.name});
    expected = tensor.end;
    previous = &tensor;
  }
  require(expected == data_bytes, "{}: the tensors end at byte {} of {} bytes of data", file, expected, data_bytes);
}

}  // namespace

const StoredType* find_stored_type(std::string_view name) {
  const auto* at =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const StoredType& t) { return t.name == name; });
  return at == std::end(kTypes) ? nullptr : at;
}

const StoredType& stored_type(DType dtype) {
  for (const StoredType& type : kTypes)
    if (type.dtype == dtype) return type;
  fail(ErrorCode::kInternal, "internal error: dtype {} cannot be stored", dtype_name(dtype));
}

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> contents, const std::string& file) {
  const std::uint64_t length = read_length(contents, file);
  const std::string_view json(reinterpret_cast<const char*>(contents.data()) + kLengthBytes, length);
  SafetensorsHeader header = parse_header_json(json, file);
  header.data_offset = kLengthBytes + length;
  std::sort(header.tensors.begin(), header.tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_layout(header, contents.size() - header.data_offset, file);
  return header;
}

}  // namespace reprofuse::checkpoint
