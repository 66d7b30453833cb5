// The rotary part of config.json, in its old spelling (rope_theta, rope_scaling) and its new one (rope_parameters).
#pragma once

#include "checkpoint/json_reader.hpp"
#include "reprofuse/rotary.hpp"

namespace reprofuse::checkpoint {

RotaryConfig read_rotary(JsonReader& config, std::int64_t max_positions);

// Throws unless the values of a RotaryConfig fit its kind.
void check_rotary(const RotaryConfig& rotary, const std::string& file);

// The block that goes under rope_scaling or rope_parameters, without rope_theta: {"rope_type": "llama3", ...}.
Json rotary_to_json(const RotaryConfig& rotary);

}  // namespace reprofuse::checkpoint
