// What decides an answer beside the request: the weights, and the files of a folder that say how a text becomes tokens,
// how an answer is sampled and where it ends.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model_files.hpp"

namespace reprofuse::receipt {

struct Artifacts {
  std::string model;                                        // the model digest: SHA-256, in hex, of its manifest
  std::string manifest_root;                                // of the Merkle tree over the manifest's lines
  std::map<std::string, std::optional<std::string>> files;  // SHA-256 of each text file's bytes; none: it is not there
  std::optional<std::string> chat_template;                 // of the template's source
  std::string unicode;                                      // text::unicode_versions()
  std::string date;                                         // what a chat template sees as today
  std::int64_t context = 0;                                 // the longest text
  std::string settings;                                     // see settings_digest()

  bool operator==(const Artifacts&) const = default;
};

// Those of a folder that decide an answer, in the order of the fingerprint's FILES.
inline constexpr std::array<std::string_view, 4> kTextFiles = {"generation_config.json", "tokenizer.json",
                                                               "tokenizer_config.json", "chat_template.jinja"};

// The text files of a folder, byte for byte as they were at one moment.
class TextFiles {
 public:
  explicit TextFiles(const std::string& folder);

  std::string digest() const;  // FILES of the fingerprint, see NUMERICS.md
  const std::map<std::string, std::optional<std::string>>& hashes() const { return hashes_; }

  bool operator==(const TextFiles&) const = default;

 private:
  std::map<std::string, std::optional<std::string>> hashes_;
  std::string digest_;
};

// Of what decides an answer to a request that does not say it, as the fingerprint has it (NUMERICS.md).
std::string settings_digest(std::string_view files_digest, std::string_view unicode,
                            const std::vector<std::int32_t>& stop_tokens, std::string_view date, std::int64_t context,
                            engine::SpecialTokens special_tokens);

// `manifest` is of the model that was made of the files (model::HashedSource, checkpoint::model_manifest).
Artifacts artifacts_of(const engine::ModelFiles& files, const TextFiles& text_files, const std::string& manifest,
                       const std::string& date, std::int64_t context,
                       engine::SpecialTokens special_tokens = engine::SpecialTokens::kAsTokens);

// "fma-1-0123456789abcdef-89abcdef-0.1.0": the contract, the model's weights, the settings that a request may leave
// open, the version. Equal fingerprints mean equal bits for equal requests, so that of a baseline begins otherwise.
std::string system_fingerprint(std::string_view numerics, const Artifacts& artifacts, std::string_view version);

// What a receipt's artifacts are compared with.
struct AtHand {
  Artifacts artifacts;
  std::string files_digest;               // TextFiles::digest()
  std::vector<std::int32_t> stop_tokens;  // the model's
  std::int64_t longest = 0;               // context that the model can have
  bool any_date = false;                  // the receipt's own is taken
  bool any_context = false;               // likewise, up to the longest

  AtHand() = default;
  AtHand(const engine::ModelFiles& files, const TextFiles& text_files, Artifacts here);
};

// The first that differs, by name (model, tokenizer, template, date, settings) and with both values; empty: none. The
// settings' digest is that of the receipt's own version of Unicode, date, context and mode of special tokens.
std::string first_difference(const Artifacts& claimed, const AtHand& here);

}  // namespace reprofuse::receipt
