// The tokenizers and the corpus in tests/text/data.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reprofuse/tokenizer.hpp"
#include "support/json.hpp"

namespace reprofuse::text {

inline const std::vector<std::string>& styles() {
  static const std::vector<std::string> kStyles = {"llama3", "qwen", "deepseek", "gpt2"};
  return kStyles;
}

inline std::string tokenizer_path(const std::string& style) {
  return std::string(REPROFUSE_TEXT_DATA) + "/tokenizer_" + style + ".json";
}

inline Tokenizer load_style(const std::string& style) {
  return Tokenizer::load(tokenizer_path(style));
}

// What npm/tokenizer_expected.mjs wrote.
inline nlohmann::json read_expected() {
  return read_json(std::string(REPROFUSE_TEXT_DATA) + "/tokenizer_expected.json");
}

using Ids = std::vector<std::int32_t>;

}  // namespace reprofuse::text
