// Which jobs run: limits and their defaults, requests, turns, starts and preemption.
#include "engine/engine.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.hpp"
#include "numerics/sampling.hpp"
#include "ops/context_state.hpp"

namespace reprofuse::engine {
namespace {

EngineOptions checked(const EngineOptions& options) {
  require(options.kv_pages >= 1, "a KV cache of {} pages; an engine needs at least one", options.kv_pages);
  check_limits(options);
  return options;
}

model::RunnerLimits limits_of(const EngineOptions& options) {
  const std::int64_t for_answers = options.max_batch * (1 + options.speculation);
  return {.rows = options.max_rows,
          .sequences = options.max_batch,
          .logit_rows = std::min(options.max_rows, std::max(for_answers, options.max_prompt_logit_rows))};
}

}  // namespace

void check_limits(const EngineOptions& options) {
  require(options.max_batch >= 1 && options.max_batch <= kMaxBatch, "max_batch = {} is outside 1 to {}",
          options.max_batch, kMaxBatch);
  require(options.max_rows >= 1 && options.max_rows <= kMaxPassRows, "max_rows = {} is outside 1 to {}",
          options.max_rows, kMaxPassRows);
  require(options.max_rows >= options.max_batch, "max_rows = {} is below max_batch = {}: each answer needs a row",
          options.max_rows, options.max_batch);
  require(options.max_waited_passes >= 1, "max_waited_passes = {} is below 1", options.max_waited_passes);
  require(options.speculation >= 0 && options.speculation <= kMaxSpeculation, "speculation = {} is outside 0 to {}",
          options.speculation, kMaxSpeculation);
  require(options.page_size >= kMinPageSize && options.page_size <= kMaxPageSize, "page_size = {} is outside {} to {}",
          options.page_size, kMinPageSize, kMaxPageSize);
  require(kernels::is_page_size(options.page_size), "page_size = {} is not a power of two", options.page_size);
}

std::int64_t kv_pages_within(const model::Model& model, std::int64_t bytes, std::int32_t page_size) {
  return bytes / model::KvCache::bytes_per_page(model.context(), model.own_config(), page_size);
}

std::int64_t default_kv_bytes(const model::Model& model, const EngineOptions& options) {
  const std::int64_t page = model::KvCache::bytes_per_page(model.context(), model.own_config(), options.page_size);
  const std::int64_t pages_of_text = (model.max_positions() + options.page_size - 1) / options.page_size;
  const auto enough = checked_product(options.max_batch, pages_of_text, page);
  // Memory of its own is there to be filled, by the ranks that share it; that of the host has other users, too.
  const kernels::Backend& backend = *model.context().state().backend;
  const std::int64_t available = backend.free_bytes();
  const model::Exchange* exchange = model.exchange();
  const bool is_of_host = backend.capabilities().shares_host_memory;
  const int users = exchange == nullptr ? 1
                    : is_of_host        ? exchange->team().communicator().ranks_of_host()
                                        : exchange->team().gather_transport().ranks_of_device;
  const std::int64_t limit = (is_of_host ? available / 4 : available / 10 * 9) / users;
  return enough ? std::min(*enough, limit) : limit;
}

EngineOptions options_for_one(const Request& request, std::int64_t prefill_chunk) {
  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  EngineOptions options;
  options.kv_pages = (prompt + request.max_tokens + options.page_size - 1) / options.page_size;
  options.max_batch = 1;
  options.max_rows = std::clamp<std::int64_t>(prompt, 1, std::min(prefill_chunk, kMaxPassRows));
  options.max_prompt_logit_rows = 1;
  options.prefix_cache = false;
  return options;
}

std::int64_t default_prompt_logit_rows(const model::Model& model, const EngineOptions& options) {
  const kernels::Backend& backend = *model.context().state().backend;
  if (backend.capabilities().shares_host_memory) return options.max_prompt_logit_rows;
  const std::int64_t row_bytes = model.config().vocab_size * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t least = std::min(options.max_prompt_logit_rows, options.max_rows);
  return std::clamp(backend.free_bytes() / 64 / row_bytes, least, options.max_rows);
}

Engine::Engine(const model::Model& model, const EngineOptions& options, std::optional<Tokenizer> tokenizer)
    : model_(model),
      options_(checked(options)),
      tokenizer_(std::move(tokenizer)),
      cache_(model.context(), model.own_config(), options.kv_pages, options.page_size),
      prefix_cache_(cache_),
      runner_(model, cache_, limits_of(options)),
      sampler_(model.context(), model.config().vocab_size, runner_.limits().logit_rows),
      max_positions_(std::min(model.max_positions(), options.kv_pages * options.page_size)) {
  running_.reserve(static_cast<std::size_t>(options_.max_batch));
  for (std::int32_t slot = 0; slot < options_.max_batch; ++slot) free_sampler_slots_.push_back(slot);
}

void Engine::check(const Request& request) const {
  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  const std::int64_t vocabulary = model_.config().vocab_size;
  const auto max_logprobs = static_cast<int>(std::min<std::int64_t>(kMaxLogprobs, vocabulary));
  require(prompt >= 1, "the prompt has no tokens");
  for (std::size_t i = 0; i < request.prompt.size(); ++i)
    require(request.prompt[i] >= 0 && request.prompt[i] < vocabulary,
            "token {} at position {} of the prompt is outside the vocabulary of {}", request.prompt[i], i, vocabulary);
  require(request.max_tokens >= 0, "max_tokens = {} is below 0", request.max_tokens);
  require(prompt <= max_positions_ && request.max_tokens <= max_positions_ - prompt,
          "a prompt of {} tokens and an answer of {} do not fit into a context of {}", prompt, request.max_tokens,
          max_positions_);
  require(request.choices >= 1 && request.choices <= kMaxChoices, "{} choices are outside 1 to {}", request.choices,
          kMaxChoices);
  require(request.logprobs >= -1 && request.logprobs <= max_logprobs, "logprobs = {} is outside 0 to {}",
          request.logprobs, max_logprobs);
  require(request.prompt_logprobs >= -1 && request.prompt_logprobs <= max_logprobs,
          "prompt_logprobs = {} is outside 0 to {}", request.prompt_logprobs, max_logprobs);
  for (const std::int32_t token : request.known_answer)
    require(token >= 0 && token < vocabulary, "token {} of the known answer is outside the vocabulary of {}", token,
            vocabulary);
  for (const std::string& stop : request.stop_strings) require(!stop.empty(), "a stop string is empty");
  require(request.stop_strings.empty() || tokenizer_, "stop strings need a tokenizer, and this model has none");
  check_sampling_params(request.sampling);
  const float penalty = request.sampling.repetition_penalty;
  require(penalty >= static_cast<float>(kMinRepetitionPenalty) && penalty <= kMaxRepetitionPenalty,
          "repetition_penalty = {} is outside {} to {}", penalty, kMinRepetitionPenalty, kMaxRepetitionPenalty);
}

void Engine::add(RequestId id, Request request) {
  check(request);
  const std::shared_ptr<Client> client = client_of(request);
  const auto shared = std::make_shared<const Request>(std::move(request));
  ++arrivals_;
  const auto make_job = [&](int choice) {
    return std::make_unique<Job>(id, choice, shared, client, arrivals_, cache_, tokenizer_);
  };
  std::unique_ptr<Job> first = make_job(0);
  for (int choice = 1; choice < shared->choices; ++choice) first->siblings.push_back(make_job(choice));
  const EngineStats now = stats();
  waiting_.reserve(static_cast<std::size_t>(now.running + now.waiting + shared->choices));  // all may have to wait
  waiting_.add(std::move(first));
}

std::shared_ptr<Client> Engine::client_of(const Request& request) {
  std::erase_if(clients_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Client>& known = clients_[request.client];
  std::shared_ptr<Client> client = known.lock();
  if (!client) known = client = std::make_shared<Client>();
  return client;
}

RequestId Engine::first_request() const {
  return running_.empty() ? waiting_[waiting_.first()].id() : running_[0].id();
}

void Engine::cancel(RequestId id) noexcept {
  const auto is_of_request = [&](const Job& job) { return job.id() == id; };
  waiting_.erase_if(is_of_request);
  running_.erase_if([&](Job& job) {
    if (is_of_request(job)) release(job);
    return is_of_request(job);
  });
}

std::vector<RequestUpdate> Engine::step() {
  age_jobs();
  take_turns();
  start_waiting_jobs();
  std::vector<JobChunk> pass = plan_pass();
  compute(pass);
  for (JobChunk& chunk : pass) accept(chunk);
  return collect_updates();
}

// A job that has waited for more than `max_waited_passes` passes counts as urgent as the most urgent one: within
// its client's quota, none that came later goes before it any more, nor takes its place when it runs.
void Engine::age_jobs() {
  int most_urgent = std::numeric_limits<int>::max();
  for (const JobList* list : {&waiting_, &running_})
    for (std::size_t i = 0; i < list->size(); ++i) most_urgent = std::min(most_urgent, (*list)[i].request().priority);
  for (std::size_t i = 0; i < waiting_.size(); ++i) ++waiting_[i].waited;
  for (const JobList* list : {&waiting_, &running_})
    for (std::size_t i = 0; i < list->size(); ++i)
      if ((*list)[i].waited > options_.max_waited_passes) (*list)[i].effective_priority = most_urgent;
}

// A client's quota is an equal number of the places, rounded up. Within it the most urgent jobs go first; among equally
// urgent ones the first of each client goes before the second of any, and then whoever has had no turn for longest. One
// that waits comes after those of its client that run. So whoever has many jobs, or urgent ones, has the places that
// others do not need, and no more.
void Engine::take_turns() {
  const auto has_jobs = [](const auto& entry) { return !entry.second.expired(); };
  const std::int64_t clients = std::max<std::int64_t>(1, std::ranges::count_if(clients_, has_jobs));
  const std::int64_t quota = (options_.max_batch + clients - 1) / clients;
  const auto set_turn = [&](Job& job, std::int64_t turn) {
    job.turn = turn;
    job.is_beyond_quota = turn >= quota;
  };
  for (const JobList* list : {&waiting_, &running_})
    for (std::size_t i = 0; i < list->size(); ++i) {
      set_turn((*list)[i], 0);
      (*list)[i].client->running = 0;
    }
  running_.sort();
  for (std::size_t i = 0; i < running_.size(); ++i) set_turn(running_[i], running_[i].client->running++);
  running_.sort();
  for (std::size_t i = 0; i < waiting_.size(); ++i) set_turn(waiting_[i], waiting_[i].client->running);
}

void Engine::start_waiting_jobs() {
  while (!waiting_.empty()) {
    const std::size_t first = waiting_.first();
    if (static_cast<std::int64_t>(running_.size()) < options_.max_batch && can_start(waiting_[first])) {
      start(waiting_[first]);
      waiting_[first].client->last_started = ++starts_;
      running_.add(waiting_.take(first));
    } else if (preempting_helps(waiting_[first])) {
      preempt_for(waiting_[first]);
    } else {
      return;
    }
    take_turns();
  }
}

// All of its tokens and the next one must fit beside the others, or it would soon be preempted again. A job alone
// always fits: check() has made sure of that.
bool Engine::can_start(Job& job) {
  return running_.empty() || cache_.pages() - cache_.pages_in_use() >= pages_to_start(job);
}

std::int64_t Engine::pages_to_start(Job& job) {
  const std::int64_t all = cache_.pages_for(static_cast<std::int64_t>(job.tokens().size()) + 1);
  return all - prefix_cache_.pages_in_use(reusable_keys(job));
}

bool Engine::may_reuse(const Job& job) const {
  return options_.prefix_cache && job.may_start_from_cache();
}

// The keys of the pages that may be taken over: never the page of the last token, whose logits choose the next one.
std::span<const PageKey> Engine::reusable_keys(Job& job) {
  if (!may_reuse(job)) return {};
  return job.page_keys((static_cast<std::int64_t>(job.tokens().size()) - 1) / cache_.page_size());
}

// Whether preempting every job whose place it may take would make enough room. If not, none is preempted.
bool Engine::preempting_helps(Job& job) {
  std::int64_t places = 0;
  std::int64_t pages = cache_.pages() - cache_.pages_in_use();
  for (std::size_t i = 0; i < running_.size(); ++i) {
    if (!job.may_displace(running_[i])) continue;
    ++places;
    pages += static_cast<std::int64_t>(running_[i].cached.pages().size());
  }
  return places > 0 && (pages >= pages_to_start(job) || places == static_cast<std::int64_t>(running_.size()));
}

void Engine::start(Job& job) {
  job.cached.clear();  // of what an attempt has left for which there was no memory
  job.kept_pages = prefix_cache_.start(job.cached, reusable_keys(job));
  if (has_penalty(job)) {
    job.sampler_slot = free_sampler_slots_.back();
    free_sampler_slots_.pop_back();
  }
  if (job.was_started) return;
  job.was_started = true;
  job.cached_prompt_tokens = job.cached.length();
  counts_.prompt_tokens += job.prompt_size();
  if (may_reuse(job)) counts_.queried_prompt_tokens += job.prompt_size();
  counts_.cached_prompt_tokens += job.cached_prompt_tokens;
}

// Of the jobs whose place it may take, the one that is served last gives its pages to others.
void Engine::preempt_for(const Job& job) {
  std::size_t last = running_.size() - 1;
  while (!job.may_displace(running_[last])) --last;
  preempt(last);
}

// Its tokens stay; their keys and values will be computed again, with the same bits.
void Engine::preempt(std::size_t index) {
  std::unique_ptr<Job> job = running_.take(index);
  release(*job);
  ++counts_.preemptions;
  waiting_.add(std::move(job));
}

void Engine::release(Job& job) noexcept {
  prefix_cache_.touch(job.page_keys(job.kept_pages));
  job.kept_pages = 0;
  job.cached.clear();
  if (const std::int32_t slot = std::exchange(job.sampler_slot, -1); slot >= 0) free_sampler_slots_.push_back(slot);
}

std::vector<RequestUpdate> Engine::collect_updates() {
  std::vector<RequestUpdate> all;
  all.reserve(running_.size());  // nothing below may fail, or jobs would be lost
  running_.erase_if([&](Job& job) {
    const bool has_ended = job.has_ended();
    if (std::optional<Update> update = job.take_update()) all.push_back({job.id(), std::move(*update)});
    if (!has_ended) return false;
    release(job);
    queue_siblings(job);
    return true;
  });
  return all;
}

EngineStats Engine::stats() const {
  EngineStats stats = counts_;
  stats.running = static_cast<std::int64_t>(running_.size());
  for (std::size_t i = 0; i < waiting_.size(); ++i)
    stats.waiting += 1 + static_cast<std::int64_t>(waiting_[i].siblings.size());
  for (std::size_t i = 0; i < running_.size(); ++i)
    stats.waiting += static_cast<std::int64_t>(running_[i].siblings.size());
  stats.pages = cache_.pages();
  stats.pages_in_use = cache_.pages_in_use();
  return stats;
}

}  // namespace reprofuse::engine
