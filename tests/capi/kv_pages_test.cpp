// Rotary and attention by every contract through the C ABI, over pages that the caller allocates. They run on the CPU:
// no public call fills memory of a GPU. What they call there is run on one by
// tests/ops/rotary_attention_integer_cuda_test.cpp, rotary_cuda_test.cpp and attention_cuda_test.cpp.
#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>

#include "capi/support.hpp"

namespace reprofuse::capi {
namespace {

constexpr std::int32_t kHeads = 4, kKvHeads = 2, kDim = 64, kPage = 16, kPages = 3;
constexpr std::int32_t kFirst = 32, kSecond = 9,
                       kRows = kFirst + kSecond;  // of two sequences: the last page is not full
constexpr float kEps = 1e-5F, kScale = 0.125F;
constexpr std::size_t kGuard = 64;
constexpr std::byte kGuardByte{0xa5};

// As many bytes as are asked for, and some behind them that nobody may write.
struct Memory {
  Memory(std::size_t count, std::byte fill) : size(count), bytes(count + kGuard, fill) {
    std::fill(bytes.end() - kGuard, bytes.end(), kGuardByte);
  }
  bool guard_is_whole() const {
    return std::all_of(bytes.end() - kGuard, bytes.end(), [](std::byte b) { return b == kGuardByte; });
  }
  std::vector<std::byte> page(std::size_t index) const {
    const auto one = static_cast<std::ptrdiff_t>(size / kPages), at = static_cast<std::ptrdiff_t>(index) * one;
    return {bytes.begin() + at, bytes.begin() + at + one};
  }
  std::size_t size;
  std::vector<std::byte> bytes;
};

// What both interfaces are given.
struct Inputs {
  Inputs() {
    for (std::int32_t row = 0; row < kRows; ++row) {
      positions.push_back(row < kFirst ? row : row - kFirst);
      sequences.push_back(row < kFirst ? 0 : 1);
    }
  }
  std::vector<float> q = operand(1, kRows*kHeads*kDim), k = operand(2, kRows*kKvHeads*kDim),
                     v = operand(3, kRows*kKvHeads*kDim), q_norm = operand(4, kDim), k_norm = operand(5, kDim),
                     out = std::vector<float>(q.size());
  RotaryTable table = rotary_table({}, kDim, kFirst);
  std::vector<std::int32_t> positions, sequences, page_table = {2, 0, 1, 1};
};

struct Format {
  std::int32_t dtype = 7;
  std::size_t page_bytes = 0, unit_bytes = 0;
  auto operator<=>(const Format&) const = default;
};

struct Pass {
  Pass(const Format& format, std::byte fill)
      : keys(kPages * format.page_bytes, fill),
        values(kPages * format.page_bytes, fill),
        key_units(kPages * format.unit_bytes, fill),
        value_units(kPages * format.unit_bytes, fill) {}
  Memory keys, values, key_units, value_units;
  Inputs in;
};

// A context by one contract and one instruction set, with its operations, through the C ABI.
struct COps {
  COps(const char* numerics, const char* isa, const char* device = "cpu") {
    EXPECT_EQ(make_context(device, numerics, isa, isa == nullptr ? 0 : 2, &context), REPROFUSE_OK)
        << reprofuse_last_error();
    EXPECT_EQ(reprofuse_ops_create(context, "layer 3", &ops), REPROFUSE_OK) << reprofuse_last_error();
    EXPECT_EQ(reprofuse_ops_kv_dtype(ops, &format.dtype), REPROFUSE_OK);
    EXPECT_EQ(reprofuse_ops_kv_page_bytes(ops, kKvHeads, kDim, kPage, &format.page_bytes, &format.unit_bytes),
              REPROFUSE_OK);
  }
  ~COps() {
    reprofuse_ops_destroy(ops);
    reprofuse_context_destroy(context);
  }
  COps(const COps&) = delete;
  COps& operator=(const COps&) = delete;

  reprofuse_kv_pages pages(Pass& pass) const {
    reprofuse_kv_pages pages;
    EXPECT_EQ(reprofuse_kv_pages_init(&pages, sizeof pages), REPROFUSE_OK);
    pages.keys = pass.keys.bytes.data();
    pages.values = pass.values.bytes.data();
    pages.key_units = pass.key_units.bytes.data();
    pages.value_units = pass.value_units.bytes.data();
    pages.dtype = format.dtype;
    pages.kv_heads = kKvHeads;
    pages.head_dim = kDim;
    pages.page_size = kPage;
    pages.pages = kPages;
    return pages;
  }
  reprofuse_batch batch(const Pass& pass) const {
    static const reprofuse_chunk chunks[] = {{0, kFirst, 0, 0}, {kFirst, kSecond, 0, 1}};
    reprofuse_batch batch;
    EXPECT_EQ(reprofuse_batch_init(&batch, sizeof batch), REPROFUSE_OK);
    batch.rows = kRows;
    batch.chunk_count = 2;
    batch.max_chunk_rows = kFirst;
    batch.max_keys = kFirst;
    batch.positions = pass.in.positions.data();
    batch.sequences = pass.in.sequences.data();
    batch.chunks = chunks;
    batch.page_table = pass.in.page_table.data();
    batch.page_table_stride = 2;
    batch.page_table_rows = 2;
    return batch;
  }
  reprofuse_status rotate(Pass& pass, const reprofuse_kv_pages& pages) const {
    const reprofuse_batch rows = batch(pass);
    const reprofuse_matrix q = {pass.in.q.data(), kRows, kHeads * kDim, kHeads * kDim},
                           k = {pass.in.k.data(), kRows, kKvHeads * kDim, kKvHeads * kDim},
                           v = {pass.in.v.data(), kRows, kKvHeads * kDim, kKvHeads * kDim};
    return reprofuse_ops_rotary(ops, &q, &k, &v, pass.in.q_norm.data(), pass.in.k_norm.data(), kEps,
                                pass.in.table.cos.data(), pass.in.table.sin.data(), kFirst, &rows, &pages, nullptr, 0,
                                nullptr);
  }
  reprofuse_status attend(Pass& pass, const reprofuse_kv_pages& pages) const {
    const reprofuse_batch rows = batch(pass);
    const reprofuse_matrix q = {pass.in.q.data(), kRows, kHeads * kDim, kHeads * kDim},
                           out = {pass.in.out.data(), kRows, kHeads * kDim, kHeads * kDim};
    size_t bytes = 0;
    EXPECT_EQ(reprofuse_ops_attention_workspace_bytes(ops, kHeads, kKvHeads, kDim, kRows, 2, kFirst, &bytes),
              REPROFUSE_OK);
    const Workspace workspace(Context::cpu(), bytes);
    return reprofuse_ops_attention(ops, &q, kHeads, kScale, 0, &rows, &pages, &out, workspace.data(), bytes, nullptr);
  }

  reprofuse_context* context = nullptr;
  reprofuse_ops* ops = nullptr;
  Format format;
};

// The same by the C++ API, on the scalar kernels.
std::vector<float> by_cpp(std::string_view numerics) {
  const Context context = Context::cpu(numerics, Isa::kScalar, 1);
  const Ops ops(context, "layer 3");
  const KvPageBytes bytes = ops.kv_page_bytes(kKvHeads, kDim, kPage);
  Pass pass({0, bytes.elements, bytes.units}, std::byte{0});
  const Chunk chunks[] = {{0, kFirst, 0, 0}, {kFirst, kSecond, 0, 1}};
  const Batch batch = {.rows = kRows,
                       .chunk_count = 2,
                       .max_chunk_rows = kFirst,
                       .max_keys = kFirst,
                       .positions = pass.in.positions.data(),
                       .sequences = pass.in.sequences.data(),
                       .chunks = chunks,
                       .page_table = pass.in.page_table.data(),
                       .page_table_stride = 2,
                       .page_table_rows = 2};
  const KvPages kv = {.keys = pass.keys.bytes.data(),
                      .values = pass.values.bytes.data(),
                      .dtype = ops.kv_dtype().value_or(DType::kF32),
                      .kv_heads = kKvHeads,
                      .head_dim = kDim,
                      .page_size = kPage,
                      .pages = kPages,
                      .key_units = pass.key_units.bytes.data(),
                      .value_units = pass.value_units.bytes.data()};
  const Workspace workspace(context, ops.attention_workspace_bytes({kHeads, kKvHeads, kDim, kRows, 2, kFirst}));
  ops.rotary({.q = {pass.in.q.data(), kRows, kHeads * kDim, kHeads * kDim},
              .k = {pass.in.k.data(), kRows, kKvHeads * kDim, kKvHeads * kDim},
              .v = {pass.in.v.data(), kRows, kKvHeads * kDim, kKvHeads * kDim},
              .q_norm = pass.in.q_norm.data(),
              .k_norm = pass.in.k_norm.data(),
              .eps = kEps,
              .cos = pass.in.table.cos.data(),
              .sin = pass.in.table.sin.data(),
              .positions = kFirst,
              .batch = batch,
              .kv = kv},
             workspace);
  ops.attention({.q = {pass.in.q.data(), kRows, kHeads * kDim, kHeads * kDim},
                 .kv = kv,
                 .batch = batch,
                 .heads = kHeads,
                 .scale = kScale,
                 .out = {pass.in.out.data(), kRows, kHeads * kDim, kHeads * kDim}},
                workspace);
  return pass.in.out;
}

// A power of two more or less in the first key of the first sequence.
void change_a_key(Pass& pass, const Format& format) {
  const auto page = static_cast<std::size_t>(pass.in.page_table[0]);
  const std::size_t element = format.page_bytes / (kKvHeads * kDim * kPage);
  std::byte& changed = format.unit_bytes > 0 ? pass.key_units.bytes[page * format.unit_bytes]
                                             : pass.keys.bytes[page * format.page_bytes + element - 1];
  changed ^= std::byte{1};
}

TEST(CKvPages, EveryContractGivesTheBitsOfTheCppApiOverPagesOfTheSizeThatItTells) {
  std::map<Format, std::vector<float>> by_format;
  for (size_t i = 0; const char* numerics = reprofuse_numerics_name(i); ++i) {
    const std::vector<float> expected = by_cpp(numerics);
    for (size_t j = 0; const char* isa = reprofuse_isa_name(j); ++j) {
      const COps c(numerics, isa);
      Pass pass(c.format, std::byte{0}), other(c.format, std::byte{0xff});
      for (Pass* each : {&pass, &other}) {
        const reprofuse_kv_pages pages = c.pages(*each);
        ASSERT_EQ(c.rotate(*each, pages), REPROFUSE_OK) << numerics << ": " << reprofuse_last_error();
        ASSERT_EQ(c.attend(*each, pages), REPROFUSE_OK) << numerics << ": " << reprofuse_last_error();
        EXPECT_EQ(each->in.out, expected) << numerics << " " << isa << ", whatever the pages held before";
      }
      for (Memory Pass::*memory : {&Pass::keys, &Pass::values, &Pass::key_units, &Pass::value_units}) {
        EXPECT_TRUE((pass.*memory).guard_is_whole()) << numerics << " " << isa;
        for (const std::size_t full : {0U, 2U})
          EXPECT_EQ((pass.*memory).page(full), (other.*memory).page(full)) << "no byte of a full page is left over";
      }
      change_a_key(pass, c.format);
      ASSERT_EQ(c.attend(pass, c.pages(pass)), REPROFUSE_OK) << reprofuse_last_error();
      EXPECT_NE(pass.in.out, expected) << numerics << " " << isa << ": the control";
      by_format.emplace(c.format, expected);
      EXPECT_EQ(by_format[c.format], expected) << numerics << ": contracts with one format share their attention";
    }
  }
  EXPECT_GE(by_format.size(), 4U);
  for (auto one = by_format.begin(); one != by_format.end(); ++one)
    for (auto two = by_format.begin(); two != one; ++two) EXPECT_NE(one->second, two->second) << "formats differ";
}

TEST(CKvPages, WhatIsWrongWithPagesIsNamed) {
  int in_integers = 0;
  for (size_t i = 0; const char* numerics = reprofuse_numerics_name(i); ++i) {
    const COps c(numerics, nullptr);
    Pass pass(c.format, std::byte{0});
    const auto refused = [&](const auto& change) {
      reprofuse_kv_pages pages = c.pages(pass);
      change(pages);
      return error_text(c.rotate(pass, pages), REPROFUSE_INVALID_ARGUMENT);
    };
    EXPECT_NE(refused([](auto& p) { p.values = p.keys; }).find("the pages of keys overlaps the pages of values"),
              std::string::npos);
    EXPECT_NE(refused([](auto& p) { p.dtype = REPROFUSE_F16; }).find("KV pages of f16"), std::string::npos);
    if (c.format.dtype != REPROFUSE_NO_DTYPE) {
      EXPECT_EQ(c.format.unit_bytes, 0U);
      EXPECT_EQ(refused([](auto& p) { p.dtype = REPROFUSE_NO_DTYPE; }), "dtype -1 does not exist");
      reprofuse_kv_pages pages = c.pages(pass);
      pages.key_units = pages.value_units = nullptr;
      EXPECT_EQ(c.rotate(pass, pages), REPROFUSE_OK) << reprofuse_last_error();
      continue;
    }
    ++in_integers;
    EXPECT_EQ(c.format.unit_bytes, static_cast<size_t>(kKvHeads * kPage));
    EXPECT_NE(refused([](auto& p) { p.value_units = nullptr; }).find("a pointer to units is null"), std::string::npos);
    EXPECT_NE(
        refused([](auto& p) { p.value_units = p.key_units; }).find("the units of keys overlaps the units of values"),
        std::string::npos);
    EXPECT_NE(refused([](auto& p) { p.key_units = static_cast<char*>(p.key_units) + 1; }).find("not aligned"),
              std::string::npos);
    reprofuse_kv_pages pages = c.pages(pass);
    pages.dtype = 0;
    EXPECT_EQ(c.rotate(pass, pages), REPROFUSE_OK) << reprofuse_last_error();
  }
  EXPECT_GE(in_integers, 2);
}

TEST(CKvPages, PagesTakeTheSameMemoryOnEveryDevice) {
  for (const std::string& device : available_devices())
    for (size_t i = 0; const char* numerics = reprofuse_numerics_name(i); ++i)
      EXPECT_EQ(COps(numerics, nullptr, device.c_str()).format, COps(numerics, nullptr).format) << device << numerics;
}

TEST(CKvPages, SizesThatNoPageHasAreErrors) {
  const COps c(nullptr, nullptr);
  size_t bytes = 0, units = 0;
  const auto refused = [&](std::int64_t kv_heads, std::int64_t head_dim, std::int64_t page_size) {
    return error_text(reprofuse_ops_kv_page_bytes(c.ops, kv_heads, head_dim, page_size, &bytes, &units),
                      REPROFUSE_INVALID_ARGUMENT);
  };
  EXPECT_EQ(refused(2, 64, 24),
            "kv_page_bytes of 'layer 3': a page of 24 positions is not a power of two of at least 16");
  EXPECT_NE(refused(0, 64, 16).find("0 key-value heads"), std::string::npos);
  EXPECT_NE(refused(2, 63, 16).find("63 elements"), std::string::npos);
  EXPECT_NE(refused(std::int64_t{1} << 40, 64, 16).find("1099511627776 key-value heads"), std::string::npos);
  EXPECT_NE(refused(INT32_MAX, INT32_MAX - 1, 1 << 30).find("larger than any memory"), std::string::npos);
  EXPECT_EQ(bytes, 0U);
  EXPECT_EQ(reprofuse_ops_kv_page_bytes(nullptr, 2, 64, 16, &bytes, &units), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_ops_kv_page_bytes(c.ops, 2, 64, 16, nullptr, &units), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_ops_kv_page_bytes(c.ops, 2, 64, 16, &bytes, nullptr), REPROFUSE_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace reprofuse::capi
