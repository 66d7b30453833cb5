// Seeded operands and what the reference loops of int16-1 and exact-2 make of them, as JSON: for int16_spec_test.py,
// which knows NUMERICS.md alone. Numbers are the words of binary32.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/reference/reference.hpp"
#include "study/seeded/inputs.hpp"

namespace reprofuse {
namespace {

std::vector<std::uint32_t> words(const std::vector<float>& values) {
  std::vector<std::uint32_t> all;
  for (const float value : values) all.push_back(float_bits(value));
  return all;
}

// Rows whose blocks differ by powers of two, up to 2^apart.
void write_linear(std::int64_t k, int apart, std::uint64_t seed) {
  constexpr std::int64_t kM = 2, kN = 3;
  std::vector<float> x = study::make_activations(seed, kM, k), w = study::make_activations(seed + 1, kN, k);
  const std::vector<float> bias = study::make_activations(seed + 2, 1, kN);
  for (std::int64_t i = 0; i < kM * k; ++i) {
    float& value = x[static_cast<std::size_t>(i)];
    value = std::ldexp(value, i % k / 512 % 2 == i / k ? 0 : -apart);
  }
  std::vector<float> y(kM * kN);
  reference::linear_int16({x.data(), kM, k, k}, {w.data(), DType::kF32, kN, k, k}, bias.data(), {y.data(), kM, kN, kN});
  fmt::print("{{\"op\": \"linear\", \"k\": {}, \"x\": {}, \"w\": {}, \"bias\": {}, \"y\": {}}}\n", k, words(x),
             words(w), words(bias), words(y));
}

// Two query heads of the last row, over one KV head.
void write_attention(const kernels::AttentionScheme& scheme, std::int32_t head_dim, std::int32_t keys,
                     std::int32_t window, float query_scale, float spread) {
  const auto seed = static_cast<std::uint64_t>(head_dim * 1000 + keys);
  std::vector<float> q = study::make_activations(seed, keys, std::int64_t{2} * head_dim);
  for (float& value : q) value *= query_scale;
  const std::vector<float> k = study::make_activations(seed + 1, keys, head_dim);
  std::vector<float> v = study::make_activations(seed + 2, keys, head_dim);
  for (std::size_t i = 0; i < v.size(); ++i)
    if (i / static_cast<std::size_t>(head_dim) % 3 == 0) v[i] *= spread;
  const auto bytes = static_cast<std::size_t>(head_dim * 1024 * scheme.caches[0]->element_bytes);
  std::vector<std::byte> key_pages(bytes), value_pages(bytes);
  std::vector<std::uint8_t> key_units(1024), value_units(1024);
  std::vector<std::int32_t> positions(static_cast<std::size_t>(keys)), sequences(positions.size(), 0), table = {0};
  std::iota(positions.begin(), positions.end(), 0);
  const std::vector<float> ones(k.size(), 1.0F), zeros(k.size(), 0.0F);
  kernels::Batch batch;
  batch.rows = keys;
  batch.positions = positions.data();
  batch.sequences = sequences.data();
  batch.page_table = table.data();
  batch.page_table_stride = 1;
  const kernels::KvPages pages{.keys = key_pages.data(),
                               .values = value_pages.data(),
                               .kv_heads = 1,
                               .head_dim = head_dim,
                               .page_size = 1024,
                               .pages = 1,
                               .key_units = key_units.data(),
                               .value_units = value_units.data()};
  const std::int64_t q_cols = std::int64_t{2} * head_dim;
  scheme.rotary({.q = {q.data(), keys, q_cols, q_cols},
                 .k = {k.data(), keys, head_dim, head_dim},
                 .v = {v.data(), keys, head_dim, head_dim},
                 .cos = ones.data(),
                 .sin = zeros.data(),
                 .batch = batch,
                 .kv = pages});
  const float scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
  std::vector<float> out(q.size());
  scheme.attention({.q = {q.data(), keys, q_cols, q_cols},
                    .kv = pages,
                    .batch = batch,
                    .heads = 2,
                    .scale = scale,
                    .window = window,
                    .out = {out.data(), keys, q_cols, q_cols}});
  const auto last = [&](const std::vector<float>& rows) {
    return words({rows.end() - static_cast<std::ptrdiff_t>(q_cols), rows.end()});
  };
  fmt::print(
      "{{\"op\": \"attention\", \"contract\": \"{}\", \"head_dim\": {}, \"window\": {}, \"scale\": {}, \"q\": {}, "
      "\"k\": {}, \"v\": {}, "
      "\"out\": {}}}\n",
      scheme.name, head_dim, window, float_bits(scale), last(q), words(k), words(v), last(out));
}

}  // namespace
}  // namespace reprofuse

int main() {
  using namespace reprofuse;  // NOLINT(google-build-using-namespace)
  std::uint64_t seed = 1;
  for (const std::int64_t k : {1, 5, 511, 512, 513, 1100})
    for (const int apart : {0, 7, 30}) write_linear(k, apart, seed += 3);
  write_linear(600, 140, 99);
  for (const kernels::AttentionScheme* scheme : {&reference::kAttentionInt16, &reference::kAttentionExact2}) {
    write_attention(*scheme, 6, 1, 0, 1.0F, 1.0F);
    write_attention(*scheme, 6, 127, 0, 4.0F, 1.0F);
    write_attention(*scheme, 16, 128, 0, 1.0F, 100.0F);
    write_attention(*scheme, 16, 129, 0, 30.0F, 1e-3F);
    write_attention(*scheme, 16, 300, 0, 1e-39F, 1e6F);
    write_attention(*scheme, 16, 300, 140, 10.0F, 1.0F);
    write_attention(*scheme, 10, 400, 128, 100.0F, 3.0F);
    write_attention(*scheme, 10, 140, 0, 100.0F, 1e-20F);
  }
}
