// The target: headers of safetensors files.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "bytes_target.hpp"
#include "checkpoint/safetensors.hpp"

namespace reprofuse::fuzz {
namespace {

using checkpoint::kLengthBytes;
using checkpoint::SafetensorsHeader;
using checkpoint::TensorEntry;

Bytes file_of(const std::string& header, std::size_t data_bytes) {
  Bytes file;
  for (std::size_t i = 0; i < kLengthBytes; ++i) file.push_back(static_cast<std::uint8_t>(header.size() >> (8 * i)));
  file.insert(file.end(), header.begin(), header.end());
  file.resize(file.size() + data_bytes);
  return file;
}

// What the header promises, worked out again in another way: 128-bit sizes, and every byte of the data owned once.
std::optional<std::string> broken_promise(const SafetensorsHeader& header, std::size_t file_bytes) {
  __extension__ using Wide = unsigned __int128;
  if (header.data_offset > file_bytes) return "the data begin beyond the file";
  std::vector<std::uint8_t> owners(file_bytes - header.data_offset);
  for (const TensorEntry& tensor : header.tensors) {
    Wide bits = static_cast<Wide>(tensor.type->bits);
    const bool empty = std::count(tensor.shape.begin(), tensor.shape.end(), 0) > 0;
    for (const std::int64_t size : tensor.shape)
      bits = empty ? 0 : std::min(bits, Wide{1} << 63) * static_cast<Wide>(size);
    if (bits != Wide{tensor.end - tensor.begin} * 8) return fmt::format("tensor '{}' has another size", tensor.name);
    for (std::uint64_t i = tensor.begin; i < tensor.end; ++i) {
      if (i >= owners.size()) return fmt::format("tensor '{}' ends beyond the file", tensor.name);
      ++owners[i];
    }
  }
  if (std::any_of(owners.begin(), owners.end(), [](std::uint8_t count) { return count != 1; }))
    return "a byte of the data belongs to no tensor or to several";
  return std::nullopt;
}

bool equal(const SafetensorsHeader& a, const SafetensorsHeader& b) {
  const auto same = [](const TensorEntry& x, const TensorEntry& y) {
    return x.name == y.name && x.type == y.type && x.shape == y.shape && x.begin == y.begin && x.end == y.end;
  };
  return a.metadata == b.metadata &&
         std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(), same);
}

SafetensorsHeader parse(const Bytes& file) {
  return checkpoint::parse_safetensors_header(std::as_bytes(std::span(file)), "fuzz");
}

}  // namespace

Outcome try_input(std::span<const std::uint8_t> input, Sabotage sabotage) {
  const Bytes file(input.begin(), input.end());  // on the heap and no longer than it is, for AddressSanitizer
  return outcome_of([&]() -> std::optional<std::string> {
    SafetensorsHeader header = parse(file);
    const std::size_t data_bytes = file.size() - std::min<std::size_t>(file.size(), header.data_offset);
    if (sabotage == Sabotage::kAlterResult) header.data_offset += 1;
    if (auto broken = broken_promise(header, file.size())) return broken;
    if (!equal(parse(file_of(checkpoint::header_to_json(header), data_bytes)), header))
      return "written and read again, the header is another";
    return std::nullopt;
  });
}

std::vector<Bytes> valid_inputs() {
  return {
      file_of(R"({"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]}})", 12),
      file_of(
          R"({"__metadata__":{"format":"pt"},"model.norm.weight":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},)"
          R"("b":{"dtype":"F16","shape":[1,1,5],"data_offsets":[16,26]},"c":{"dtype":"U8","shape":[],"data_offsets":[26,27]}} )",
          27),
      file_of(
          R"({"z":{"dtype":"F4","shape":[2,2],"data_offsets":[6,8]},"y":{"dtype":"I8","shape":[0],"data_offsets":[0,0]},)"
          R"("x":{"data_offsets":[0,6],"shape":[3],"dtype":"BF16"}})",
          8),
  };
}

std::vector<std::string_view> dictionary() {
  return {R"("__metadata__":{"a":"b"},)",
          R"("t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)",
          R"("dtype":"F64",)",
          R"("shape":[)",
          R"("data_offsets":[0,4],)",
          "[[[[[[[[",
          "{\"a\":",
          "}",
          "]",
          ",",
          "null",
          "\"F8_E4M3\"",
          "4294967296,4294967296,",
          "\\u0000",
          "\xc3\x28",
          "        "};
}

bool takes_every_input() {
  return false;
}

// The length again, so that the header ends at its last brace.
void repair(Bytes& input) {
  if (input.size() < kLengthBytes) return;
  const auto brace = std::find(input.rbegin(), input.rend() - static_cast<std::ptrdiff_t>(kLengthBytes), '}');
  const auto length = static_cast<std::size_t>(input.rend() - static_cast<std::ptrdiff_t>(kLengthBytes) - brace);
  for (std::size_t i = 0; i < kLengthBytes; ++i) input[i] = static_cast<std::uint8_t>(length >> (8 * i));
}

}  // namespace reprofuse::fuzz
