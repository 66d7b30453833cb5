#include <algorithm>
#include <fstream>
#include <tuple>

#include "base/check.hpp"
#include "base/math.hpp"
#include "checkpoint/json_reader.hpp"
#include "checkpoint/safetensors.hpp"
#include "checkpoint/safetensors_json.hpp"

namespace reprofuse::checkpoint {
namespace {

constexpr std::size_t kHeaderAlignment = 8;

std::vector<const TensorToWrite*> in_file_order(std::span<const TensorToWrite> tensors) {
  std::vector<const TensorToWrite*> order;
  for (const TensorToWrite& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const TensorToWrite* a, const TensorToWrite* b) {
    return std::tuple(dtype_bytes(b->dtype), std::string_view(a->name)) <
           std::tuple(dtype_bytes(a->dtype), std::string_view(b->name));
  });
  return order;
}

// The length, then the JSON padded with spaces so that the data begin at a multiple of eight.
std::string header_text(const SafetensorsHeader& header) {
  std::string json = header_to_json(header);
  json.resize(round_up(json.size(), kHeaderAlignment), ' ');
  std::string length;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length += static_cast<char>(json.size() >> (8 * i));
  return length + json;
}

}  // namespace

void write_safetensors(const std::string& path, std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::vector<const TensorToWrite*> order = in_file_order(tensors);
  SafetensorsHeader header;
  header.metadata = metadata;
  std::uint64_t offset = 0;
  for (const TensorToWrite* tensor : order) {
    const StoredType& type = stored_type(tensor->dtype);
    std::int64_t elements = 1;
    for (const std::int64_t size : tensor->shape) {
      const auto product = size < 0 ? std::nullopt : checked_product(elements, size);
      require(product.has_value(), "{}: tensor {} has shape [{}]", path, Shown{tensor->name},
              fmt::join(tensor->shape, ", "));
      elements = *product;
    }
    const std::uint64_t bytes = static_cast<std::uint64_t>(elements) * dtype_bytes(tensor->dtype);
    header.tensors.push_back({tensor->name, &type, tensor->shape, offset, offset + bytes});
    offset += bytes;
  }
  std::ofstream file(path, std::ios::binary);
  require(file.is_open(), "{}: cannot be written", path);
  const std::string text = header_text(header);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::vector<std::byte> bytes = order[i]->make_bytes();
    const TensorEntry& entry = header.tensors[i];
    require(bytes.size() == entry.end - entry.begin, "{}: tensor {} of shape [{}] has {} bytes", path,
            Shown{entry.name}, fmt::join(entry.shape, ", "), bytes.size());
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  file.close();
  require(file.good(), "{}: cannot be written", path);
}

}  // namespace reprofuse::checkpoint
