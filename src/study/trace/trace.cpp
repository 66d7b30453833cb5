#include "study/trace/trace.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "checkpoint/safetensors.hpp"
#include "kernels/op_calls.hpp"
#include "model/kv_cache.hpp"
#include "numerics/float_ops.hpp"
#include "numerics/int16.hpp"
#include "ops/context_state.hpp"

namespace reprofuse::study {
namespace {

// The elements come in the machine's order.
TracedResult make_result(std::string op, DType dtype, std::vector<std::byte> values, bool keep_values) {
  checkpoint::convert_byte_order(values, dtype);
  Sha256 hash;
  hash.update(values.data(), values.size());
  TracedResult result{.op = std::move(op),
                      .dtype = dtype,
                      .elements = static_cast<std::int64_t>(values.size() / dtype_bytes(dtype)),
                      .sha256 = to_hex(hash.finish()),
                      .values = {}};
  if (keep_values) result.values = std::move(values);
  return result;
}

std::array<Candidate, 2> likeliest_of(std::span<const float> logits) {
  std::array<Candidate, 2> best;
  std::size_t found = 0;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    const Candidate candidate{static_cast<std::int32_t>(id), logits[id]};
    if (found == 0 || candidate.logit > best[0].logit)
      best = {candidate, found == 0 ? candidate : best[0]};
    else if (found == 1 || candidate.logit > best[1].logit)
      best[1] = candidate;
    found = std::min<std::size_t>(found + 1, 2);
  }
  return best;
}

// Collects the rows of the positions that are traced while a pass runs.
class Recorder {
 public:
  Recorder(const model::Model& model, const TraceRequest& request, const model::Sequence& sequence)
      : context_(model.context()), request_(request), sequence_(sequence) {}

  void begin_pass(std::int64_t first_position, std::int64_t rows) {
    first_ = first_position;
    rows_ = rows;
  }

  bool is_traced(std::int64_t position) const {
    return std::binary_search(request_.positions.begin(), request_.positions.end(), position);
  }

  // The rows of the pass are one chunk; a result with fewer rows has the last ones.
  void add(const model::OpResult& result) {
    if (result.stored) return add_stored(result.name, *result.stored);
    const std::vector<float> values = copy_to_host(context_, read_only(result.values));
    const auto cols = static_cast<std::size_t>(result.values.cols);
    for (std::int64_t row = 0; row < result.values.rows; ++row) {
      const std::int64_t position = first_ + rows_ - result.values.rows + row;
      if (!is_traced(position)) continue;
      const std::span<const float> of_row(values.data() + static_cast<std::size_t>(row) * cols, cols);
      add_row(position, result.name, DType::kF32, std::as_bytes(of_row));
      if (result.name == model::kHeadOp) steps_[position].likeliest = likeliest_of(of_row);
    }
  }

  std::vector<TracedStep> take() {
    std::vector<TracedStep> steps;
    for (auto& [position, step] : steps_) {
      step.position = position;
      steps.push_back(std::move(step));
    }
    return steps;
  }

 private:
  void add_row(std::int64_t position, const std::string& op, DType dtype, std::span<const std::byte> values) {
    steps_[position].results.push_back(make_result(op, dtype, {values.begin(), values.end()}, request_.values));
  }

  void add_stored(const std::string& op, const kernels::KvPages& kv) {
    for (std::int64_t position = first_; position < first_ + rows_; ++position) {
      if (!is_traced(position)) continue;
      add_cached(position, op + ".keys", kv, kernels::Cached::kKey);
      add_cached(position, op + ".values", kv, kernels::Cached::kValue);
    }
  }

  // What the cache has of a position, heads side by side. Of integers the numbers that they stand for, exactly (an
  // infinity where that is 2^128), and the units that they count in.
  void add_cached(std::int64_t position, const std::string& op, const kernels::KvPages& kv, kernels::Cached which) {
    const bool is_key = which == kernels::Cached::kKey;
    const kernels::CacheFormat& format = *context_.state().numerics->cache;
    const auto index = static_cast<std::size_t>(sequence_.pages()[static_cast<std::size_t>(position / kv.page_size)]);
    const std::vector<std::byte> page =
        page_of(is_key ? kv.keys : kv.values, index, format.page_bytes(kv.kv_heads, kv.head_dim, kv.page_size));
    kernels::ElementInPage at{.page_size = kv.page_size, .head_dim = kv.head_dim, .slot = position % kv.page_size};
    const auto for_each_element = [&](const auto& visit) {
      for (at.head = 0; at.head < kv.kv_heads; ++at.head)
        for (at.element = 0; at.element < kv.head_dim; ++at.element) visit();
    };
    if (format.unit_bytes == 0) {  // keys lie transposed in their page, values do not
      const auto bytes = static_cast<std::size_t>(format.element_bytes);
      std::vector<std::byte> row;
      for_each_element([&] {
        const std::int64_t in_head = is_key ? at.element * at.page_size + at.slot : at.slot * at.head_dim + at.element;
        const auto* from =
            page.data() + static_cast<std::size_t>(at.head * at.head_dim * at.page_size + in_head) * bytes;
        row.insert(row.end(), from, from + bytes);
      });
      return add_row(position, op, kv.dtype, row);
    }
    const std::vector<std::byte> bytes_of_units =
        page_of(is_key ? kv.key_units : kv.value_units, index, format.page_unit_bytes(kv.kv_heads, kv.page_size));
    std::vector<float> units, numbers;
    for (std::int64_t head = 0; head < kv.kv_heads; ++head)
      units.push_back(int16::unit_value(
          std::to_integer<int>(bytes_of_units[static_cast<std::size_t>(head * kv.page_size + at.slot)])));
    for_each_element([&] {
      const std::int32_t integer = context_.state().attention->integer_in_page(page.data(), which, at);
      numbers.push_back(static_cast<float>(integer) * units[static_cast<std::size_t>(at.head)]);
    });
    add_row(position, op + ".units", DType::kF32, std::as_bytes(std::span(units)));
    add_row(position, op, DType::kF32, std::as_bytes(std::span(numbers)));
  }

  std::vector<std::byte> page_of(const void* pages, std::size_t index, std::int64_t page_bytes) const {
    std::vector<std::byte> page(static_cast<std::size_t>(page_bytes));
    copy_to_host(context_, page.data(), static_cast<const std::byte*>(pages) + index * page.size(), page.size());
    return page;
  }

  const Context& context_;
  const TraceRequest& request_;
  const model::Sequence& sequence_;
  std::int64_t first_ = 0, rows_ = 0;  // of the pass
  std::map<std::int64_t, TracedStep> steps_;
};

// How far the text goes, and which of its positions are traced.
TraceRequest checked(TraceRequest request, const model::Model& model) {
  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  require(prompt >= 1, "a trace needs a prompt of at least one token");
  require(request.chunk >= 1, "a trace in passes of {}", request.chunk);
  const std::int64_t length = prompt + static_cast<std::int64_t>(request.answer.size());
  require(length <= model.max_positions(), "a text of {} tokens; the context has {}", length, model.max_positions());
  if (request.positions.empty())
    for (std::int64_t position = prompt - 1; position < length; ++position) request.positions.push_back(position);
  check_positions(request.positions, length);
  return request;
}

}  // namespace

std::uint32_t TracedResult::word(std::int64_t element) const {
  const std::size_t bytes = dtype_bytes(dtype);
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < bytes; ++i)
    word |= std::to_integer<std::uint32_t>(values[static_cast<std::size_t>(element) * bytes + i]) << (8 * i);
  return word;
}

float TracedResult::value(std::int64_t element) const {
  return widen(dtype, word(element));
}

void check_positions(const std::vector<std::int64_t>& positions, std::int64_t length) {
  for (std::size_t i = 0; i < positions.size(); ++i)
    require(positions[i] >= 0 && positions[i] < length && (i == 0 || positions[i] > positions[i - 1]),
            "position {} cannot be traced: the text has {}, and they come in ascending order", positions[i], length);
}

Trace make_trace(const model::Model& model, const TraceRequest& asked) {
  const TraceRequest request = checked(asked, model);
  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  Trace trace{.chunk = request.chunk, .prompt_tokens = prompt, .tokens = request.prompt};
  trace.tokens.insert(trace.tokens.end(), request.answer.begin(), request.answer.end());
  const auto length = static_cast<std::int64_t>(trace.tokens.size());
  const std::int64_t rows = std::min({request.chunk, prompt, std::int64_t{kernels::kMaxBatchRows}});
  model::KvCache cache(model.context(), model.own_config(),
                       (length + model::kDefaultPageSize - 1) / model::kDefaultPageSize);
  model::Runner runner(model, cache, {.rows = rows, .sequences = 1, .logit_rows = rows});
  model::Sequence sequence(cache);
  invariant(sequence.reserve(length), "the cache of a trace is too small");
  Recorder recorder(model, request, sequence);
  runner.observe([&](const model::OpResult& result) { recorder.add(result); });

  while (sequence.length() < length) {
    const std::int64_t first = sequence.length();
    const std::int64_t count = first < prompt ? std::min(rows, prompt - first) : 1;
    bool needs_all = false;
    for (std::int64_t position = first; position + 1 < first + count; ++position)
      needs_all = needs_all || recorder.is_traced(position);
    recorder.begin_pass(first, count);
    const model::TokenChunk chunk{&sequence,
                                  {trace.tokens.data() + first, static_cast<std::size_t>(count)},
                                  needs_all ? model::Logits::kAll : model::Logits::kLast};
    runner.run({&chunk, 1});
  }
  trace.steps = recorder.take();
  trace.numerics = model.context().numerics();
  trace.device = model.context().description();
  return trace;
}

TraceRequest request_of(const Trace& trace) {
  const auto end_of_prompt = trace.tokens.begin() + trace.prompt_tokens;
  TraceRequest request{.prompt = {trace.tokens.begin(), end_of_prompt},
                       .answer = {end_of_prompt, trace.tokens.end()},
                       .positions = {},
                       .chunk = trace.chunk};
  for (const TracedStep& step : trace.steps) request.positions.push_back(step.position);
  return request;
}

namespace {

// The first position at which the texts differ, or the length of the shorter one.
std::int64_t common_length(const Trace& a, const Trace& b) {
  const auto ends = std::mismatch(a.tokens.begin(), a.tokens.end(), b.tokens.begin(), b.tokens.end());
  return ends.first - a.tokens.begin();
}

void find_element(Difference& difference, const TracedResult& a, const TracedResult& b) {
  difference.elements = a.elements;
  if (a.values.empty() || b.values.empty()) return;
  for (std::int64_t i = 0; i < a.elements; ++i) {
    if (a.word(i) == b.word(i)) continue;
    ++difference.differing;
    if (difference.element) continue;
    difference.element = i;
    difference.word_a = a.word(i);
    difference.word_b = b.word(i);
    difference.value_a = a.value(i);
    difference.value_b = b.value(i);
  }
}

std::optional<Difference> first_difference(const TracedStep& a, const TracedStep& b) {
  Difference difference{.position = a.position};
  for (std::size_t i = 0; i < std::max(a.results.size(), b.results.size()); ++i) {
    const TracedResult* left = i < a.results.size() ? &a.results[i] : nullptr;
    const TracedResult* right = i < b.results.size() ? &b.results[i] : nullptr;
    difference.op = (left != nullptr ? left : right)->op;
    if (left == nullptr || right == nullptr || left->op != right->op) {
      difference.other = fmt::format("{} in A, {} in B", left != nullptr ? left->op : "nothing",
                                     right != nullptr ? right->op : "nothing");
      return difference;
    }
    if (left->dtype != right->dtype || left->elements != right->elements) {
      difference.other = fmt::format("{} elements of {} in A, {} of {} in B", left->elements, dtype_name(left->dtype),
                                     right->elements, dtype_name(right->dtype));
      return difference;
    }
    if (left->sha256 != right->sha256) {
      find_element(difference, *left, *right);
      return difference;
    }
    difference.before = left->op;
  }
  return std::nullopt;
}

}  // namespace

Comparison compare_traces(const Trace& a, const Trace& b) {
  require(a.model_digest == b.model_digest, "the traces are of different models: {} and {}", a.model_digest,
          b.model_digest);
  const std::int64_t common = common_length(a, b);
  Comparison comparison;
  if (common < static_cast<std::int64_t>(std::min(a.tokens.size(), b.tokens.size())))
    comparison.text_differs_at = common;
  for (const TracedStep& step : a.steps) {
    const auto other = std::find_if(b.steps.begin(), b.steps.end(),
                                    [&](const TracedStep& of_b) { return of_b.position == step.position; });
    if (step.position >= common || other == b.steps.end()) continue;
    ++comparison.positions;
    const std::optional<Difference> difference = first_difference(step, *other);
    if (!difference) ++comparison.equal;
    if (difference && !comparison.first) {
      comparison.first = difference;
      comparison.first->positions_unseen = step.position - (comparison.positions - 1);
    }
    if (!comparison.flip && step.likeliest[0].token != other->likeliest[0].token)
      comparison.flip = {step.position, step.likeliest, other->likeliest};
  }
  if (comparison.positions == 0 && comparison.text_differs_at)
    fail(ErrorCode::kInvalidArgument, "the traces have no step in common: their texts differ from position {} on",
         common);
  require(comparison.positions > 0, "the traces have no step in common: they are of other positions");
  comparison.only_a = static_cast<std::int64_t>(a.steps.size()) - comparison.positions;
  comparison.only_b = static_cast<std::int64_t>(b.steps.size()) - comparison.positions;
  return comparison;
}

}  // namespace reprofuse::study
