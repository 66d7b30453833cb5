#include "checkpoint/safetensors.hpp"

#include "base/check.hpp"
#include "checkpoint/json_reader.hpp"

namespace reprofuse::checkpoint {

Safetensors::Safetensors(const std::string& path, std::string file)
    : file_(std::move(file)), mapping_(path), header_(parse_safetensors_header(mapping_.bytes(), file_)) {
  for (const TensorEntry& entry : header_.tensors) by_name_.emplace(entry.name, &entry);
}

const TensorEntry* Safetensors::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : at->second;
}

TensorView Safetensors::view(const TensorEntry& entry) const {
  if (!entry.type->dtype)
    fail(ErrorCode::kUnsupported, "{}: tensor {} has dtype {}; BF16, F16 and F32 are supported", file_,
         Shown{entry.name}, entry.type->name);
  return {.name = entry.name,
          .file = file_,
          .bytes = mapping_.bytes().subspan(header_.data_offset + entry.begin, entry.end - entry.begin),
          .dtype = *entry.type->dtype,
          .shape = entry.shape};
}

}  // namespace reprofuse::checkpoint
