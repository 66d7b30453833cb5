#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.hpp"
#include "numerics/float_ops.hpp"
#include "ops/context_state.hpp"
#include "study/bench/error.hpp"
#include "study/seeded/inputs.hpp"

namespace reprofuse::study {
namespace {

constexpr std::int64_t kHeadDim = 128;
constexpr std::int64_t kQueries = 16;
constexpr std::int32_t kHeadPage = 64;

enum class HeadKeys { kPlain, kSpread, kSink };

// Scores have about the standard deviation `sharpness`.
struct HeadSpec {
  const char* name;
  HeadKeys keys;
  float sharpness;
  std::int64_t count;
};

constexpr HeadSpec kHeadSpecs[] = {
    {"flat", HeadKeys::kPlain, 1, 1024},
    {"flat", HeadKeys::kPlain, 1, 8192},
    {"sharp", HeadKeys::kPlain, 3, 1024},
    {"sharp", HeadKeys::kPlain, 3, 8192},
    {"very sharp", HeadKeys::kPlain, 8, 1024},
    {"very sharp", HeadKeys::kPlain, 8, 8192},
    {"values of many sizes", HeadKeys::kSpread, 3, 8192},
    {"a first key that takes most", HeadKeys::kSink, 1, 8192},
};

struct HeadOperands {
  std::vector<float> q, k, v;  // [kQueries, kHeadDim] and [keys, kHeadDim]
};

HeadOperands make_head(const HeadSpec& spec) {
  const auto gaussian = ActivationSpread::kGaussian;
  HeadOperands operands{.q = spread_activations(gaussian, 11, kQueries, kHeadDim),
                        .k = spread_activations(gaussian, 12, spec.count, kHeadDim),
                        .v = spread_activations(gaussian, 13, spec.count, kHeadDim)};
  for (float& value : operands.q) value *= spec.sharpness;
  const std::vector<float> sizes = spread_activations(ActivationSpread::kHeavyTailed, 14, spec.count, 1);
  for (std::int64_t j = 0; j < spec.count; ++j) {
    operands.k[static_cast<std::size_t>(j * kHeadDim + 5)] *= 4;  // a feature that is larger than others
    if (spec.keys != HeadKeys::kSpread) continue;
    for (std::int64_t d = 0; d < kHeadDim; ++d)
      operands.v[static_cast<std::size_t>(j * kHeadDim + d)] *= sizes[static_cast<std::size_t>(j)];
  }
  if (spec.keys == HeadKeys::kSink)
    for (std::int64_t d = 0; d < kHeadDim; ++d) {  // every query leans towards it, and its value is small
      for (std::int64_t m = 0; m < kQueries; ++m) operands.q[static_cast<std::size_t>(m * kHeadDim + d)] += 0.9F;
      operands.k[static_cast<std::size_t>(d)] = 1.0F;
      operands.v[static_cast<std::size_t>(d)] *= 0.01F;
    }
  return operands;
}

double to_bf16(double value) {
  return widen_bf16(round_bf16(static_cast<float>(value)));
}

// In binary64; with `rounds`, operands and probabilities are rounded to BF16 as flash attention does.
std::vector<double> attend(const HeadOperands& operands, bool rounds) {
  const auto rounded = [rounds](double value) { return rounds ? to_bf16(value) : value; };
  const auto keys = static_cast<std::int64_t>(operands.k.size()) / kHeadDim;
  const double scale = 1.0 / std::sqrt(static_cast<double>(kHeadDim));
  std::vector<double> results;
  for (std::int64_t m = 0; m < kQueries; ++m) {
    std::vector<double> scores;
    for (std::int64_t j = 0; j < keys; ++j) {
      double dot = 0;
      for (std::int64_t d = 0; d < kHeadDim; ++d)
        dot += rounded(operands.q[static_cast<std::size_t>(m * kHeadDim + d)]) *
               rounded(operands.k[static_cast<std::size_t>(j * kHeadDim + d)]);
      scores.push_back(dot * scale);
    }
    const double max = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    std::vector<double> weighted(kHeadDim);
    for (std::int64_t j = 0; j < keys; ++j) {
      const double p = std::exp(scores[static_cast<std::size_t>(j)] - max);
      sum += p;
      for (std::int64_t d = 0; d < kHeadDim; ++d)
        weighted[static_cast<std::size_t>(d)] +=
            rounded(p) * rounded(operands.v[static_cast<std::size_t>(j * kHeadDim + d)]);
    }
    for (const double value : weighted) results.push_back(value / sum);
  }
  return results;
}

// Pages of keys and values of one head, in host memory.
class HeadPages {
 public:
  HeadPages(const kernels::CacheFormat& cache, std::int32_t pages)
      : dtype_(cache.dtype),
        pages_(pages),
        keys_(static_cast<std::size_t>(pages * cache.page_bytes(1, kHeadDim, kHeadPage))),
        values_(keys_.size()),
        key_units_(static_cast<std::size_t>(pages * cache.page_unit_bytes(1, kHeadPage))),
        value_units_(key_units_.size()) {}

  kernels::KvPages view() {
    return {.keys = keys_.data(),
            .values = values_.data(),
            .dtype = dtype_,
            .kv_heads = 1,
            .head_dim = static_cast<std::int32_t>(kHeadDim),
            .page_size = kHeadPage,
            .pages = pages_,
            .key_units = key_units_.data(),
            .value_units = value_units_.data()};
  }

 private:
  DType dtype_;
  std::int32_t pages_;
  std::vector<std::byte> keys_, values_, key_units_, value_units_;
};

// By the context's own operations: keys and values go into pages by a rotation that turns nothing.
std::vector<float> attend_by(const Context& context, const HeadOperands& operands) {
  const ContextState& state = context.state();
  require(state.backend->capabilities().shares_host_memory,
          "errors of attention are measured where pages of keys and values lie in host memory");
  const auto keys = static_cast<std::int32_t>(operands.k.size() / kHeadDim);
  HeadPages pages(*state.numerics->cache, keys / kHeadPage);
  const kernels::KvPages kv = pages.view();
  std::vector<std::int32_t> positions(static_cast<std::size_t>(keys)), sequences(positions.size(), 0);
  std::vector<std::int32_t> table(static_cast<std::size_t>(kv.pages));
  std::iota(positions.begin(), positions.end(), 0);
  std::iota(table.begin(), table.end(), 0);
  kernels::Batch batch{.rows = keys,
                       .max_keys = keys,
                       .positions = positions.data(),
                       .sequences = sequences.data(),
                       .page_table = table.data(),
                       .page_table_stride = kv.pages};
  const std::vector<float> ones(operands.k.size() / 2, 1.0F), zeros(ones.size(), 0.0F);
  std::vector<float> unused(operands.k.size());
  state.attention->rotary({}, {.q = {unused.data(), keys, kHeadDim, kHeadDim},
                               .k = {operands.k.data(), keys, kHeadDim, kHeadDim},
                               .v = {operands.v.data(), keys, kHeadDim, kHeadDim},
                               .cos = ones.data(),
                               .sin = zeros.data(),
                               .positions = keys,
                               .batch = batch,
                               .kv = kv});
  // Each query is the last row of the text, in a chunk of its own.
  std::fill(positions.begin(), positions.end(), keys - 1);
  std::vector<kernels::Chunk> chunks;
  chunks.reserve(kQueries);
  for (std::int32_t m = 0; m < kQueries; ++m)
    chunks.push_back({.first_row = m, .rows = 1, .first_position = keys - 1, .sequence = 0});
  batch.rows = batch.chunk_count = static_cast<std::int32_t>(kQueries);
  batch.max_chunk_rows = 1;
  batch.chunks = chunks.data();
  std::vector<float> results(operands.q.size());
  const auto place =
      state.attention->attention({}, {.q = {operands.q.data(), kQueries, kHeadDim, kHeadDim},
                                      .kv = kv,
                                      .batch = batch,
                                      .heads = 1,
                                      .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(kHeadDim))),
                                      .out = {results.data(), kQueries, kHeadDim, kHeadDim}});
  invariant(!place, "seeded attention is not finite");
  return results;
}

}  // namespace

void bench_attention_errors(std::span<const Context> contexts, const OnAttentionErrorRow& report) {
  for (const HeadSpec& spec : kHeadSpecs) {
    const HeadOperands operands = make_head(spec);
    const std::vector<double> exact = attend(operands, false);
    const auto error_of = [&](std::span<const float> results) {
      ErrorSum sum;
      sum.add(results, exact, kHeadDim);
      return sum.error();
    };
    AttentionErrorRow row{.operands = {.name = spec.name, .keys = spec.count}, .bf16 = 0, .errors = {}};
    const std::vector<double> by_bf16 = attend(operands, true);
    row.bf16 = error_of(std::vector<float>(by_bf16.begin(), by_bf16.end())).rms;
    for (const Context& context : contexts) row.errors.push_back(error_of(attend_by(context, operands)));
    report(row);
  }
}

}  // namespace reprofuse::study
