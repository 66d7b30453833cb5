#include "receipt/replay.hpp"

#include <sys/random.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.hpp"
#include "base/merkle.hpp"

namespace reprofuse::receipt {

Replay::Replay(const Claim& claim, Level level, std::vector<std::size_t> spots)
    : claim_(claim), compares_logits_(level == Level::kLogits), spots_(std::move(spots)) {}

engine::Request Replay::request(std::size_t index) const {
  engine::Request request = claim_.request;
  if (!spots_.empty()) {  // the text up to the step as a prompt, and one token
    const auto begin = claim_.answer.tokens.begin();
    request.prompt.insert(request.prompt.end(), begin, begin + static_cast<std::ptrdiff_t>(spots_[index]));
    request.max_tokens = 1;
    request.stop_tokens.clear();
    request.stop_strings.clear();
    request.digest = DigestKind::kTree1;
    return request;
  }
  request.known_answer = claim_.answer.tokens;
  if (compares_logits_)
    request.digest = claim_.answer.digest.starts_with("tree-1:") ? DigestKind::kTree1 : DigestKind::kChain1;
  if (!claim_.sampling_known) {
    request.force_known_answer = true;
    request.max_tokens = static_cast<std::int64_t>(claim_.answer.steps());
    request.logprobs = 0;
  }
  return request;
}

std::int64_t Replay::longest_text() const {
  const auto prompt = static_cast<std::int64_t>(claim_.request.prompt.size());
  if (!spots_.empty()) return prompt + static_cast<std::int64_t>(spots_.back()) + 1;
  const auto steps = static_cast<std::int64_t>(claim_.answer.steps());
  return prompt +
         (claim_.sampling_known ? std::clamp<std::int64_t>(claim_.request.max_tokens, steps, INT32_MAX) : steps);
}

bool Replay::differ(std::string what) {
  if (difference_.empty()) difference_ = std::move(what);
  return false;
}

bool Replay::compare_step(std::size_t step, std::int32_t token, const Sha256::Digest& root) {
  if (step >= claim_.answer.steps())
    return differ(fmt::format("the answer has {} steps, and the replay goes on with token {}", step, token));
  const bool has_root = compares_logits_ && !claim_.answer.roots.empty();
  if (has_root && claim_.answer.roots[step] != root)
    return differ(fmt::format("step {}: the logits are others: root {} in the claim, {} here", step,
                              to_hex(claim_.answer.roots[step]), to_hex(root)));
  const bool is_last_unknown = !claim_.sampling_known && step >= claim_.answer.tokens.size();
  if (!is_last_unknown && token != claim_.answer.step_token(step))
    return differ(fmt::format("step {}: the token is {} in the claim, and {} is chosen here{}", step,
                              claim_.answer.step_token(step), token, has_root ? " from the same logits" : ""));
  return true;
}

bool Replay::add(std::size_t index, const engine::Update& update) {
  if (update.end && update.end->finish_reason == engine::FinishReason::kError)
    return differ(fmt::format("the replay failed: {}", update.end->error));
  if (!spots_.empty()) {
    for (const engine::AnswerToken& token : update.tokens)
      if (!compare_step(spots_[index], token.id, token.logits_root)) return false;
    return true;
  }
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
  const Answer& claimed = claim_.answer;
  if (computed_.steps() != claimed.steps())
    return differ(
        fmt::format("the answer has {} steps, and the replay ends after {}", claimed.steps(), computed_.steps()));
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
  const std::size_t steps = claim_.answer.steps();
  const std::size_t tokens = claim_.answer.tokens.size();
  if (!spots_.empty()) {
    // add() has compared leaves with what was computed here; all paths at once lead to the root that was signed.
    if (to_hex(merkle_root(step_leaves(claim_.answer))) != claim_.steps_root)
      return report.refuse(Verdict::kDiverged, "the steps' roots have another root");
    report.proven.push_back(fmt::format("steps {} of {}: token and logits, under the root that was signed",
                                        fmt::join(spots_, ", "), steps));
    report.not_proven.push_back(fmt::format("the other {} steps, and where the answer ends", steps - spots_.size()));
    return;
  }
  if (claim_.sampling_known) {
    report.proven.push_back(
        fmt::format("tokens: each of the {}, and the end, is what the request's sampling chooses", tokens));
    if (claim_.request.sampling.temperature == 0)
      report.not_proven.emplace_back("seed, top_k, top_p and min_p: they decide nothing of a greedy answer");
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

// An evidence under way: the requests of a replay go to the engine one after the other.
struct Running {
  Evidence* evidence;
  Replay replay;
  std::size_t at = 0;
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

}  // namespace

void replay_all(const model::Model& model, const std::optional<Tokenizer>& tokenizer, const std::vector<Evidence*>& all,
                Level level, std::size_t spots) {
  std::vector<Running> running;
  std::int64_t longest = 1;
  for (Evidence* evidence : all) {
    if (!evidence->report.is_open() || !evidence->claim) continue;
    const Claim& claim = *evidence->claim;
    if (spots > 0 && (claim.answer.roots.empty() || claim.steps_root.empty())) {
      evidence->report.not_proven.emplace_back("single steps: there are no roots of them to compare with");
      evidence->report.refuse(Verdict::kArtifact, "roots: a spot check takes a receipt that carries them");
      continue;
    }
    Replay replay(claim, level, spots > 0 ? draw_spots(claim.answer.steps(), spots) : std::vector<std::size_t>{});
    if (replay.longest_text() > model.max_positions()) {
      evidence->report.refuse(Verdict::kDiverged, fmt::format("a text of {} tokens does not fit into a context of {}",
                                                              replay.longest_text(), model.max_positions()));
      continue;
    }
    longest = std::max(longest, replay.longest_text());
    running.push_back({evidence, std::move(replay)});
  }
  if (running.empty()) return;
  engine::Engine engine(model, options_for(model, longest, running.size()), tokenizer);
  const auto submit = [&](std::size_t i) {
    Running& one = running[i];
    try {
      if (one.at < one.replay.request_count()) engine.add(i, one.replay.request(one.at));
    } catch (const Error& error) {
      one.evidence->report.refuse(Verdict::kDiverged, error.what());
    }
  };
  for (std::size_t i = 0; i < running.size(); ++i) submit(i);
  while (!engine.idle())
    for (const engine::RequestUpdate& entry : engine.step()) {
      Running& one = running[entry.request];
      const bool goes_on = one.replay.add(one.at, entry.update);
      if (!goes_on) engine.cancel(entry.request);
      if (!goes_on || !entry.update.end) continue;
      ++one.at;
      submit(entry.request);
    }
  for (const Running& one : running) {
    if (one.evidence->report.is_open()) one.replay.report_to(one.evidence->report);
    check_text(*one.evidence, tokenizer);
  }
}

}  // namespace reprofuse::receipt
