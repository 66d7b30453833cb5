// A tokenizer of a few tokens, to change one thing at a time.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "reprofuse/tokenizer.hpp"
#include "text/tokenizer/stages.hpp"

namespace reprofuse::text {

// Ids 0 to 255 are the bytes, and each merge makes the next id.
inline nlohmann::json small_tokenizer(std::initializer_list<std::pair<const char*, const char*>> merges = {}) {
  nlohmann::json vocab = nlohmann::json::object();
  for (int byte = 0; byte < 256; ++byte) {
    const char character = static_cast<char>(byte);
    vocab[spell_bytes({&character, 1})] = byte;
  }
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [left, right] : merges) {
    vocab[std::string(left) + right] = vocab.size();
    list.push_back({left, right});
  }
  return {{"version", "1.0"},
          {"added_tokens", nlohmann::json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", list}}}};
}

inline nlohmann::json added_token(const std::string& content, int id, const nlohmann::json& settings = {}) {
  nlohmann::json token = {{"id", id}, {"content", content}, {"normalized", false}, {"special", true}};
  if (!settings.is_null()) token.update(settings);
  return token;
}

inline Tokenizer make(const nlohmann::json& document) {
  return Tokenizer::from_json(document.dump(), "small.json");
}

}  // namespace reprofuse::text
