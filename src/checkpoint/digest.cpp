#include "checkpoint/digest.hpp"

#include <bit>
#include <mutex>

#include "base/check.hpp"
#include "base/fp_environment.hpp"
#include "base/hash.hpp"

namespace reprofuse::checkpoint {
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
