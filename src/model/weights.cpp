#include "model/weights.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/check.hpp"
#include "base/fp_environment.hpp"
#include "base/hash.hpp"
#include "checkpoint/config.hpp"
#include "numerics/float_ops.hpp"

namespace reprofuse::model {
namespace {

using checkpoint::HostTensor;
using checkpoint::layer_tensor_name;
using checkpoint::ModelConfig;
using checkpoint::TensorView;

class Loader {
 public:
  Loader(const Context& context, const WeightSource& source, const Share& share, bool with_digest,
         const Progress& progress)
      : context_(context),
        source_(source),
        share_(share),
        with_digest_(with_digest),
        config_(source.config()),
        progress_(progress),
        total_(source.tensor_bytes() / share.ranks) {}

  TensorView read(RankTensor tensor) {
    TensorView view = tensor.read(source_, share_);
    if (with_digest_) hash_.update(view.bytes.data(), view.bytes.size());
    tensors_.push_back(std::move(tensor));
    return view;
  }

  // Biases and norm weights are used in binary32.
  Buffer vector(RankTensor tensor) {
    const TensorView view = read(std::move(tensor));
    const HostTensor host(view);
    std::vector<float> widened;
    for (std::int64_t i = 0; i < view.elements(); ++i)
      widened.push_back(widen(view.dtype, load_weight(host.data(), view.dtype, i)));
    Buffer buffer(context_, widened.size() * sizeof(float));
    copy_to_device(context_, buffer.as<void>(), widened.data(), buffer.bytes());
    finish(view);
    return buffer;
  }

  Norm norm(const std::string& name) { return {vector({name}), NamedOp(context_, OpKind::kNorm, name)}; }

  // A list of matrices that share their input. A device with memory of its own keeps them there, in `matrices`.
  Projection projection(const std::string& name, const std::vector<RankTensor>& tensors, bool bias,
                        std::vector<Buffer>* matrices) {
    const auto named = [](const RankTensor& tensor, std::string_view ending) {
      return RankTensor{tensor.name + std::string(ending), tensor.range, tensor.unit};
    };
    std::vector<TensorView> views;
    std::vector<HostTensor> hosts;
    std::vector<WeightView> weights;
    for (const RankTensor& tensor : tensors) {
      views.push_back(read(named(tensor, ".weight")));
      hosts.emplace_back(views.back());
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) weights.push_back(place(views[i], hosts[i], matrices));
    Projection projection{LinearLayer(context_, weights, name, WeightUse::kTake), {}, {}};
    for (const TensorView& view : views) {
      projection.tensors.push_back(view.name);
      finish(view);
    }
    if (bias)
      for (const RankTensor& tensor : tensors) projection.biases.push_back(vector(named(tensor, ".bias")));
    return projection;
  }

  // The matrix where the context's device can read it.
  WeightView place(const TensorView& view, const HostTensor& host, std::vector<Buffer>* matrices) {
    const void* data = host.data();
    if (!context_.state().backend->capabilities().shares_host_memory) {
      matrices->emplace_back(context_, view.bytes.size());
      copy_to_device(context_, matrices->back().as<void>(), data, view.bytes.size());
      data = matrices->back().as<void>();
    }
    return {.data = data, .dtype = view.dtype, .n = view.shape[0], .k = view.shape[1], .stride = view.shape[1]};
  }

  LayerWeights layer(std::int64_t index, std::vector<Buffer>* matrices) {
    const auto name = [&](std::string_view ending) { return layer_tensor_name(index, ending); };
    const auto heads = [&](std::string_view ending, Range Share::*range) {
      return RankTensor{name(ending), range, config_.head_dim};
    };
    const auto outputs = [&](std::string_view ending, Range Share::*range) { return RankTensor{name(ending), range}; };
    return {.input_norm = norm(name("input_layernorm.weight")),
            .qkv = projection(name("self_attn.qkv"),
                              {heads("self_attn.q_proj", &Share::heads), heads("self_attn.k_proj", &Share::kv_heads),
                               heads("self_attn.v_proj", &Share::kv_heads)},
                              config_.qkv_bias, matrices),
            .q_norm = config_.qk_norm ? std::optional(vector({name("self_attn.q_norm.weight")})) : std::nullopt,
            .k_norm = config_.qk_norm ? std::optional(vector({name("self_attn.k_norm.weight")})) : std::nullopt,
            .attention = NamedOp(context_, OpKind::kAttention, name("self_attn")),
            .o = projection(name("self_attn.o_proj"), {outputs("self_attn.o_proj", &Share::hidden)}, config_.o_bias,
                            matrices),
            .post_attention_norm = norm(name("post_attention_layernorm.weight")),
            .gate_up = projection(
                name("mlp.gate_up"),
                {outputs("mlp.gate_proj", &Share::intermediate), outputs("mlp.up_proj", &Share::intermediate)},
                config_.mlp_bias, matrices),
            .down = projection(name("mlp.down_proj"), {outputs("mlp.down_proj", &Share::hidden)}, config_.mlp_bias,
                               matrices)};
  }

  void finish(const TensorView& view) {
    done_ += static_cast<std::int64_t>(view.bytes.size());
    if (progress_) progress_(std::min(done_, total_), total_);
  }

  std::string digest() { return with_digest_ ? to_hex(hash_.finish()) : ""; }
  std::vector<RankTensor> take_tensors() { return std::move(tensors_); }

 private:
  const Context& context_;
  const WeightSource& source_;
  const Share& share_;
  bool with_digest_;
  Sha256 hash_;
  std::vector<RankTensor> tensors_;
  const ModelConfig& config_;
  const Progress& progress_;
  std::int64_t total_;
  std::int64_t done_ = 0;
};

}  // namespace

TensorView WeightSource::rows(std::string_view name, std::int64_t first, std::int64_t count) const {
  TensorView view = tensor(name);
  require(first >= 0 && count >= 0 && first + count <= view.shape[0], "tensor '{}' has no rows {} to {}", name, first,
          first + count);
  const std::size_t row = view.bytes.size() / static_cast<std::size_t>(view.shape[0]);
  const auto bytes = view.bytes.subspan(row * static_cast<std::size_t>(first), row * static_cast<std::size_t>(count));
  const auto copy = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  view.bytes = *copy;
  view.owner = copy;
  view.shape[0] = count;
  return view;
}

TensorView RankTensor::read(const WeightSource& source, const Share& share) const {
  if (!range || share.ranks == 1) return source.tensor(name);
  const Range rows = (share.**range).times(unit);
  return source.rows(name, rows.first, rows.count);
}

std::string share_digest(const WeightSource& source, const std::vector<RankTensor>& tensors, const Share& share,
                         const std::function<void()>& after_tensor) {
  Sha256 hash;
  for (const RankTensor& tensor : tensors) {
    const TensorView view = tensor.read(source, share);
    hash.update(view.bytes.data(), view.bytes.size());
    after_tensor();
  }
  return to_hex(hash.finish());
}

// Hashes may lag behind by a twentieth of the model, so that loading takes little more memory than the model.
checkpoint::TensorView HashedSource::tensor(std::string_view name) const {
  constexpr std::int64_t kShare = 20;
  TensorView view = source_->tensor(name);
  const auto bytes = static_cast<std::int64_t>(view.bytes.size());
  while (!under_way_.empty() && bytes_under_way_ + bytes > tensor_bytes() / kShare) finish_first();
  under_way_.push_back({view.name, bytes, std::async(std::launch::async, [view] {
                          Sha256 hash;
                          hash.update(view.bytes.data(), view.bytes.size());
                          return to_hex(hash.finish());
                        })});
  bytes_under_way_ += bytes;
  return view;
}

void HashedSource::finish_first() const {
  UnderWay first = std::move(under_way_.front());
  under_way_.pop_front();
  bytes_under_way_ -= first.bytes;
  const std::string digest = first.digest.get();
  const std::string& known = digests_.emplace(first.name, digest).first->second;
  require(known == digest, "tensor '{}': its file was changed while the model was loaded", first.name);
}

std::string HashedSource::manifest() const {
  while (!under_way_.empty()) finish_first();
  for (const checkpoint::ExpectedTensor& expected : source_->checkpoint().tensors())
    if (!digests_.contains(expected.name))
      digests_.emplace(expected.name, to_hex(source_->checkpoint().tensor_digest(expected.name)));
  return checkpoint::model_manifest(source_->checkpoint(), digests_);
}

LoadedWeights load_weights(const Context& context, std::shared_ptr<const WeightSource> source, const Share& share,
                           bool with_digest, const Progress& progress) {
  const FpEnvironment pinned;
  const ModelConfig& config = source->config();
  Loader loader(context, *source, share, with_digest, progress);
  std::vector<Buffer> matrices;

  const TensorView embedding_view = loader.read({std::string(checkpoint::kEmbeddingName), &Share::vocabulary});
  std::optional<HostTensor> host_embedding(embedding_view);
  const WeightView embedding = loader.place(embedding_view, *host_embedding, &matrices);
  if (!context.state().backend->capabilities().shares_host_memory) host_embedding.reset();

  std::vector<LayerWeights> layers;
  for (std::int64_t i = 0; i < config.layers; ++i) layers.push_back(loader.layer(i, &matrices));
  Norm final_norm = loader.norm(std::string(checkpoint::kFinalNormName));

  const auto make_head = [&] {
    if (!config.tied_embeddings) return loader.projection(kHeadOp, {{"lm_head", &Share::vocabulary}}, false, &matrices);
    Projection tied{LinearLayer(context, std::span(&embedding, 1), kHeadOp), {embedding_view.name}, {}};
    return tied;
  };
  Projection head = make_head();
  loader.finish(embedding_view);

  return {.weights = {.embedding = embedding,
                      .layers = std::move(layers),
                      .final_norm = std::move(final_norm),
                      .head = std::move(head),
                      .source = std::move(source),
                      .host_embedding = std::move(host_embedding),
                      .device_matrices = std::move(matrices)},
          .tensors = loader.take_tensors(),
          .digest = loader.digest()};
}

}  // namespace reprofuse::model
