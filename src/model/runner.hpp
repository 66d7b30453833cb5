// Runs a model over any mix of sequences: builds the batch, keeps what a pass needs, and replays decode steps where the
// backend has graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/bounded_cache.hpp"
#include "kernels/backend.hpp"
#include "kernels/op_calls.hpp"
#include "model/activations.hpp"
#include "model/exchange.hpp"
#include "model/kv_cache.hpp"
#include "model/model.hpp"
#include "model/team.hpp"
#include "reprofuse/error.hpp"

namespace reprofuse::model {

// The chunks of a pass laid out in host memory: what rank 0 makes of them, copies to its device, and sends to the
// others.
struct PassBatch {
  std::vector<std::int32_t> tokens, positions, sequences, logit_rows, page_table;
  std::vector<kernels::Chunk> chunks;
  std::int32_t max_chunk_rows = 0;
  std::int32_t max_keys = 0;
  std::int32_t page_table_stride = 0;  // entries per sequence

  bool is_decode() const { return max_chunk_rows == 1 && logit_rows.size() == tokens.size(); }
};

enum class Logits { kNone, kLast, kAll };

// A chunk: the next tokens of one sequence, computed in one pass. One token in decode, many in a prefill.
// kernels::Chunk is where its rows lie in the batch.
struct TokenChunk {
  Sequence* sequence;
  std::span<const std::int32_t> tokens;
  Logits logits = Logits::kLast;
};

struct RunnerLimits {
  std::int64_t rows = 512;      // tokens of one pass
  std::int64_t sequences = 1;   // of one pass
  std::int64_t logit_rows = 1;  // of one pass
};

// What a runner of another rank is made of, in the words of Command::kMakeRunner.
struct RunnerRecipe {
  std::int32_t model = 0;  // its number
  std::int32_t pages = 0;  // of the cache
  std::int32_t page_size = 0;
  RunnerLimits limits;

  std::vector<std::int32_t> to_words() const;
  static RunnerRecipe from_words(std::span<const std::int32_t> words);
};

// kNonFinite in a pass, and the token whose row had the value that is not finite: the first one found.
class NonFiniteToken : public Error {
 public:
  NonFiniteToken(std::int64_t chunk, std::int64_t token, const std::string& message)
      : Error(ErrorCode::kNonFinite, message), chunk_(chunk), token_(token) {}
  std::int64_t chunk() const { return chunk_; }  // of those given to run()
  std::int64_t token() const { return token_; }  // of the chunk

 private:
  std::int64_t chunk_;
  std::int64_t token_;
};

class Runner {
 public:
  // The model and the cache must outlive the runner.
  Runner(const Model& model, KvCache& cache, RunnerLimits limits);

  // Appends each chunk's tokens to its sequence. Returns the logits asked for, [rows, vocab_size] on the device, in the
  // order of the chunks, valid until the next pass. Bits: a row's depend on the tokens of its own sequence alone, not
  // on the other chunks or on how the tokens were cut into passes. Throws NonFiniteToken and leaves the sequences
  // alone.
  ConstMatrix run(std::span<const TokenChunk> chunks);

  // On the other ranks: the pass that the leader's run() has sent. Its logits are on rank 0 alone.
  void follow(std::span<const std::int32_t> words);

  // Calls the observer after every op of a pass, when its results are there. Such passes are never replayed as graphs.
  // Of several ranks none has all results.
  void observe(OpObserver observer);

  // The logits of the last pass, on the device and in host memory.
  std::vector<float> host_logits() const;
  ConstMatrix logits() const;
  void* stream() const { return stream_->handle(); }

  const Model& model() const { return model_; }
  const RunnerLimits& limits() const { return limits_; }

 private:
  const kernels::Backend& backend() const;
  std::int32_t key_bound(std::int64_t keys) const;
  PassBatch build(std::span<const TokenChunk> chunks) const;
  kernels::Batch upload(const PassBatch& host, const HostTokenOwners* owners);
  void compute(const PassBatch& host);
  void enqueue_pass(const PassBatch& host, Failure* failure);
  bool uses_graph(const PassBatch& host) const;
  void replay_decode(const kernels::Batch& batch, const std::function<void(void* stream)>& enqueue);
  std::unique_ptr<MirroredObject> tell_followers() const;

  const Model& model_;
  KvCache& cache_;
  RunnerLimits limits_;
  Activations activations_;
  Workspace workspace_;
  std::int64_t max_pages_;                    // of one sequence
  std::unique_ptr<MirroredObject> mirrored_;  // of the leader
  parallel::RankFailure out_of_memory_;       // made before it is needed
  OpObserver observer_;
  StagedBuffer inputs_;          // the arrays of kernels::Batch and the logit rows, back to back
  std::int64_t logit_rows_ = 0;  // of the last pass
  std::unique_ptr<kernels::Stream> stream_;
  // By sequences and bound on keys. A graph holds device memory, and there are as many pairs as sequences times
  // doublings of the context, so only those used last are kept. A dropped one is captured again: the same kernels, the
  // same bits.
  static constexpr std::size_t kDecodeGraphs = 64;
  struct DecodeGraph {
    std::unique_ptr<kernels::Graph> graph;
    std::int64_t gathered_bytes;  // from other ranks
  };
  BoundedCache<std::pair<std::int32_t, std::int32_t>, DecodeGraph> decode_graphs_{kDecodeGraphs};
};

}  // namespace reprofuse::model
