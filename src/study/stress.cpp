#include "study/stress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>

#include "base/hash.hpp"
#include "base/math.hpp"
#include "numerics/sampling.hpp"
#include "study/probe/probe.hpp"
#include "study/seeded/models.hpp"

namespace reprofuse::study {
namespace {

constexpr std::int64_t kMaxPrompt = 320;
constexpr std::int64_t kMaxAnswer = 48;
constexpr std::int64_t kSharedStart = 200;

// Numbers of one seed, in the order in which they are asked for.
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(philox(seed_, count_++, stream_) % static_cast<std::uint64_t>(bound));
  }
  std::int64_t between(std::int64_t min, std::int64_t max) { return min + below(max - min + 1); }
  bool one_in(std::int64_t n) { return below(n) == 0; }
  template <class T, std::size_t N>
  T one_of(const T (&values)[N]) {
    return values[below(N)];
  }

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t count_ = 0;
};

SamplingParams random_sampling(Draws& draws) {
  SamplingParams params;
  params.seed = static_cast<std::uint64_t>(draws.below(1000));
  if (draws.one_in(3)) params.repetition_penalty = 1.1F;
  if (draws.one_in(2)) return params;
  params.temperature = draws.one_of({0.3F, 0.8F, 1.5F});
  if (draws.one_in(3)) params.top_k = 40;
  if (draws.one_in(3)) params.top_p = 0.9F;
  if (draws.one_in(4)) params.min_p = 0.02F;
  return params;
}

engine::Request random_request(std::uint64_t seed, std::int64_t index, std::int64_t vocabulary, bool with_texts,
                               DigestKind digest) {
  Draws draws(seed, static_cast<std::uint64_t>(index) + 1);
  engine::Request request;
  std::int64_t length = draws.one_in(2) ? draws.between(1, 40) : draws.between(41, kMaxPrompt);
  request.prompt = random_tokens(seed + static_cast<std::uint64_t>(index), length, vocabulary);
  if (draws.one_in(3)) {  // the start that others have too
    const auto start = random_tokens(seed, std::min(length, kSharedStart), vocabulary);
    std::copy(start.begin(), start.end(), request.prompt.begin());
  }
  if (draws.one_in(3)) {  // a text that repeats itself, so that guesses come true
    for (std::size_t i = 7; i < request.prompt.size(); ++i) request.prompt[i] = request.prompt[i - 7];
  }
  request.sampling = random_sampling(draws);
  request.max_tokens = draws.one_in(16) ? 0 : draws.between(1, kMaxAnswer);
  if (draws.one_in(8)) request.choices = static_cast<int>(draws.between(2, 4));
  if (draws.one_in(3)) request.logprobs = static_cast<int>(draws.below(6));
  if (draws.one_in(6) || request.max_tokens == 0) request.prompt_logprobs = static_cast<int>(draws.below(4));
  if (draws.one_in(2)) request.stop_tokens = random_tokens(seed + 77, 3, vocabulary);
  if (with_texts && draws.one_in(4)) request.stop_strings = {"e", "12"};
  request.digest = digest;
  return request;
}

void add_text(Sha256& hash, std::string_view text) {
  hash.update(text.data(), text.size());
}

void add_likelihood(Sha256& hash, const std::optional<engine::Likelihood>& likelihood) {
  if (!likelihood) return;
  hash.update_values({.data = &likelihood->logprob, .rows = 1, .cols = 1, .stride = 1});
  add_text(hash, fmt::format("rank {} ", likelihood->rank));
  for (const TokenLogprob& top : likelihood->top) {
    add_text(hash, fmt::format("top {} ", top.id));
    hash.update_values({.data = &top.logprob, .rows = 1, .cols = 1, .stride = 1});
  }
}

// Before the first row a record has zeros, where an answer has no digest.
std::string digest_in_record(const std::string& digest, DigestKind kind) {
  constexpr std::size_t kDigits = 64;
  if (!digest.empty() || kind == DigestKind::kNone) return digest;
  return (kind == DigestKind::kTree1 ? "tree-1:" : "") + std::string(kDigits, '0');
}

// All updates of one choice, however the answer was cut into them.
class ChoiceDigest {
 public:
  void add(const engine::Update& update, DigestKind kind) {
    for (const engine::PromptToken& token : update.prompt) {
      add_text(hash_, fmt::format("prompt {} ", token.id));
      add_likelihood(hash_, token.likelihood);
    }
    for (const engine::AnswerToken& token : update.tokens) {
      add_text(hash_, fmt::format("token {} {} text {} ", token.id, token.digest, token.text));
      add_likelihood(hash_, token.likelihood);
    }
    if (!update.end) return;
    const engine::End& end = *update.end;
    add_text(hash_, fmt::format("end {} {} {} text {} {}", engine::finish_reason_name(end.finish_reason),
                                digest_in_record(end.digest, kind), end.stop_token.value_or(-1), end.text, end.error));
    hex_ = to_hex(hash_.finish());
  }
  const std::string& hex() const { return hex_; }

 private:
  Sha256 hash_;
  std::string hex_;
};

}  // namespace

std::vector<engine::Request> stress_requests(std::uint64_t seed, std::int64_t count, std::int64_t vocabulary,
                                             bool with_texts, DigestKind digest) {
  std::vector<engine::Request> requests;
  for (std::int64_t i = 0; i < count; ++i) requests.push_back(random_request(seed, i, vocabulary, with_texts, digest));
  return requests;
}

StressSchedule stress_schedule(std::uint64_t seed, std::int64_t index) {
  constexpr std::int64_t kMaxLength = kMaxPrompt + kMaxAnswer;
  StressSchedule schedule;
  if (index == 0) {
    schedule.engine = {.kv_pages = ceil_div<std::int64_t>(kMaxLength, model::kDefaultPageSize),
                       .max_batch = 1,
                       .max_rows = 512,
                       .prefix_cache = false};
    return schedule;
  }
  Draws draws(seed, static_cast<std::uint64_t>(index) + 1'000'000);
  schedule.arrival_seed = static_cast<std::uint64_t>(draws.below(1'000'000));
  schedule.threads = static_cast<int>(draws.between(1, 2));
  engine::EngineOptions& options = schedule.engine;
  options.max_batch = draws.one_of({1, 2, 3, 5, 8, 16, 17, 33, 48, 64});
  options.max_rows = std::max(options.max_batch, draws.one_of<std::int64_t>({1, 7, 64, 65, 100, 256, 512}));
  options.page_size = draws.one_of({16, 32, 64});
  // Eight schedules in a row have these three in every combination.
  options.prefix_cache = index % 2 == 0;
  options.speculation = index / 2 % 2 == 0 ? static_cast<int>(draws.between(1, 8)) : 0;
  const bool has_little_memory = index / 4 % 2 == 0;
  const std::int64_t for_one = ceil_div<std::int64_t>(kMaxLength, options.page_size);
  options.kv_pages = has_little_memory ? for_one * draws.between(1, 3) : for_one * (options.max_batch + 4);
  return schedule;
}

StressOutcome run_stress(const model::Model& model, const std::vector<engine::Request>& requests,
                         const StressSchedule& schedule, const std::optional<Tokenizer>& tokenizer) {
  const auto start = std::chrono::steady_clock::now();
  engine::Engine engine(model, schedule.engine, tokenizer);
  Draws draws(schedule.arrival_seed, 0);
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), 0);
  const bool one_by_one = schedule.engine.max_batch == 1 && schedule.arrival_seed == 0;
  if (!one_by_one)
    for (std::size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(i)))]);

  std::map<std::pair<engine::RequestId, int>, ChoiceDigest> digests;
  std::size_t arrived = 0;
  while (arrived < order.size() || !engine.idle()) {
    std::int64_t arriving = engine.idle() ? 1 : 0;
    if (!one_by_one) arriving += draws.below(6);
    for (; arriving > 0 && arrived < order.size(); --arriving, ++arrived) {
      engine::Request request = requests[order[arrived]];
      if (!one_by_one) request.priority = static_cast<int>(draws.below(3));
      engine.add(order[arrived], std::move(request));
    }
    for (const engine::RequestUpdate& news : engine.step())
      digests[{news.request, news.update.choice}].add(news.update, requests[news.request].digest);
  }

  StressOutcome outcome{.schedule = schedule, .digests = {}, .stats = engine.stats()};
  for (std::size_t i = 0; i < requests.size(); ++i) {
    std::vector<std::string> choices;
    choices.reserve(static_cast<std::size_t>(requests[i].choices));
    for (int choice = 0; choice < requests[i].choices; ++choice) choices.push_back(digests[{i, choice}].hex());
    outcome.digests.push_back(combined_digest(choices));
  }
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

std::optional<std::string> golden_stress_digest(std::string_view numerics, std::uint64_t seed, std::int64_t requests,
                                                DigestKind kind) {
  const char* key = kind == DigestKind::kTree1 ? "tree_digest" : "digest";
  for (const nlohmann::json& entry : nlohmann::json::parse(golden_file("stress")))
    if (entry.at("numerics") == numerics && entry.at("seed") == seed && entry.at("requests") == requests)
      return entry.at(key).get<std::string>();
  return std::nullopt;
}

std::string combined_digest(const std::vector<std::string>& digests) {
  Sha256 hash;
  for (const std::string& digest : digests) add_text(hash, digest + "\n");
  return to_hex(hash.finish());
}

}  // namespace reprofuse::study
