// A model on disk in the Hugging Face layout: config.json, generation_config.json, safetensors files; and its digest.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "base/thread_pool.hpp"
#include "checkpoint/config.hpp"
#include "checkpoint/safetensors.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::checkpoint {

inline constexpr std::string_view kConfigFile = "config.json";
inline constexpr std::string_view kGenerationConfigFile = "generation_config.json";
inline constexpr std::string_view kWeightsFile = "model.safetensors";
inline constexpr std::string_view kShardIndexFile = "model.safetensors.index.json";

struct EosTokens {
  std::vector<std::int64_t> ids;  // any of them ends a text; empty when no file names one
  std::string_view file;          // the one that named them
};

using ReadPart = std::function<void(std::size_t bytes)>;  // called after each part of a tensor

class Checkpoint {
 public:
  // Opens the files and checks that they hold exactly the tensors that config.json asks for, with the right shapes and
  // supported dtypes, which may differ from tensor to tensor. Reads headers only, with one exception: a tied model that
  // stores a head as well is compared with its embedding, since versions of transformers disagree on which one counts.
  static Checkpoint open(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const ModelConfig& config() const { return config_; }
  const GenerationConfig& generation_config() const { return generation_config_; }  // empty without its file
  EosTokens eos_tokens() const;  // generation_config.json's where it names any, else config.json's

  const std::vector<ExpectedTensor>& tensors() const { return tensors_; }
  std::int64_t tensor_bytes() const;  // of all of them, as stored

  // These throw for a name that tensors() does not have. Reading a file that has changed since open() is an error.
  TensorFacts tensor(std::string_view name) const;
  TensorView read_tensor(std::string_view name) const;  // in memory of this process, that nothing outside can change
  void read_tensor(std::string_view name, std::span<std::byte> memory) const;  // which must have room for all of it
  // Rows [first, first + count) of its first dimension, and nothing else of the file.
  TensorView read_rows(std::string_view name, std::int64_t first, std::int64_t count) const;
  Sha256::Digest tensor_digest(std::string_view name, const ReadPart& read = {}) const;  // reads a part at a time

 private:
  struct Place {
    std::size_t file;  // in files_
    const TensorEntry* entry;
  };

  Checkpoint() = default;
  const Place& place_of(std::string_view name) const;
  void open_files();
  void place_tensors(const std::map<std::string, std::string>* weight_map);
  bool is_ignored(const TensorEntry& entry, const Safetensors& file) const;
  void check_tensors() const;
  void check_tied_head(const Safetensors& file, const TensorEntry& head) const;

  std::string folder_;
  std::string_view weights_file_;  // the one that lists all tensors: kWeightsFile or kShardIndexFile
  ModelConfig config_;
  GenerationConfig generation_config_;
  std::vector<ExpectedTensor> tensors_;
  std::vector<Safetensors> files_;
  std::map<std::string, Place, std::less<>> places_;
};

// A name for the bits of a model: the same for the same weights and constants, however they are cut into files.

// The SHA-256 of each tensor's bytes in file order, by name, in hex.
using TensorDigests = std::map<std::string, std::string>;

// Reads every tensor, each by one thread.
TensorDigests tensor_digests(const Checkpoint& checkpoint, ThreadPool& pool, const Progress& progress = {});

// The constants of config.json that enter the arithmetic, a line of a name and values for each group of them.
std::string config_lines(const ModelConfig& config);

// Everything that decides an answer's bits, as text: the constants of config.json that enter the arithmetic, then one
// line per tensor, by ascending name, with dtype, shape and digest. Two models differ where their manifests differ. The
// tokenizer, file names, sharding and unused keys of config.json are not in it.
std::string model_manifest(const Checkpoint& checkpoint, const TensorDigests& digests);

// The SHA-256 of the manifest, in hex.
std::string model_digest(const Checkpoint& checkpoint, const TensorDigests& digests);
std::string model_digest(const Checkpoint& checkpoint, ThreadPool& pool, const Progress& progress = {});

}  // namespace reprofuse::checkpoint
