#include "model/generate.hpp"

#include <algorithm>
#include <chrono>

#include "base/check.hpp"

namespace reprofuse::model {
namespace {

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void reserve(Sequence& sequence, std::int64_t tokens, const KvCache& cache) {
  if (!sequence.reserve(tokens))
    fail(ErrorCode::kInvalidArgument, "the cache is full: {} tokens are in it, {} pages of {} are free",
         sequence.length(), cache.free_pages(), cache.page_size());
}

// The prompt in passes of at most `chunk` tokens; the last leaves the logits that the first token is chosen by.
void prefill(Runner& runner, KvCache& cache, Sequence& sequence, std::span<const std::int32_t> prompt,
             std::int64_t chunk) {
  for (std::size_t begin = 0; begin < prompt.size();) {
    const std::size_t count = std::min(prompt.size() - begin, static_cast<std::size_t>(chunk));
    const bool is_last = begin + count == prompt.size();
    reserve(sequence, static_cast<std::int64_t>(count), cache);
    const TokenChunk next{&sequence, prompt.subspan(begin, count), is_last ? Logits::kLast : Logits::kNone};
    runner.run(std::span(&next, 1));
    begin += count;
  }
}

}  // namespace

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kCancelled: break;
  }
  return "cancelled";
}

GenerateResult generate(Runner& runner, KvCache& cache, std::span<const std::int32_t> prompt,
                        const GenerateOptions& options, const OnToken& on_token) {
  const Model& model = runner.model();
  require(!prompt.empty(), "the prompt has no tokens");
  require(options.max_tokens >= 1, "max_tokens = {} is less than 1", options.max_tokens);
  require(options.prefill_chunk >= 1, "prefill_chunk = {} is less than 1", options.prefill_chunk);
  check_sampling_params(options.sampling);
  const auto room = model.max_positions() - static_cast<std::int64_t>(prompt.size());
  require(room >= 1, "a prompt of {} tokens leaves no room in a context of {}", prompt.size(), model.max_positions());

  const Sampler sampler(model.context(), model.config().vocab_size, 1);
  std::vector<std::int32_t> text(prompt.begin(), prompt.end());
  Sequence sequence(cache);
  GenerateResult result;
  LogitsDigest digest;

  const Stopwatch prefill_time;
  prefill(runner, cache, sequence, prompt, std::min(options.prefill_chunk, runner.limits().rows));
  result.prefill_seconds = prefill_time.seconds();

  const Stopwatch decode_time;
  const std::int64_t most = std::min(options.max_tokens, room);
  while (true) {
    if (options.digest) digest.add(runner.host_logits());
    const SampleInput input{.params = options.sampling, .history = text, .position = text.size()};
    const std::int32_t token = sampler.run(runner.logits(), std::span(&input, 1), runner.stream())[0].token;
    ++result.steps;
    if (std::find(options.stop_tokens.begin(), options.stop_tokens.end(), token) != options.stop_tokens.end()) {
      result.finish = FinishReason::kStop;
      break;
    }
    text.push_back(token);
    result.tokens.push_back(token);
    if (on_token && !on_token(token)) {
      result.finish = FinishReason::kCancelled;
      break;
    }
    if (static_cast<std::int64_t>(result.tokens.size()) == most) break;
    reserve(sequence, 1, cache);
    const TokenChunk next{&sequence, std::span(&text.back(), 1), Logits::kLast};
    runner.run(std::span(&next, 1));
  }
  result.decode_seconds = decode_time.seconds();
  if (options.digest) result.digest = digest.hex();
  return result;
}

}  // namespace reprofuse::model
