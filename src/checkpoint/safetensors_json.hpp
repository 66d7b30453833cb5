// The JSON of a safetensors header.
#pragma once

#include <string>
#include <string_view>

#include "checkpoint/safetensors_header.hpp"

namespace reprofuse::checkpoint {

// Tensors in the order of the text; their offsets are not yet compared with anything. Memory stays within a small
// multiple of the text: what does not belong into a header is refused at its first byte, before it is stored.
SafetensorsHeader parse_header_json(std::string_view json, const std::string& file);

std::string header_to_json(const SafetensorsHeader& header);

}  // namespace reprofuse::checkpoint
