// One call of attention by contracts int16-1 and exact-2 for tests: its queries, its pages, and what the reference
// makes of them.
#pragma once

#include "numerics/attention_integer.hpp"
#include "ops/attention_case.hpp"

namespace reprofuse {

struct IntegerSpec {
  KvSpec kv;
  std::int32_t group = 2;
  std::int32_t window = 0;
  float query_scale = 1.0F;
  float value_spread = 1.0F;  // values of odd positions are so many times larger
  int digits = 2;             // two by int16-1, three by exact-2
};

// A batch whose keys and values are stored by a rotation that turns nothing, as the reference stores them.
class IntegerCase {
 public:
  IntegerCase(const IntegerSpec& spec, const std::vector<ChunkSpec>& chunks)
      : spec_(spec), floats_({.kv = spec.kv, .group = spec.group, .query_scale = spec.query_scale}, chunks) {
    const kernels::KvPages pages = floats_.kv().pages();
    std::int32_t last = 0;
    const kernels::Batch batch = floats_.kv().batch();
    for (std::int32_t i = 0; i < batch.page_table_stride * sequences(chunks); ++i)
      last = std::max(last, batch.page_table[i]);
    const auto positions = static_cast<std::size_t>((last + 1) * pages.kv_heads * pages.page_size);
    keys_.assign(positions * static_cast<std::size_t>(pages.head_dim * spec.digits), 255);
    values_ = keys_;
    key_units_.assign(positions, 255);
    value_units_ = key_units_;
    for (const kernels::Chunk& chunk : floats_.kv().chunks()) {
      const std::int32_t end = chunk.first_position + chunk.rows;
      store(chunk.sequence, end, scheme().rotary);
    }
  }

  kernels::KvPages pages() {
    kernels::KvPages pages = floats_.kv().pages();
    pages.keys = keys_.data();
    pages.values = values_.data();
    pages.key_units = key_units_.data();
    pages.value_units = value_units_.data();
    return pages;
  }
  int digits() const { return spec_.digits; }
  const kernels::AttentionScheme& scheme() const {
    return spec_.digits == 2 ? reference::kAttentionInt16 : reference::kAttentionExact2;
  }
  auto stored() const { return std::tie(keys_, values_, key_units_, value_units_); }
  Rows empty_result() const { return floats_.empty_result(); }
  Rows& queries() { return floats_.queries(); }
  KvCase& kv() { return floats_.kv(); }
  std::size_t positions() const { return key_units_.size(); }  // of all pages, for each head
  void forget() {
    std::fill(keys_.begin(), keys_.end(), 255);
    std::fill(values_.begin(), values_.end(), 255);
    std::fill(key_units_.begin(), key_units_.end(), 255);
    std::fill(value_units_.begin(), value_units_.end(), 255);
  }

  kernels::AttentionCall call(Rows& out) {
    kernels::AttentionCall call = floats_.call(out);
    call.kv = pages();
    call.window = spec_.window;
    return call;
  }
  Rows expected() {
    Rows out = empty_result();
    EXPECT_FALSE(scheme().attention(call(out)));
    return out;
  }
  ConstMatrix row_of(Rows& out, std::int32_t sequence, std::int32_t position) const {
    return floats_.row_of(out, sequence, position);
  }

  // Positions [0, end) of a sequence, all rows in one call.
  template <class Rotate>
  void store(std::int32_t sequence, std::int32_t end, const Rotate& rotate) {
    const std::int32_t head_dim = spec_.kv.head_dim, cols = spec_.kv.kv_heads * head_dim;
    Rows q(end, cols, 1), k(end, cols, 2), v(end, cols, 3);
    std::vector<std::int32_t> positions(static_cast<std::size_t>(end)), sequences(positions.size(), sequence);
    std::iota(positions.begin(), positions.end(), 0);
    for (std::int32_t t = 0; t < end; ++t) {
      const auto name = static_cast<std::uint64_t>(sequence * 100000 + t + 1) * 0x9e3779b97f4a7c15ULL;
      const std::vector<float> seeded = study::make_activations(name, 2, cols);
      for (std::int32_t i = 0; i < cols; ++i) {
        k.at(t, i) = seeded[static_cast<std::size_t>(i)];
        v.at(t, i) = seeded[static_cast<std::size_t>(cols + i)] * (t % 2 == 1 ? spec_.value_spread : 1.0F);
      }
    }
    const std::vector<float> ones(static_cast<std::size_t>(end * head_dim / 2), 1.0F), zeros(ones.size(), 0.0F);
    kernels::Batch batch = floats_.kv().batch();
    batch.rows = end;
    batch.positions = positions.data();
    batch.sequences = sequences.data();
    rotate(kernels::RotaryCall{.q = q.view(),
                               .k = as_const(k.view()),
                               .v = as_const(v.view()),
                               .cos = ones.data(),
                               .sin = zeros.data(),
                               .batch = batch,
                               .kv = pages()});
  }
  const std::vector<kernels::Chunk>& chunks() { return floats_.kv().chunks(); }

  // Where a position's key and value of the first head lie, and the integers there.
  reference::KvPlace place_of(std::int32_t sequence, std::int32_t position) {
    Rows out = empty_result();
    return reference::find_place(pages(), call(out).batch, sequence, position, 0);
  }
  std::int32_t key(const reference::KvPlace& place, std::int64_t d) {
    return reference::load_integer(keys_.data(), spec_.digits, place, place.paired_key(d));
  }
  std::int32_t value(const reference::KvPlace& place, std::int64_t d) {
    return reference::load_integer(values_.data(), spec_.digits, place, place.paired_value(d));
  }
  void set_key(const reference::KvPlace& place, std::int64_t d, std::int32_t x) {
    reference::store_integer(keys_.data(), spec_.digits, place, place.paired_key(d), x);
  }
  void set_value(const reference::KvPlace& place, std::int64_t d, std::int32_t x) {
    reference::store_integer(values_.data(), spec_.digits, place, place.paired_value(d), x);
  }
  std::uint8_t& key_unit(const reference::KvPlace& place) {
    return key_units_[static_cast<std::size_t>(place.head / spec_.kv.head_dim + place.slot)];
  }
  std::uint8_t& value_unit(const reference::KvPlace& place) {
    return value_units_[static_cast<std::size_t>(place.head / spec_.kv.head_dim + place.slot)];
  }
  // The keys and values of two positions change places.
  void swap_positions(std::int32_t sequence, std::int32_t first, std::int32_t second) {
    const reference::KvPlace a = place_of(sequence, first), b = place_of(sequence, second);
    for (std::int32_t d = 0; d < spec_.kv.head_dim; ++d) {
      const std::int32_t key_a = key(a, d), value_a = value(a, d);
      set_key(a, d, key(b, d));
      set_key(b, d, key_a);
      set_value(a, d, value(b, d));
      set_value(b, d, value_a);
    }
    std::swap(key_unit(a), key_unit(b));
    std::swap(value_unit(a), value_unit(b));
  }

 private:
  static std::int32_t sequences(const std::vector<ChunkSpec>& chunks) {
    std::int32_t count = 0;
    for (const ChunkSpec& chunk : chunks) count = std::max(count, chunk.sequence + 1);
    return count;
  }

  IntegerSpec spec_;
  AttentionCase floats_;
  std::vector<std::uint8_t> keys_, values_, key_units_, value_units_;
};

}  // namespace reprofuse
