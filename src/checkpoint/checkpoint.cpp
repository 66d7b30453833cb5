#include "checkpoint/checkpoint.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>

#include "base/check.hpp"
#include "base/fp_environment.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "checkpoint/safetensors.hpp"

namespace reprofuse::checkpoint {
namespace {

constexpr std::size_t kMaxConfigBytes = 1 << 20;
constexpr std::size_t kMaxIndexBytes = 16 << 20;
constexpr std::size_t kPartBytes = 16 << 20;  // of a tensor, for what looks at its bytes once

std::string path_of(const std::string& folder, std::string_view file) {
  return (std::filesystem::path(folder) / file).string();
}

bool exists(const std::string& folder, std::string_view file) {
  std::error_code error;  // a link to nothing counts as there: reading it then fails and says so
  return std::filesystem::symlink_status(path_of(folder, file), error).type() != std::filesystem::file_type::not_found;
}

std::string read_file(const std::string& folder, std::string_view file, std::size_t max_bytes) {
  return read_text_file(path_of(folder, file), std::string(file), max_bytes);
}

}  // namespace

Checkpoint Checkpoint::open(const std::string& folder) {
  const FpEnvironment pinned;  // numbers in JSON are rounded as they are read
  std::error_code error;
  require(std::filesystem::exists(folder, error), "{}: there is no such folder", folder);
  require(std::filesystem::is_directory(folder, error), "{}: is no folder", folder);
  Checkpoint checkpoint;
  checkpoint.folder_ = folder;
  checkpoint.config_ = parse_config(read_file(folder, kConfigFile, kMaxConfigBytes), std::string(kConfigFile));
  if (exists(folder, kGenerationConfigFile))
    checkpoint.generation_config_ =
        parse_generation_config(read_file(folder, kGenerationConfigFile, kMaxConfigBytes),
                                std::string(kGenerationConfigFile), checkpoint.config_.vocab_size);
  checkpoint.tensors_ = expected_tensors(checkpoint.config_);
  checkpoint.open_files();
  checkpoint.check_tensors();
  return checkpoint;
}

void Checkpoint::open_files() {
  const bool single = exists(folder_, kWeightsFile);
  const bool sharded = exists(folder_, kShardIndexFile);
  require(single || sharded, "{}: has neither {} nor {}; other formats are not supported", folder_, kWeightsFile,
          kShardIndexFile);
  require(!single || !sharded, "{}: has both {} and {}, so the weights are ambiguous", folder_, kWeightsFile,
          kShardIndexFile);
  weights_file_ = single ? kWeightsFile : kShardIndexFile;
  if (single) {
    files_.emplace_back(path_of(folder_, kWeightsFile), std::string(kWeightsFile));
    place_tensors(nullptr);
    return;
  }
  const WeightMap weight_map =
      parse_shard_index(read_file(folder_, kShardIndexFile, kMaxIndexBytes), std::string(kShardIndexFile));
  std::set<std::string> names;
  for (const auto& [tensor, file] : weight_map) names.insert(file);
  for (const std::string& name : names) {
    require(exists(folder_, name), "{}: names {}, which is not in {}", kShardIndexFile, Shown{name}, folder_);
    files_.emplace_back(path_of(folder_, name), name);
  }
  place_tensors(&weight_map);
}

// What a checkpoint may hold beside the model's tensors.
bool Checkpoint::is_ignored(const TensorEntry& entry, const Safetensors& file) const {
  if (entry.name.ends_with(".rotary_emb.inv_freq")) return true;  // old checkpoints stored what config.json implies
  if (entry.name != kHeadName || !config_.tied_embeddings) return false;
  check_tied_head(file, entry);
  return true;
}

void Checkpoint::place_tensors(const WeightMap* weight_map) {
  for (std::size_t file = 0; file < files_.size(); ++file)
    for (const TensorEntry& entry : files_[file].header().tensors) {
      if (weight_map != nullptr) {
        const auto named = weight_map->find(entry.name);
        require(named != weight_map->end() && named->second == files_[file].file(),
                "{}: holds tensor {}, which {} does not place there", files_[file].file(), Shown{entry.name},
                kShardIndexFile);
      }
      places_.emplace(entry.name, Place{file, &entry});
    }
  if (weight_map == nullptr) return;
  for (const auto& [tensor, file] : *weight_map)
    require(places_.contains(tensor), "{}: tensor {} is not in {}", kShardIndexFile, Shown{tensor}, file);
}

void Checkpoint::check_tensors() const {
  std::set<std::string_view> expected_names;
  for (const ExpectedTensor& expected : tensors_) {
    expected_names.insert(expected.name);
    const TensorFacts found = tensor(expected.name);
    require(found.shape == expected.shape, "{}: tensor {} has shape [{}]; config.json makes it [{}]", found.file,
            Shown{found.name}, fmt::join(found.shape, ", "), fmt::join(expected.shape, ", "));
  }
  for (const auto& [name, place] : places_)
    require(expected_names.contains(name) || is_ignored(*place.entry, files_[place.file]),
            "{}: tensor {} of dtype {} and shape [{}] has no place in the {} of config.json", files_[place.file].file(),
            Shown{name}, place.entry->type->name, fmt::join(place.entry->shape, ", "),
            architecture_name(config_.architecture));
}

// transformers 4 ignores such a head, transformers 5 uses it when it differs. Where it does not, both are right.
void Checkpoint::check_tied_head(const Safetensors& file, const TensorEntry& head) const {
  const Place& embedding = place_of(kEmbeddingName);
  const std::size_t size = head.end - head.begin;
  bool equal = head.type == embedding.entry->type && head.shape == embedding.entry->shape;
  for (std::size_t at = 0; equal && at < size; at += kPartBytes) {
    const std::size_t bytes = std::min(kPartBytes, size - at);
    const auto stored = file.read(head, at, bytes);
    const auto embedded = files_[embedding.file].read(*embedding.entry, at, bytes);
    equal = std::memcmp(stored.get(), embedded.get(), bytes) == 0;
  }
  require(equal, "{}: tensor '{}' differs from '{}', but config.json has tie_word_embeddings true", file.file(),
          kHeadName, kEmbeddingName);
}

EosTokens Checkpoint::eos_tokens() const {
  if (!generation_config_.eos_tokens.empty()) return {generation_config_.eos_tokens, kGenerationConfigFile};
  return {config_.eos_tokens, kConfigFile};
}

std::int64_t Checkpoint::tensor_bytes() const {
  std::int64_t bytes = 0;
  for (const ExpectedTensor& expected : tensors_) bytes += static_cast<std::int64_t>(tensor(expected.name).bytes);
  return bytes;
}

const Checkpoint::Place& Checkpoint::place_of(std::string_view name) const {
  const auto at = places_.find(name);
  require(at != places_.end(), "{}: tensor {} is missing", weights_file_, Shown{name});
  return at->second;
}

TensorFacts Checkpoint::tensor(std::string_view name) const {
  const Place& place = place_of(name);
  return files_[place.file].facts(*place.entry);
}

TensorView Checkpoint::read_tensor(std::string_view name) const {
  const Place& place = place_of(name);
  return files_[place.file].read(*place.entry);
}

void Checkpoint::read_tensor(std::string_view name, std::span<std::byte> memory) const {
  const Place& place = place_of(name);
  files_[place.file].read_into(*place.entry, memory);
}

TensorView Checkpoint::read_rows(std::string_view name, std::int64_t first, std::int64_t count) const {
  const Place& place = place_of(name);
  TensorFacts facts = files_[place.file].facts(*place.entry);
  require(first >= 0 && count >= 0 && first + count <= facts.shape[0], "{}: tensor {} has no rows {} to {}", facts.file,
          Shown{facts.name}, first, first + count);
  const std::size_t row = facts.bytes / static_cast<std::size_t>(facts.shape[0]);
  const std::size_t bytes = row * static_cast<std::size_t>(count);
  const auto read = files_[place.file].read(*place.entry, row * static_cast<std::size_t>(first), bytes);
  facts.shape[0] = count;
  return {.name = std::move(facts.name),
          .file = std::move(facts.file),
          .bytes = {read.get(), bytes},
          .dtype = facts.dtype,
          .shape = std::move(facts.shape),
          .owner = read};
}

Sha256::Digest Checkpoint::tensor_digest(std::string_view name, const ReadPart& read) const {
  const Place& place = place_of(name);
  const std::size_t size = place.entry->end - place.entry->begin;
  Sha256 hash;
  for (std::size_t at = 0; at < size; at += kPartBytes) {
    const std::size_t bytes = std::min(kPartBytes, size - at);
    hash.update(files_[place.file].read(*place.entry, at, bytes).get(), bytes);
    if (read) read(bytes);
  }
  return hash.finish();
}

namespace {

std::string bits(double value) {
  return fmt::format("{:016x}", std::bit_cast<std::uint64_t>(value));
}

std::string bits(std::optional<double> value) {
  return value ? bits(*value) : "none";
}

}  // namespace

std::string config_lines(const ModelConfig& c) {
  const RotaryConfig& r = c.rotary;
  std::string lines = fmt::format("architecture {}\n", architecture_name(c.architecture));
  lines += fmt::format("sizes {} {} {} {} {} {} {}\n", c.vocab_size, c.hidden_size, c.intermediate_size, c.layers,
                       c.heads, c.kv_heads, c.head_dim);
  lines += fmt::format("rms_norm_eps {:08x}\n", std::bit_cast<std::uint32_t>(c.rms_norm_eps_f32()));
  lines += fmt::format("rotary {} {} {} {} {} {} {} {} {} {} {} {}\n", static_cast<int>(r.kind), bits(r.theta),
                       bits(r.factor), r.original_max_positions, bits(r.low_freq_factor), bits(r.high_freq_factor),
                       bits(r.beta_fast), bits(r.beta_slow), r.truncate, bits(r.attention_factor), bits(r.mscale),
                       bits(r.mscale_all_dim));
  lines += fmt::format("tied {} qkv_bias {} o_bias {} mlp_bias {} qk_norm {}\n", c.tied_embeddings, c.qkv_bias,
                       c.o_bias, c.mlp_bias, c.qk_norm);
  lines += fmt::format("windows {}\n", fmt::join(c.layer_windows, " "));
  return lines;
}

TensorDigests tensor_digests(const Checkpoint& checkpoint, ThreadPool& pool, const Progress& progress) {
  const std::vector<ExpectedTensor>& tensors = checkpoint.tensors();
  const std::int64_t total = checkpoint.tensor_bytes();
  std::mutex mutex;
  std::int64_t done = 0;
  TensorDigests digests;
  pool.parallel_for(static_cast<std::int64_t>(tensors.size()), [&](std::int64_t index, int) {
    const std::string& name = tensors[static_cast<std::size_t>(index)].name;
    const std::string digest = to_hex(checkpoint.tensor_digest(name, [&](std::size_t bytes) {
      const std::lock_guard lock(mutex);
      done += static_cast<std::int64_t>(bytes);
      if (progress) progress(done, total);
    }));
    const std::lock_guard lock(mutex);
    digests.emplace(name, digest);
  });
  return digests;
}

std::string model_manifest(const Checkpoint& checkpoint, const TensorDigests& digests) {
  const FpEnvironment pinned;  // constants are rounded to binary32
  std::string manifest = "reprofuse-model-1\n" + config_lines(checkpoint.config());
  for (const auto& [name, digest] : digests) {
    const TensorFacts facts = checkpoint.tensor(name);
    manifest += fmt::format("{} {} [{}] {}\n", name, dtype_name(facts.dtype), fmt::join(facts.shape, ","), digest);
  }
  return manifest;
}

std::string model_digest(const Checkpoint& checkpoint, const TensorDigests& digests) {
  const std::string manifest = model_manifest(checkpoint, digests);
  Sha256 hash;
  hash.update(manifest.data(), manifest.size());
  return to_hex(hash.finish());
}

std::string model_digest(const Checkpoint& checkpoint, ThreadPool& pool, const Progress& progress) {
  return model_digest(checkpoint, tensor_digests(checkpoint, pool, progress));
}

}  // namespace reprofuse::checkpoint
