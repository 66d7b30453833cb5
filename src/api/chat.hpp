// What a public ChatTemplate shares: a template of its own, or that of a checkpoint.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/text_format.hpp"
#include "reprofuse/chat_template.hpp"

namespace reprofuse {

struct ChatTemplate::Impl {
  std::function<std::string(const nlohmann::ordered_json& messages, const text::DateTime& date,
                            const engine::ChatExtras& extras)>
      render;
};

}  // namespace reprofuse
