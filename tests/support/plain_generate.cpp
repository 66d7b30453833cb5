#include "support/plain_generate.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "kernels/reference/reference.hpp"
#include "model/logits_digest.hpp"

namespace reprofuse::model {
namespace {

void compute(Runner& runner, Sequence& sequence, std::span<const std::int32_t> tokens, Logits logits) {
  invariant(sequence.reserve(static_cast<std::int64_t>(tokens.size())), "the cache of the oracle is too small");
  const TokenChunk chunk{&sequence, tokens, logits};
  runner.run(std::span(&chunk, 1));
}

void prefill(Runner& runner, Sequence& sequence, std::span<const std::int32_t> prompt, std::size_t chunk) {
  while (prompt.size() > chunk) {
    compute(runner, sequence, prompt.first(chunk), Logits::kNone);
    prompt = prompt.subspan(chunk);
  }
  compute(runner, sequence, prompt, Logits::kLast);
}

}  // namespace

PlainAnswer plain_generate(const Model& model, std::span<const std::int32_t> prompt, const PlainOptions& options) {
  const std::int64_t pages = (model.max_positions() + options.page_size - 1) / options.page_size;
  KvCache cache(model.context(), model.config(), pages, options.page_size);
  Runner runner(model, cache, {.rows = options.prefill_chunk, .sequences = 1, .logit_rows = 1});
  const Sampler sampler(model.context(), model.config().vocab_size, 1);
  std::vector<std::int32_t> text(prompt.begin(), prompt.end());
  Sequence sequence(cache);
  PlainAnswer answer;
  LogitsDigest tree(DigestKind::kTree1);
  LogitsDigest chain(DigestKind::kChain1);

  prefill(runner, sequence, prompt, static_cast<std::size_t>(options.prefill_chunk));
  while (true) {
    const std::vector<float> logits = runner.host_logits();
    std::uint8_t root[32];
    std::ranges::copy(reference::logits_root(logits), root);
    tree.add_root(root);
    chain.add_row(logits);
    const SampleInput input{.params = options.sampling, .history = text, .position = text.size()};
    const std::int32_t token = sampler.run(runner.logits(), std::span(&input, 1), runner.stream())[0].token;
    answer.stopped = std::ranges::find(options.stop_tokens, token) != options.stop_tokens.end();
    if (answer.stopped) break;
    text.push_back(token);
    answer.tokens.push_back(token);
    if (static_cast<std::int64_t>(answer.tokens.size()) == options.max_tokens) break;
    compute(runner, sequence, std::span(text).last(1), Logits::kLast);
  }
  answer.digest = tree.text();
  answer.chain_digest = chain.text();
  return answer;
}

}  // namespace reprofuse::model
