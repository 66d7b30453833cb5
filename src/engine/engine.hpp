// Many requests at once over one model. Which of them are in a pass together, how prompts are cut into chunks, what is
// cached, speculated, or preempted and computed again: none of it can change a bit of an answer, so all of it is free.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/job.hpp"
#include "engine/prefix_cache.hpp"
#include "engine/request.hpp"
#include "model/runner.hpp"
#include "reprofuse/sampler.hpp"
#include "reprofuse/tokenizer.hpp"

namespace reprofuse::engine {

inline constexpr std::int64_t kMaxBatch = 4096;
inline constexpr std::int64_t kMaxPassRows = kernels::kMaxBatchRows;  // one limit for all devices
inline constexpr int kMaxSpeculation = 64;
inline constexpr std::int32_t kMinPageSize = kernels::kMinPageSize, kMaxPageSize = 65536;

// The limits of a batch, of rows, of speculation and of a page are those above.
struct EngineOptions {
  std::int64_t kv_pages = 0;  // see kv_pages_within()
  std::int32_t page_size = model::kDefaultPageSize;
  std::int64_t max_batch = 64;               // answers in one pass
  std::int64_t max_rows = 512;               // tokens in one pass; longer prompts take several
  std::int64_t max_prompt_logit_rows = 128;  // of a pass, for log-probabilities of prompts
  bool prefix_cache = true;                  // keep the keys and values of texts that may come again
  int speculation = 0;                       // tokens guessed ahead by prompt lookup and checked in one pass
  std::int64_t max_waited_passes = 256;      // passes that a request waits while later, more urgent ones go first
};

// Throws kInvalidArgument for a limit that makes no sense; kv_pages is not checked here. The engine checks these, too.
void check_limits(const EngineOptions& options);

// Pages that fit into so many bytes.
std::int64_t kv_pages_within(const model::Model& model, std::int64_t bytes,
                             std::int32_t page_size = model::kDefaultPageSize);

// Memory for keys and values when nobody says how much: enough for max_batch answers of full length, but on a CPU at
// most a quarter of the memory that is available, and on a GPU at most nine tenths of what the weights leave free. Of
// several ranks, each takes so much for its heads, on a CPU its share of that quarter.
std::int64_t default_kv_bytes(const model::Model& model, const EngineOptions& options);

// max_prompt_logit_rows when nobody says how many: on a GPU the logits of a whole pass, but at most a 64th of what the
// weights leave free.
std::int64_t default_prompt_logit_rows(const model::Model& model, const EngineOptions& options);

// For one request alone: memory for its own text, nothing kept for others, its prompt in passes of `prefill_chunk` or
// kMaxPassRows.
EngineOptions options_for_one(const Request& request, std::int64_t prefill_chunk);

struct RequestUpdate {
  RequestId request;
  Update update;
};

// For one thread; service.hpp puts it behind a queue, and the public reprofuse::Engine is that service.
class Engine {
 public:
  // The model must outlive the engine. Without a tokenizer answers have no text.
  Engine(const model::Model& model, const EngineOptions& options, std::optional<Tokenizer> tokenizer);

  // Throws kInvalidArgument with what is wrong with the request. Any thread may call it.
  void check(const Request& request) const;
  void add(RequestId id, Request request);  // an id that is not in use
  void cancel(RequestId id) noexcept;       // no updates after that; an unknown id is ignored

  bool idle() const { return waiting_.empty() && running_.empty(); }

  // One pass over the model for as many answers as fit. Returns an update of each that got tokens or ended. After a
  // std::bad_alloc the requests that run must be cancelled; those that wait are as they were.
  std::vector<RequestUpdate> step();
  RequestId first_request() const;  // of those that run, or else of those that wait; not when idle

  EngineStats stats() const;
  const model::Model& model() const { return model_; }
  const EngineOptions& options() const { return options_; }
  // The longest text, prompt and answer together: what the model allows and the cache can hold.
  std::int64_t max_positions() const { return max_positions_; }

 private:
  struct JobChunk;  // the next tokens of one job in a pass
  struct PassRows;  // rows of a pass, and those with logits

  std::shared_ptr<Client> client_of(const Request& request);
  void age_jobs();
  void take_turns();
  void start_waiting_jobs();
  bool can_start(Job& job);
  std::int64_t pages_to_start(Job& job);
  bool may_reuse(const Job& job) const;
  std::span<const PageKey> reusable_keys(Job& job);
  bool preempting_helps(Job& job);
  void start(Job& job);
  void preempt_for(const Job& job);
  void preempt(std::size_t index);
  void release(Job& job) noexcept;
  std::vector<JobChunk> plan_pass();
  std::vector<PassRows> guaranteed_rows() const;
  JobChunk next_tokens(Job& job, PassRows at_most);
  void add_guesses(JobChunk& chunk, std::int64_t max_guesses);
  bool reserve(JobChunk& chunk);
  void compute(std::vector<JobChunk>& pass);
  void compute_together(std::span<JobChunk> pass);
  void compute_alone(JobChunk& chunk);
  void run_and_sample(std::span<JobChunk> pass);
  void accept(JobChunk& chunk);
  void queue_siblings(Job& job);
  void keep_full_pages(Job& job);
  std::vector<RequestUpdate> collect_updates();

  const model::Model& model_;
  EngineOptions options_;
  std::optional<Tokenizer> tokenizer_;
  model::KvCache cache_;
  PrefixCache prefix_cache_;
  model::Runner runner_;
  Sampler sampler_;
  std::int64_t max_positions_;
  JobList waiting_;
  JobList running_;
  std::map<std::string, std::weak_ptr<Client>> clients_;  // of the jobs
  std::vector<std::int32_t> free_sampler_slots_;          // of max_batch
  std::uint64_t arrivals_ = 0;
  std::uint64_t starts_ = 0;
  EngineStats counts_;
};

// Of a pass over the model, as the engine plans it.
struct Engine::PassRows {
  std::int64_t rows;
  std::int64_t logit_rows;
};

// The next tokens of one job in a pass, and the results.
struct Engine::JobChunk {
  Job* job;
  std::int64_t begin;                // tokens of the job that were in the cache before
  std::vector<std::int32_t> tokens;  // the next of the job, then guesses at what follows
  std::int64_t guesses = 0;
  model::Logits logits = model::Logits::kNone;
  std::vector<SampleResult> sampled;  // per row of logits
  std::vector<float> logit_values;    // the rows themselves, for a digest of the kind chain-1
  bool was_cut = false;               // in this pass

  // Removes the token with which the pass failed and all after it; on a second failure in the same pass, the whole
  // chunk.
  void cut_before(std::int64_t token) {
    job->suspect = begin + token;
    tokens.resize(static_cast<std::size_t>(was_cut ? 0 : token));
    if (logits == model::Logits::kLast || tokens.empty()) logits = model::Logits::kNone;
    was_cut = true;
  }
  // Leaves all of it to a later pass.
  void put_off() {
    tokens.clear();
    guesses = 0;
    logits = model::Logits::kNone;
  }
  std::int64_t rows() const { return static_cast<std::int64_t>(tokens.size()); }
  std::int64_t logit_rows() const {
    if (logits == model::Logits::kNone) return 0;
    return logits == model::Logits::kAll ? rows() : 1;
  }
  // The position of the token that row i of the logits is about.
  std::int64_t predicted_position(std::int64_t i) const { return begin + rows() - logit_rows() + i + 1; }
};

// Prompt lookup: up to `count` tokens that followed the last earlier place where the text had its last three, or else
// two, tokens. A guess costs a row of a pass and changes no bit: the row that checks it has the logits of a step of its
// own.
std::span<const std::int32_t> guess_next(std::span<const std::int32_t> text, std::int64_t count);

}  // namespace reprofuse::engine
