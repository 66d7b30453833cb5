#include "model/runner.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <optional>
#include <vector>

#include "base/check.hpp"
#include "model/kv_cache.hpp"
#include "ops/buffer.hpp"
#include "ops/context_state.hpp"

namespace reprofuse::model {
namespace {

constexpr std::int64_t kChunkWords = sizeof(kernels::Chunk) / sizeof(std::int32_t);

RunnerLimits checked(RunnerLimits limits) {
  require(limits.rows >= 1 && limits.sequences >= 1 && limits.logit_rows >= 1,
          "a pass needs room for a row, a sequence and a row of logits; got {}, {} and {}", limits.rows,
          limits.sequences, limits.logit_rows);
  return limits;
}

void require_different_sequences(std::span<const TokenChunk> chunks) {
  std::vector<const Sequence*> sequences;
  for (const TokenChunk& chunk : chunks) sequences.push_back(chunk.sequence);
  std::ranges::sort(sequences);
  require(std::ranges::adjacent_find(sequences) == sequences.end(), "a sequence is in a pass twice");
}

parallel::RankFailure out_of_memory(const Model& model) {
  constexpr const char* kReason = "there is not enough memory for a pass";
  if (model.exchange() == nullptr) return parallel::RankFailure(kReason);
  const Team& team = model.exchange()->team();
  return parallel::RankFailure(fmt::format("{}: {}", team.communicator().name_of(team.rank()), kReason));
}

// Where each array lies in the one block of words that is copied to the device.
struct Layout {
  std::int64_t tokens = 0;
  std::int64_t positions, sequences, own_tokens, places, chunks, logit_rows, page_table, words;

  // Owners of tokens are told among several ranks alone.
  Layout(RunnerLimits limits, std::int64_t max_pages, bool has_owners)
      : positions(tokens + limits.rows),
        sequences(positions + limits.rows),
        own_tokens(sequences + limits.rows),
        places(own_tokens + (has_owners ? limits.rows : 0)),
        chunks(places + (has_owners ? limits.rows : 0)),
        logit_rows(chunks + limits.sequences * kChunkWords),
        page_table(logit_rows + limits.logit_rows),
        words(page_table + limits.sequences * max_pages) {}
};

template <typename Element>
void append(std::vector<std::int32_t>& words, const std::vector<Element>& elements) {
  static_assert(sizeof(Element) % sizeof(std::int32_t) == 0);
  const std::size_t before = words.size();
  words.resize(before + elements.size() * sizeof(Element) / sizeof(std::int32_t));
  if (!elements.empty()) std::memcpy(words.data() + before, elements.data(), elements.size() * sizeof(Element));
}

template <typename Element>
void take(std::span<const std::int32_t>& words, std::vector<Element>& elements, std::int32_t count) {
  elements.resize(static_cast<std::size_t>(count));
  const std::size_t taken = elements.size() * sizeof(Element) / sizeof(std::int32_t);
  invariant(taken <= words.size(), "a pass has fewer words than it says");
  if (taken > 0) std::memcpy(static_cast<void*>(elements.data()), words.data(), taken * sizeof(std::int32_t));
  words = words.subspan(taken);
}

constexpr std::size_t kSizes = 6;        // at the beginning of the words of a pass
constexpr std::size_t kRecipeWords = 6;  // of a runner

// The words in which rank 0 sends a pass to the others.
std::vector<std::int32_t> to_words(const PassBatch& pass) {
  const auto count = [](const auto& elements) { return static_cast<std::int32_t>(elements.size()); };
  std::vector<std::int32_t> words{count(pass.tokens),  count(pass.chunks), count(pass.logit_rows),
                                  pass.max_chunk_rows, pass.max_keys,      pass.page_table_stride};
  invariant(words.size() == kSizes, "the sizes of a pass are as many as are read");
  for (const auto* rows : {&pass.tokens, &pass.positions, &pass.sequences, &pass.logit_rows, &pass.page_table})
    append(words, *rows);
  append(words, pass.chunks);
  return words;
}

PassBatch pass_from_words(std::span<const std::int32_t> words) {
  invariant(words.size() >= kSizes, "a pass has no sizes");
  PassBatch pass;
  const std::int32_t rows = words[0], chunk_count = words[1], logit_row_count = words[2];
  pass.max_chunk_rows = words[3];
  pass.max_keys = words[4];
  pass.page_table_stride = words[5];
  words = words.subspan(kSizes);
  for (auto* of_rows : {&pass.tokens, &pass.positions, &pass.sequences}) take(words, *of_rows, rows);
  take(words, pass.logit_rows, logit_row_count);
  take(words, pass.page_table, chunk_count * pass.page_table_stride);
  take(words, pass.chunks, chunk_count);
  return pass;
}

}  // namespace

std::vector<std::int32_t> RunnerRecipe::to_words() const {
  const auto word = [](std::int64_t size) { return static_cast<std::int32_t>(size); };
  std::vector<std::int32_t> words{
      model, pages, page_size, word(limits.rows), word(limits.sequences), word(limits.logit_rows)};
  invariant(words.size() == kRecipeWords, "a runner is made of as many words as are read");
  return words;
}

RunnerRecipe RunnerRecipe::from_words(std::span<const std::int32_t> words) {
  invariant(words.size() == kRecipeWords, "a runner is made of another number of words");
  return {.model = words[0],
          .pages = words[1],
          .page_size = words[2],
          .limits = {.rows = words[3], .sequences = words[4], .logit_rows = words[5]}};
}

Runner::Runner(const Model& model, KvCache& cache, RunnerLimits limits)
    : model_(model),
      cache_(cache),
      limits_(checked(limits)),
      activations_(model.context(), model.config(), model.share(), model.exchange() == nullptr, limits.rows,
                   limits.logit_rows),
      workspace_(model.context(), model.workspace_bytes(limits.rows, limits.sequences, limits.logit_rows)),
      max_pages_(cache.pages_for(model.max_positions())),
      mirrored_(tell_followers()),
      out_of_memory_(out_of_memory(model)),
      inputs_(model.context(),
              static_cast<std::size_t>(Layout(limits_, max_pages_, model.exchange() != nullptr).words) *
                  sizeof(std::int32_t)),
      stream_(backend().make_stream()) {}

std::unique_ptr<MirroredObject> Runner::tell_followers() const {
  const Exchange* exchange = model_.exchange();
  if (exchange == nullptr || !exchange->team().leads()) return nullptr;
  const RunnerRecipe recipe = {.model = model_.number(),
                               .pages = static_cast<std::int32_t>(cache_.pages()),
                               .page_size = cache_.page_size(),
                               .limits = limits_};
  return std::make_unique<MirroredObject>(exchange->shared_team(), Command::kMakeRunner, Command::kDropRunner,
                                          recipe.to_words());
}

void Runner::observe(OpObserver observer) {
  require(model_.exchange() == nullptr, "what ops leave can be seen on one rank alone");
  observer_ = std::move(observer);
}

const kernels::Backend& Runner::backend() const {
  return *model_.context().state().backend;
}

// One graph serves every context up to its bound, so that a growing text needs few of them.
std::int32_t Runner::key_bound(std::int64_t keys) const {
  if (!backend().capabilities().graphs) return static_cast<std::int32_t>(keys);
  constexpr std::int64_t kMinKeys = 512;
  const auto bound = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(keys, kMinKeys))));
  return static_cast<std::int32_t>(std::min(bound, model_.max_positions()));
}

PassBatch Runner::build(std::span<const TokenChunk> chunks) const {
  PassBatch host;
  require(static_cast<std::int64_t>(chunks.size()) <= limits_.sequences, "a pass over {} sequences; the limit is {}",
          chunks.size(), limits_.sequences);
  require_different_sequences(chunks);
  for (const TokenChunk& chunk : chunks) {
    const auto rows = static_cast<std::int32_t>(chunk.tokens.size());
    const auto first_row = static_cast<std::int32_t>(host.tokens.size());
    const auto first_position = static_cast<std::int32_t>(chunk.sequence->length());
    require(rows >= 1, "a chunk has no tokens");
    require(chunk.sequence->is_in(cache_), "a sequence of a pass lives in another cache");
    require(first_position + rows <= model_.max_positions(), "a sequence of {} tokens; the limit is {}",
            first_position + rows, model_.max_positions());
    invariant(static_cast<std::int64_t>(chunk.sequence->pages().size()) >= cache_.pages_for(first_position + rows),
              "a sequence has no pages for its next tokens");
    const auto table_row = static_cast<std::int32_t>(host.chunks.size());
    host.chunks.push_back({first_row, rows, first_position, table_row});
    for (std::int32_t i = 0; i < rows; ++i) {
      const std::int32_t token = chunk.tokens[static_cast<std::size_t>(i)];
      require(token >= 0 && token < model_.config().vocab_size,
              "token {} at position {} is outside the vocabulary of {}", token, first_position + i,
              model_.config().vocab_size);
      host.tokens.push_back(token);
      host.positions.push_back(first_position + i);
      host.sequences.push_back(table_row);
      const bool is_last = i + 1 == rows;
      if (chunk.logits == Logits::kAll || (chunk.logits == Logits::kLast && is_last))
        host.logit_rows.push_back(first_row + i);
    }
    host.max_chunk_rows = std::max(host.max_chunk_rows, rows);
    host.max_keys = std::max(host.max_keys, first_position + rows);
  }
  if (host.is_decode()) host.max_keys = key_bound(host.max_keys);
  host.page_table_stride = static_cast<std::int32_t>(cache_.pages_for(host.max_keys));
  for (const TokenChunk& chunk : chunks) {
    const std::vector<std::int32_t>& pages = chunk.sequence->pages();
    const auto used = std::min(static_cast<std::int32_t>(pages.size()), host.page_table_stride);
    host.page_table.insert(host.page_table.end(), pages.begin(), pages.begin() + used);
    host.page_table.resize(host.page_table.size() + static_cast<std::size_t>(host.page_table_stride - used));
  }
  require(static_cast<std::int64_t>(host.tokens.size()) <= limits_.rows, "a pass of {} tokens; the limit is {}",
          host.tokens.size(), limits_.rows);
  require(static_cast<std::int64_t>(host.logit_rows.size()) <= limits_.logit_rows,
          "logits of {} rows in one pass; the limit is {}", host.logit_rows.size(), limits_.logit_rows);
  return host;
}

kernels::Batch Runner::upload(const PassBatch& host, const HostTokenOwners* owners) {
  stream_->synchronize();  // a copy may be under way after an error
  const Layout at(limits_, max_pages_, model_.exchange() != nullptr);
  const auto put = [&](std::int64_t offset, const auto& values) {
    if (!values.empty())
      std::memcpy(inputs_.host<std::int32_t>() + offset, values.data(), values.size() * sizeof(values[0]));
  };
  put(at.tokens, host.tokens);
  put(at.positions, host.positions);
  put(at.sequences, host.sequences);
  if (owners != nullptr) {
    put(at.own_tokens, owners->own_tokens);
    put(at.places, owners->places);
  }
  put(at.chunks, host.chunks);
  put(at.logit_rows, host.logit_rows);
  put(at.page_table, host.page_table);
  const std::size_t words = static_cast<std::size_t>(at.page_table) + host.page_table.size();
  inputs_.enqueue_upload(words * sizeof(std::int32_t), stream_->handle());
  const auto* device = inputs_.device<std::int32_t>();
  return {.rows = static_cast<std::int32_t>(host.tokens.size()),
          .chunk_count = static_cast<std::int32_t>(host.chunks.size()),
          .max_chunk_rows = host.max_chunk_rows,
          .max_keys = host.max_keys,
          .tokens = device + at.tokens,
          .positions = device + at.positions,
          .sequences = device + at.sequences,
          .chunks = reinterpret_cast<const kernels::Chunk*>(device + at.chunks),
          .page_table = device + at.page_table,
          .page_table_stride = host.page_table_stride};
}

ConstMatrix Runner::run(std::span<const TokenChunk> chunks) {
  const PassBatch host = build(chunks);
  if (mirrored_) model_.exchange()->team().tell({Command::kPass, mirrored_->number(), to_words(host)});
  try {
    compute(host);
  } catch (const NonFiniteError& error) {
    const auto at = static_cast<std::size_t>(error.row());
    const auto row = error.op() == kHeadOp ? host.logit_rows[at] : static_cast<std::int32_t>(at);
    const auto chunk = static_cast<std::size_t>(host.sequences[static_cast<std::size_t>(row)]);
    throw NonFiniteToken(static_cast<std::int64_t>(chunk), row - host.chunks[chunk].first_row, error.what());
  } catch (const std::bad_alloc&) {  // in the middle of a pass, which the other ranks cannot give up
    if (!mirrored_) throw;
    throw out_of_memory_;
  }
  for (const TokenChunk& chunk : chunks) chunk.sequence->advance(static_cast<std::int64_t>(chunk.tokens.size()));
  return logits();
}

void Runner::follow(std::span<const std::int32_t> words) {
  try {
    compute(pass_from_words(words));
  } catch (const NonFiniteError&) {  // which the leader knows as well
  }
}

ConstMatrix Runner::logits() const {
  return read_only(activations_.logits(logit_rows_));
}

// Of several ranks all throw the same, or none does.
void Runner::compute(const PassBatch& host) {
  const Exchange* exchange = model_.exchange();
  logit_rows_ = static_cast<std::int64_t>(host.logit_rows.size());
  if (exchange == nullptr) {
    enqueue_pass(host, nullptr);
    return check_workspace(model_.context(), workspace_.data(), stream_->handle());
  }
  InStep in_step(&exchange->team());
  ++exchange->team().own_traffic().passes;
  try {
    Failure failure;
    enqueue_pass(host, &failure);
    exchange->wait_for({model_.context(), workspace_, stream_->handle()});
    try {
      check_workspace(model_.context(), workspace_.data(), stream_->handle());
    } catch (const NonFiniteError& error) {
      failure.emplace(error);
    }
    exchange->agree(failure);
  } catch (const NonFiniteError&) {  // of agree(), here or at a gather
    in_step.finish();
    throw;
  }
  in_step.finish();
}

// What ranks gather through the host no graph records.
bool Runner::uses_graph(const PassBatch& host) const {
  const bool is_on_stream = model_.exchange() == nullptr || model_.exchange()->team().on_stream() != nullptr;
  return host.is_decode() && backend().capabilities().graphs && !observer_ && is_on_stream;
}

void Runner::enqueue_pass(const PassBatch& host, Failure* failure) {
  std::optional<HostTokenOwners> owners;
  if (model_.exchange() != nullptr) owners.emplace(*model_.exchange(), host.tokens);
  const kernels::Batch batch = upload(host, owners ? &*owners : nullptr);
  const auto* inputs = inputs_.device<std::int32_t>();
  const Layout at(limits_, max_pages_, model_.exchange() != nullptr);
  OpObserver observer;
  if (observer_)
    observer = [&](const OpResult& result) {
      stream_->synchronize();
      observer_(result);
    };
  TokenOwners on_device;
  if (owners) on_device = {owners->counts, inputs + at.own_tokens, inputs + at.places};
  const auto pass_on = [&](void* stream) {
    return Pass{{model_.context(), workspace_, stream}, batch, cache_, activations_, observer, on_device, failure};
  };
  const std::int32_t* logit_rows = inputs + at.logit_rows;
  if (!uses_graph(host)) return model_.forward(pass_on(stream_->handle()), logit_rows, logit_rows_);
  if (model_.exchange() == nullptr) {
    replay_decode(batch, [&](void* stream) { model_.forward(pass_on(stream), logit_rows, logit_rows_); });
  } else {
    model_.embed(pass_on(stream_->handle()));
    replay_decode(batch, [&](void* stream) { model_.forward_embedded(pass_on(stream), logit_rows, logit_rows_); });
  }
}

// upload() has waited for the last pass, so that no graph dropped here is still running. What a graph gathers is
// counted when it is replayed.
void Runner::replay_decode(const kernels::Batch& batch, const std::function<void(void* stream)>& enqueue) {
  std::int64_t ignored = 0;
  std::int64_t& gathered = model_.exchange() ? model_.exchange()->team().own_traffic().gathered_bytes : ignored;
  const DecodeGraph& graph = decode_graphs_.get({batch.rows, batch.max_keys}, [&] {
    const std::int64_t before = gathered;
    DecodeGraph captured{backend().capture(enqueue), 0};
    captured.gathered_bytes = std::exchange(gathered, before) - before;
    return captured;
  });
  graph.graph->replay(stream_->handle());
  gathered += graph.gathered_bytes;
}

std::vector<float> Runner::host_logits() const {
  const ConstMatrix device = logits();
  std::vector<float> host(static_cast<std::size_t>(device.rows * device.cols));
  copy_to_host(model_.context(), host.data(), device.data, host.size() * sizeof(float));
  return host;
}

}  // namespace reprofuse::model
