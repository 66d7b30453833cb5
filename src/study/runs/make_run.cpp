#include "study/runs/make_run.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "kernels/vendor/libraries.hpp"
#include "ops/context_state.hpp"
#include "ops/contract.hpp"
#include "study/seeded/inputs.hpp"

namespace reprofuse::study {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

RunStep step_of(const engine::AnswerToken& token) {
  RunStep step{.token = token.id};
  for (std::size_t i = 0; i < kCandidates; ++i) {
    step.ids[i] = token.likelihood->top[i].id;
    step.logprobs[i] = token.likelihood->top[i].logprob;
  }
  return step;
}

engine::EngineOptions engine_options(const model::Model& model, const RunRequest& request) {
  engine::EngineOptions options;
  options.max_batch = request.batch;
  std::int64_t longest = 0;
  for (const auto& prompt : request.prompts)
    longest = std::max(longest, static_cast<std::int64_t>(prompt.size()) + request.max_tokens);
  require(longest <= model.max_positions(), "a prompt and its answer of {} tokens; the context has {}", longest,
          model.max_positions());
  const std::int64_t pages = request.batch * ((longest + options.page_size - 1) / options.page_size);
  options.kv_pages =
      std::min(pages, engine::kv_pages_within(model, engine::default_kv_bytes(model, options), options.page_size));
  options.prefix_cache = false;  // a baseline's bits would depend on what came before
  return options;
}

}  // namespace

std::vector<std::uint32_t> arrival_order(std::uint64_t seed, std::size_t problems) {
  std::vector<std::uint32_t> order(problems);
  std::iota(order.begin(), order.end(), 0U);
  if (seed == 0) return order;
  for (std::size_t i = problems; i > 1; --i) std::swap(order[i - 1], order[random_word(seed, i) % i]);
  return order;
}

std::string vendor_of(const Context& context) {
  const ContextState& state = context.state();
  if (state.contract->reproducible()) return {};
  return state.backend->pool() != nullptr ? vendor::openblas_of(*state.backend).description()
                                          : vendor::cublas_of(*state.backend).description();
}

std::string tokens_sha256(const std::vector<std::int32_t>& tokens) {
  Sha256 hash;
  for (const std::int32_t token : tokens) {
    const auto word = static_cast<std::uint32_t>(token);
    const std::array<std::uint8_t, 4> bytes = {static_cast<std::uint8_t>(word), static_cast<std::uint8_t>(word >> 8),
                                               static_cast<std::uint8_t>(word >> 16),
                                               static_cast<std::uint8_t>(word >> 24)};
    hash.update(bytes.data(), bytes.size());
  }
  return to_hex(hash.finish());
}

void make_cell(RunWriter& writer, std::uint32_t cell, const model::Model& model, const RunRequest& request,
               const Tokenizer* tokenizer, const std::function<void(const RunProgress&)>& progress) {
  require(model.config().vocab_size >= kCandidates, "a vocabulary of {} tokens is too small for a study",
          model.config().vocab_size);
  engine::Engine engine(model, engine_options(model, request),
                        tokenizer != nullptr ? std::optional(*tokenizer) : std::nullopt);
  std::map<engine::RequestId, RunAnswer> open;
  RunProgress so_far{.cell = cell};
  for (const std::uint32_t problem :
       arrival_order(writer.done().header.cells[cell].seed, writer.done().header.problems.size())) {
    if (writer.done().answers.contains({cell, problem})) {
      ++so_far.answers;
      continue;
    }
    engine::Request asked;
    asked.prompt = request.prompts[problem];
    asked.max_tokens = request.max_tokens;
    asked.sampling = request.sampling;
    asked.stop_tokens = request.stop_tokens;
    asked.logprobs = kCandidates;
    asked.digest = DigestKind::kTree1;
    open.emplace(problem, RunAnswer{.cell = cell, .problem = problem});
    engine.add(problem, std::move(asked));
  }
  if (open.empty()) return;
  const Clock::time_point start = Clock::now();
  while (!engine.idle()) {
    for (engine::RequestUpdate& entry : engine.step()) {
      RunAnswer& answer = open.at(entry.request);
      for (const engine::AnswerToken& token : entry.update.tokens) {
        answer.steps.push_back(step_of(token));
        answer.text += token.text;
        ++so_far.new_tokens;
      }
      if (!entry.update.end) continue;
      const engine::End& end = *entry.update.end;
      if (end.finish_reason == engine::FinishReason::kError)
        fail(ErrorCode::kNonFinite, "problem '{}': {}", writer.done().header.problems[answer.problem].id, end.error);
      answer.text += end.text;
      answer.finish = end.finish_reason;
      answer.digest = end.digest;
      writer.add(answer);
      open.erase(entry.request);
      ++so_far.answers;
    }
    so_far.seconds = seconds_since(start);
    if (progress) progress(so_far);
  }
  writer.add_seconds(cell, seconds_since(start));
}

}  // namespace reprofuse::study
