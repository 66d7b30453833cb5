#include "checkpoint/safetensors.hpp"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/check.hpp"
#include "base/json.hpp"
#include "base/math.hpp"

namespace reprofuse::checkpoint {
namespace {

using Json = nlohmann::json;

// What the file says of its header's length decides how much is read; the parser looks at the length itself.
SafetensorsHeader read_header(const SourceFile& source, const std::string& file) {
  const std::size_t length_bytes = std::min(kLengthBytes, source.size());
  const auto length = source.read(0, length_bytes);
  std::uint64_t header = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) header |= std::to_integer<std::uint64_t>(length[i]) << (8 * i);
  header = std::min<std::uint64_t>(header, kMaxHeaderBytes);
  const std::size_t bytes = std::min<std::size_t>(source.size(), kLengthBytes + header);
  const auto start = source.read(0, bytes);
  return parse_safetensors_header({start.get(), bytes}, source.size(), file);
}

}  // namespace

Safetensors::Safetensors(const std::string& path, std::string file)
    : file_(std::move(file)), source_(path), header_(read_header(source_, file_)) {
  for (const TensorEntry& entry : header_.tensors) by_name_.emplace(entry.name, &entry);
}

const TensorEntry* Safetensors::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : at->second;
}

TensorFacts Safetensors::facts(const TensorEntry& entry) const {
  if (!entry.type->dtype)
    fail(ErrorCode::kUnsupported, "{}: tensor {} has dtype {}; BF16, F16 and F32 are supported", file_,
         Shown{entry.name}, entry.type->name);
  return {.name = entry.name,
          .file = file_,
          .dtype = *entry.type->dtype,
          .shape = entry.shape,
          .bytes = entry.end - entry.begin};
}

TensorView Safetensors::read(const TensorEntry& entry) const {
  TensorFacts facts = this->facts(entry);
  const auto bytes = read(entry, 0, facts.bytes);
  return {.name = std::move(facts.name),
          .file = std::move(facts.file),
          .bytes = {bytes.get(), facts.bytes},
          .dtype = facts.dtype,
          .shape = std::move(facts.shape),
          .owner = bytes};
}

std::shared_ptr<const std::byte[]> Safetensors::read(const TensorEntry& entry, std::size_t offset,
                                                     std::size_t bytes) const {
  return source_.read(header_.data_offset + entry.begin + offset, bytes);
}

void Safetensors::read_into(const TensorEntry& entry, std::span<std::byte> memory) const {
  const std::size_t bytes = facts(entry).bytes;
  require(memory.size() == bytes, "{}: tensor {} has {} bytes, and there is memory for {}", file_, Shown{entry.name},
          bytes, memory.size());
  source_.read_into(memory, header_.data_offset + entry.begin);
}

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
