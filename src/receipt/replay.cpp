#include "receipt/replay.hpp"

#include <sys/random.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.hpp"
#include "base/hash.hpp"

namespace reprofuse::receipt {

namespace {

// Of a step that was computed and what the claim says of it; empty: none.
std::string step_difference(const Claim& claim, bool compares_logits, std::size_t step, std::int32_t token,
                            const Sha256::Digest& root) {
  if (step >= claim.answer.step_count())
    return fmt::format("the answer has {} steps, and the replay goes on with token {}", step, token);
  const bool has_root = compares_logits && !claim.answer.roots.empty();
  if (has_root && claim.answer.roots[step] != root)
    return fmt::format("step {}: the logits are others: root {} in the claim, {} here", step,
                       to_hex(claim.answer.roots[step]), to_hex(root));
  const bool is_last_unknown = !claim.sampling_known && step >= claim.answer.tokens.size();
  if (!is_last_unknown && token != claim.answer.step_token(step))
    return fmt::format("step {}: the token is {} in the claim, and {} is chosen here{}", step,
                       claim.answer.step_token(step), token, has_root ? " from the same logits" : "");
  return {};
}

}  // namespace

Replay::Replay(const Claim& claim, Level level) : claim_(claim), compares_logits_(level == Level::kLogits) {}

engine::Request Replay::request() const {
  engine::Request request = claim_.request;
  request.known_answer = claim_.answer.tokens;
  request.max_tokens = longest_answer();
  if (compares_logits_)
    request.digest = claim_.answer.digest.starts_with("tree-1:") ? DigestKind::kTree1 : DigestKind::kChain1;
  if (!claim_.sampling_known) {
    request.force_known_answer = true;
    request.logprobs = 0;
  }
  return request;
}

std::int64_t Replay::longest_answer() const {
  const auto steps = static_cast<std::int64_t>(claim_.answer.step_count());
  return claim_.sampling_known ? std::min(claim_.request.max_tokens, steps + 1) : steps;
}

std::int64_t Replay::longest_text() const {
  return static_cast<std::int64_t>(claim_.request.prompt.size()) +
         std::max(longest_answer(), static_cast<std::int64_t>(claim_.answer.step_count()));
}

bool Replay::differ(std::string what) {
  if (difference_.empty()) difference_ = std::move(what);
  return false;
}

bool Replay::compare_step(std::size_t step, std::int32_t token, const Sha256::Digest& root) {
  std::string difference = step_difference(claim_, compares_logits_, step, token, root);
  return difference.empty() || differ(std::move(difference));
}

bool Replay::add(const engine::Update& update) {
  if (update.end && update.end->finish_reason == engine::FinishReason::kError)
    return differ(fmt::format("the replay failed: {}", update.end->error));
  for (const engine::AnswerToken& token : update.tokens) {
    if (!compare_step(computed_.tokens.size(), token.id, token.logits_root)) return false;
    const bool is_claimed = computed_.tokens.size() < claim_.answer.tokens.size();
    if (is_claimed && token.likelihood && token.likelihood->rank == 1) ++likeliest_;
    computed_.tokens.push_back(token.id);
    computed_.roots.push_back(token.logits_root);
  }
  if (!update.end) return true;
  if (update.end->stop_token &&
      !compare_step(computed_.tokens.size(), *update.end->stop_token, update.end->logits_root))
    return false;
  computed_.add({.choice = 0, .prompt = {}, .tokens = {}, .end = update.end, .cached_prompt_tokens = 0, .at = {}});
  return compare_end(*update.end);
}

bool Replay::compare_end(const engine::End& end) {
  const AnswerSteps& claimed = claim_.answer;
  if (computed_.step_count() != claimed.step_count())
    return differ(fmt::format("the answer has {} steps, and the replay ends after {}", claimed.step_count(),
                              computed_.step_count()));
  if (claim_.sampling_known && end.finish_reason != claimed.finish_reason)
    return differ(fmt::format("the answer ends by '{}', the replay by '{}'", finish_reason_name(claimed.finish_reason),
                              finish_reason_name(end.finish_reason)));
  if (!compares_logits_) return true;
  if (end.digest != claimed.digest)
    return differ(fmt::format("the logits are others: digest {} in the claim, {} here", claimed.digest, end.digest));
  if (claim_.steps_root.empty()) return true;
  const std::string root = to_hex(merkle_root(step_leaves(computed_)));
  if (root != claim_.steps_root)
    return differ(fmt::format("the steps are others: root {} in the claim, {} here", claim_.steps_root, root));
  return true;
}

void Replay::report_to(Report& report) const {
  if (!difference_.empty()) return report.refuse(Verdict::kDiverged, difference_);
  const std::size_t steps = claim_.answer.step_count();
  const std::size_t tokens = claim_.answer.tokens.size();
  if (claim_.sampling_known) {
    report.proven.push_back(
        fmt::format("tokens: each of the {}, and the end, is what the request's sampling chooses", tokens));
    if (claim_.request.sampling.temperature == 0)
      report.not_proven.emplace_back("seed, top_k, top_p and min_p: they decide nothing of a greedy answer");
    if (claim_.answer.finish_reason == engine::FinishReason::kStop)
      report.not_proven.emplace_back("max_tokens: it decides nothing of an answer that stops before it");
    if (claim_.request.stop_strings.empty())
      report.not_proven.emplace_back("keep_stop_string and skip_special_tokens: they decide the text alone");
  } else {
    report.not_proven.push_back(fmt::format(
        "how the tokens were chosen: the reply does not say; {} of {} are the most likely ones", likeliest_, tokens));
  }
  if (compares_logits_)
    report.proven.push_back(fmt::format("logits: every bit of {} rows, {}", steps, claim_.answer.digest));
  else
    report.not_proven.push_back("logits: they were not compared");
}

std::vector<std::size_t> draw_spots(std::size_t steps, std::size_t count) {
  std::set<std::size_t> drawn;
  while (drawn.size() < std::min(steps, count)) {
    std::uint64_t word = 0;
    invariant(getrandom(&word, sizeof(word), 0) == sizeof(word), "the system has no random numbers");
    drawn.insert(word % steps);  // so many more words than steps that the bias is nothing
  }
  return {drawn.begin(), drawn.end()};
}

namespace {

// Some steps of a claim, as rows of one prefill over its text up to the last of them.
class SpotCheck {
 public:
  SpotCheck(const Claim& claim, std::vector<std::size_t> spots)
      : claim_(claim), spots_(std::move(spots)), levels_(merkle_levels(step_leaves(claim.answer))) {
    const auto end = claim.answer.tokens.begin() + static_cast<std::ptrdiff_t>(spots_.back());
    text_ = claim.request.prompt;
    text_.insert(text_.end(), claim.answer.tokens.begin(), end);
  }

  // Returns the passes.
  std::int64_t run(const model::Model& model, Report& report) const {
    std::int64_t passes = 0;
    try {
      require(!claim_.request.prompt.empty(), "the prompt has no tokens");
      check_sampling_params(claim_.request.sampling);
      const std::string difference = first_difference(model, passes);
      if (!difference.empty()) report.refuse(Verdict::kDiverged, difference);
    } catch (const Error& error) {
      const bool is_claims = error.code() == ErrorCode::kInvalidArgument || error.code() == ErrorCode::kNonFinite;
      if (!is_claims) throw;
      report.refuse(Verdict::kDiverged, fmt::format("the replay failed: {}", error.what()));
    }
    if (report.is_open()) complete(report);
    return passes;
  }

 private:
  static constexpr std::int64_t kRows = 512;  // of one pass

  // The steps whose rows are among those of the text from `begin` to `end`: the row before a step chooses it.
  std::vector<std::size_t> spots_within(std::size_t begin, std::size_t end) const {
    std::vector<std::size_t> within;
    for (const std::size_t spot : spots_) {
      const std::size_t row = claim_.request.prompt.size() + spot - 1;
      if (row >= begin && row < end) within.push_back(spot);
    }
    return within;
  }

  std::string first_difference(const model::Model& model, std::int64_t& passes) const {
    const std::span<const std::int32_t> text = text_;
    const auto rows = std::min(kRows, static_cast<std::int64_t>(text.size()));
    const std::int64_t page = model::kDefaultPageSize;
    model::KvCache cache(model.context(), model.own_config(),
                         (static_cast<std::int64_t>(text.size()) + page - 1) / page);
    model::Runner runner(model, cache, {.rows = rows, .sequences = 1, .logit_rows = rows});
    const Sampler sampler(model.context(), model.config().vocab_size, 1);
    model::Sequence sequence(cache);
    for (std::size_t begin = 0; begin < text.size(); begin += static_cast<std::size_t>(rows)) {
      const auto chunk = text.subspan(begin, std::min(static_cast<std::size_t>(rows), text.size() - begin));
      const std::vector<std::size_t> within = spots_within(begin, begin + chunk.size());
      sequence.reserve(static_cast<std::int64_t>(chunk.size()));
      const model::TokenChunk next{&sequence, chunk, within.empty() ? model::Logits::kNone : model::Logits::kAll};
      const ConstMatrix logits = runner.run({&next, 1});
      ++passes;
      for (const std::size_t spot : within) {
        const std::size_t position = claim_.request.prompt.size() + spot;
        const auto row = static_cast<std::int64_t>(position - 1 - begin);
        const ConstMatrix one{logits.data + row * logits.stride, 1, logits.cols, logits.stride};
        const SampleInput input{.params = claim_.request.sampling,
                                .history = text.first(position),
                                .position = position,
                                .logits_root = true};
        const SampleResult chosen = sampler.run(one, {&input, 1}, runner.stream()).front();
        Sha256::Digest root;
        std::ranges::copy(chosen.logits_root, root.begin());
        std::string difference = step_difference(claim_, true, spot, chosen.token, root);
        if (!difference.empty()) return difference;
        if (!is_under_root(spot, step_leaf(spot, chosen.token, root)))
          return fmt::format("step {}: its path leads to another root than the steps' {}", spot, claim_.steps_root);
      }
    }
    return {};
  }

  // Of a leaf that was computed here, by the audit path that the claim's other roots give.
  bool is_under_root(std::size_t step, const Sha256::Digest& leaf) const {
    const auto root = merkle_root_by(leaf, step, claim_.answer.step_count(), merkle_path(levels_, step));
    return root && to_hex(*root) == claim_.steps_root;
  }

  void complete(Report& report) const {
    constexpr std::size_t kListed = 10;
    const std::size_t steps = claim_.answer.step_count();
    const std::vector<std::size_t> listed(spots_.begin(), spots_.begin() + std::min(spots_.size(), kListed));
    report.extent = fmt::format("holds at {} of {} steps", spots_.size(), steps);
    report.proven.push_back(
        fmt::format("{} of {} steps (counted from 0: {}{}): token and logits, by their paths to the signed root",
                    spots_.size(), steps, fmt::join(listed, ", "), spots_.size() > kListed ? ", ..." : ""));
    report.not_proven.push_back(fmt::format("the other {} steps, and where the answer ends", steps - spots_.size()));
  }

  const Claim& claim_;
  std::vector<std::size_t> spots_;
  std::vector<std::vector<Sha256::Digest>> levels_;  // of the tree over the claim's steps
  std::vector<std::int32_t> text_;
};

// An evidence under way.
struct Running {
  Evidence* evidence;
  Replay replay;
};

engine::EngineOptions options_for(const model::Model& model, std::int64_t longest, std::size_t count) {
  engine::EngineOptions options;
  options.max_batch = std::clamp<std::int64_t>(static_cast<std::int64_t>(count), 1, 16);
  options.max_prompt_logit_rows = options.max_rows;
  const std::int64_t pages_each = (longest + options.page_size - 1) / options.page_size;
  const std::int64_t within =
      engine::kv_pages_within(model, engine::default_kv_bytes(model, options), options.page_size);
  options.kv_pages = std::max<std::int64_t>(1, std::min(pages_each * options.max_batch, std::max(within, pages_each)));
  return options;
}

// In one engine. Returns the passes.
std::int64_t replay_in_full(const model::Model& model, const std::optional<Tokenizer>& tokenizer,
                            std::vector<Running>& running) {
  if (running.empty()) return 0;
  std::int64_t longest = 1;
  for (const Running& one : running) longest = std::max(longest, one.replay.longest_text());
  engine::Engine engine(model, options_for(model, longest, running.size()), tokenizer);
  for (std::size_t i = 0; i < running.size(); ++i) try {
      engine.add(i, running[i].replay.request());
    } catch (const Error& error) {
      running[i].evidence->report.refuse(Verdict::kDiverged, error.what());
    }
  while (!engine.idle())
    for (const engine::RequestUpdate& entry : engine.step())
      if (!running[entry.request].replay.add(entry.update)) engine.cancel(entry.request);
  for (const Running& one : running)
    if (one.evidence->report.is_open()) one.replay.report_to(one.evidence->report);
  return engine.stats().passes;
}

}  // namespace

std::int64_t replay_all(const model::Model& model, const std::optional<Tokenizer>& tokenizer,
                        const std::vector<Evidence*>& all, Level level, std::size_t spots) {
  std::vector<Running> running;
  std::int64_t passes = 0;
  for (Evidence* evidence : all) {
    if (!evidence->report.is_open() || !evidence->claim) continue;
    const Claim& claim = *evidence->claim;
    Replay replay(claim, level);
    if (replay.longest_text() > model.max_positions()) {
      evidence->report.refuse(Verdict::kDiverged, fmt::format("a text of {} tokens does not fit into a context of {}",
                                                              replay.longest_text(), model.max_positions()));
      continue;
    }
    if (spots > 0 && spots < claim.answer.step_count())
      passes += SpotCheck(claim, draw_spots(claim.answer.step_count(), spots)).run(model, evidence->report);
    else
      running.push_back({evidence, std::move(replay)});
  }
  passes += replay_in_full(model, tokenizer, running);
  for (Evidence* evidence : all) check_text(*evidence, tokenizer);
  return passes;
}

}  // namespace reprofuse::receipt
