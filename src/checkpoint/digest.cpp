#include "checkpoint/digest.hpp"

#include <algorithm>
#include <bit>
#include <mutex>

#include "base/check.hpp"
#include "base/fp_environment.hpp"
#include "base/sha256.hpp"

namespace reprofuse::checkpoint {
namespace {

constexpr std::size_t kChunk = 16 << 20;

std::string bits(double value) {
  return fmt::format("{:016x}", std::bit_cast<std::uint64_t>(value));
}

std::string bits(std::optional<double> value) {
  return value ? bits(*value) : "none";
}

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

}  // namespace

std::string model_manifest(const Checkpoint& checkpoint, ThreadPool& pool, const Progress& progress) {
  const FpEnvironment pinned;  // constants are rounded to binary32
  std::vector<TensorView> views;
  for (const ExpectedTensor& expected : checkpoint.tensors()) views.push_back(checkpoint.tensor(expected.name));
  std::sort(views.begin(), views.end(), [](const TensorView& a, const TensorView& b) { return a.name < b.name; });
  const std::int64_t total = checkpoint.tensor_bytes();
  std::mutex mutex;
  std::int64_t done = 0;
  std::vector<std::string> digests(views.size());
  pool.parallel_for(static_cast<std::int64_t>(views.size()), [&](std::int64_t index, int) {
    const TensorView& view = views[static_cast<std::size_t>(index)];
    Sha256 hash;
    for (std::size_t at = 0; at < view.bytes.size(); at += kChunk) {
      const auto chunk = view.bytes.subspan(at, std::min(kChunk, view.bytes.size() - at));
      hash.update(chunk.data(), chunk.size());
      const std::lock_guard lock(mutex);
      done += static_cast<std::int64_t>(chunk.size());
      if (progress) progress(done, total);
    }
    checkpoint.release(view);
    digests[static_cast<std::size_t>(index)] = to_hex(hash.finish());
  });
  std::string manifest = "reprofuse-model-1\n" + config_lines(checkpoint.config());
  for (std::size_t i = 0; i < views.size(); ++i)
    manifest += fmt::format("{} {} [{}] {}\n", views[i].name, dtype_name(views[i].dtype),
                            fmt::join(views[i].shape, ","), digests[i]);
  return manifest;
}

std::string model_digest(const Checkpoint& checkpoint, ThreadPool& pool, const Progress& progress) {
  const std::string manifest = model_manifest(checkpoint, pool, progress);
  Sha256 hash;
  hash.update(manifest.data(), manifest.size());
  return to_hex(hash.finish());
}

}  // namespace reprofuse::checkpoint
