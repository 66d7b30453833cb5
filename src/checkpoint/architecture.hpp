// What the supported families share and where they differ, as one table.
#pragma once

#include <span>
#include <string_view>

#include "checkpoint/config.hpp"

namespace reprofuse::checkpoint {

enum class BiasRule : std::uint8_t {
  kNever,
  kByKey,   // attention_bias of config.json: q, k, v and o, all or none
  kQkvOnly  // always on q, k and v, never on o
};

enum class WindowRule : std::uint8_t {
  kNever,
  kEveryLayer,  // sliding_window holds for all layers, or is null
  kByLayer,     // use_sliding_window, max_window_layers, layer_types
};

struct ArchitectureTraits {
  Architecture architecture;
  std::string_view name;        // in "architectures"
  std::string_view model_type;  // in "model_type"
  BiasRule attention_bias;
  bool mlp_bias_by_key;  // mlp_bias of config.json counts
  bool qk_norm;
  WindowRule window;
  // transformers fills these keys with the numbers of one published model when they are absent. We ask for them.
  bool needs_kv_heads;
  bool needs_head_dim;
};

std::span<const ArchitectureTraits> architectures();
const ArchitectureTraits& traits_of(Architecture architecture);

}  // namespace reprofuse::checkpoint
