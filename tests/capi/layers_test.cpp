// The operations that are no linear layers: exact cases, the C ABI against the C++ API, and misuse.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <string_view>

#include "capi/support.hpp"

namespace reprofuse::capi {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Two sequences over pages of 16 positions: one token at position 0, and two at positions 0 and 1.
struct Pages {
  static constexpr std::int32_t kRows = 3, kHeads = 4, kKvHeads = 2, kDim = 8, kPage = 16;
  std::vector<float> keys = std::vector<float>(2 * kKvHeads * kDim * kPage);
  std::vector<float> values = keys;  // larger than those of any other format
  std::vector<std::byte> key_units = std::vector<std::byte>(2 * kKvHeads * kPage), value_units = key_units;
  std::vector<float> q = filled(kRows * kHeads * kDim, 0.25F), k = filled(kRows * kKvHeads * kDim, -0.5F),
                     v = filled(kRows * kKvHeads * kDim, 0.125F), out = std::vector<float>(q.size());
  std::vector<std::int32_t> positions = {0, 0, 1}, sequences = {0, 1, 1}, table = {1, 0};
  std::vector<Chunk> chunks = {{0, 1, 0, 0}, {1, 2, 0, 1}};
  RotaryTable rotary = rotary_table({}, kDim, 4);

  static std::vector<float> filled(std::int64_t count, float step) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = step * static_cast<float>(i % 13 + 1);
    return values;
  }
  Matrix matrix(std::vector<float>& from, std::int64_t cols) { return {from.data(), kRows, cols, cols}; }
  ConstMatrix read(const std::vector<float>& from, std::int64_t cols) { return {from.data(), kRows, cols, cols}; }
  Batch batch() const {
    return {.rows = kRows,
            .chunk_count = 2,
            .max_chunk_rows = 2,
            .max_keys = 2,
            .positions = positions.data(),
            .sequences = sequences.data(),
            .chunks = chunks.data(),
            .page_table = table.data(),
            .page_table_stride = 1,
            .page_table_rows = 2};
  }
  KvPages kv() {
    return {.keys = keys.data(),
            .values = values.data(),
            .kv_heads = kKvHeads,
            .head_dim = kDim,
            .page_size = kPage,
            .pages = 2,
            .key_units = key_units.data(),
            .value_units = value_units.data()};
  }
  RotaryCall rotary_call() {
    return {.q = matrix(q, kHeads * kDim),
            .k = read(k, kKvHeads * kDim),
            .v = read(v, kKvHeads * kDim),
            .cos = rotary.cos.data(),
            .sin = rotary.sin.data(),
            .positions = 4,
            .batch = batch(),
            .kv = kv()};
  }
  AttentionCall attention_call() {
    return {.q = read(q, kHeads * kDim),
            .kv = kv(),
            .batch = batch(),
            .heads = kHeads,
            .scale = 0.5F,
            .out = matrix(out, kHeads * kDim)};
  }
};

class OpsTest : public testing::Test {
 protected:
  Context context_ = Context::cpu();
  Ops ops_{context_, "layer 3"};
  Workspace workspace_{context_, ops_.attention_workspace_bytes({4, 2, 8, 3, 2, 16})};
};

TEST_F(OpsTest, ExactCasesComeOutExactly) {
  const std::vector<float> table = {1, 2, 3, 4, 5, 6};
  const std::int32_t tokens[] = {2, 0};
  std::vector<float> x(4);
  ops_.embedding({.table = {table.data(), DType::kF32, 3, 2, 2}, .tokens = tokens, .x = {x.data(), 2, 2, 2}},
                 workspace_);
  EXPECT_EQ(x, (std::vector<float>{5, 6, 1, 2}));
  std::vector<float> y(2);
  const std::int32_t rows[] = {1};
  ops_.gather_rows({.x = {x.data(), 2, 2, 2}, .rows = rows, .y = {y.data(), 1, 2, 2}}, workspace_);
  EXPECT_EQ(y, (std::vector<float>{1, 2}));
  const std::vector<float> zero = {0, 0};
  ops_.silu_gate({.gate = {zero.data(), 1, 2, 2}, .up = {y.data(), 1, 2, 2}, .y = {y.data(), 1, 2, 2}}, workspace_);
  EXPECT_EQ(y, zero);
  const std::vector<float> weight = {3, -2};
  std::vector<float> normed = {4, -4};  // its root mean square is 4
  ops_.rms_norm({.x = {normed.data(), 1, 2, 2}, .weight = weight.data(), .y = {normed.data(), 1, 2, 2}}, workspace_);
  EXPECT_EQ(normed, (std::vector<float>{3, 2}));
}

TEST_F(OpsTest, ExactCasesComeOutExactlyOfTheCAbi) {
  reprofuse_context* context = nullptr;
  reprofuse_ops* ops = nullptr;
  ASSERT_EQ(reprofuse_context_create(nullptr, &context), REPROFUSE_OK);
  ASSERT_EQ(reprofuse_ops_create(context, "layer 3", &ops), REPROFUSE_OK);
  reprofuse_context_destroy(context);
  const auto done = [](reprofuse_status status) { ASSERT_EQ(status, REPROFUSE_OK) << reprofuse_last_error(); };

  const std::vector<float> elements = {1, 2, 3, 4, 5, 6}, weight = {3, -2};
  const reprofuse_weight table = {elements.data(), REPROFUSE_F32, 3, 2, 2};
  const std::int32_t tokens[] = {2, 0}, rows[] = {1};
  std::vector<float> x(4), row(2), normed = {4, -4};  // its root mean square is 4
  const reprofuse_matrix of_tokens = {x.data(), 2, 2, 2}, of_row = {row.data(), 1, 2, 2},
                         to_norm = {normed.data(), 1, 2, 2};
  done(reprofuse_ops_embedding(ops, &table, tokens, &of_tokens, nullptr, 0, nullptr));
  EXPECT_EQ(x, (std::vector<float>{5, 6, 1, 2}));
  done(reprofuse_ops_gather_rows(ops, &of_tokens, rows, &of_row, nullptr, 0, nullptr));
  EXPECT_EQ(row, (std::vector<float>{1, 2}));
  done(reprofuse_ops_rms_norm(ops, &to_norm, nullptr, weight.data(), 0, &to_norm, nullptr, 0, nullptr));
  EXPECT_EQ(normed, (std::vector<float>{3, 2}));
  const std::int32_t beyond[] = {3, 0};
  EXPECT_EQ(reprofuse_ops_embedding(ops, &table, beyond, &of_tokens, nullptr, 0, nullptr), REPROFUSE_INVALID_ARGUMENT);
  reprofuse_ops_destroy(ops);
}

TEST_F(OpsTest, ARowThatSeesItselfAloneGetsItsOwnValues) {
  Pages p;
  const std::vector<float> before = p.q;
  ops_.rotary(p.rotary_call(), workspace_);
  EXPECT_TRUE(std::equal(p.q.begin(), p.q.begin() + 64, before.begin())) << "position 0 turns by nothing";
  EXPECT_FALSE(std::equal(p.q.begin() + 64, p.q.end(), before.begin() + 64)) << "position 1 turns";
  ops_.attention(p.attention_call(), workspace_);
  for (int head = 0; head < 4; ++head)
    for (int i = 0; i < 8; ++i) EXPECT_EQ(p.out[head * 8 + i], p.v[head / 2 * 8 + i]) << head << " " << i;
}

TEST_F(OpsTest, ASequenceGetsTheSameBitsAlone) {
  Pages p;
  ops_.rotary(p.rotary_call(), workspace_);
  ops_.attention(p.attention_call(), workspace_);
  Pages alone;  // rows 1 and 2, as a batch of their own
  alone.chunks = {{0, 2, 0, 1}};
  RotaryCall rotary = alone.rotary_call();
  AttentionCall attention = alone.attention_call();
  for (Batch* batch : {&rotary.batch, &attention.batch}) {
    batch->rows = 2;
    batch->chunk_count = 1;
    batch->positions += 1;
    batch->sequences += 1;
  }
  const auto skip_first = [](auto&... matrices) { (((matrices.data += matrices.stride), --matrices.rows), ...); };
  skip_first(rotary.q, rotary.k, rotary.v, attention.q, attention.out);
  ops_.rotary(rotary, workspace_);
  ops_.attention(attention, workspace_);
  EXPECT_TRUE(std::equal(p.out.begin() + 32, p.out.end(), alone.out.begin() + 32));
  EXPECT_FALSE(std::equal(p.out.begin() + 32, p.out.begin() + 64, p.out.begin() + 64)) << "row 2 sees row 1, too";
}

TEST_F(OpsTest, TheCAbiGivesTheBitsOfTheCppApi) {
  Pages cpp;
  ops_.rotary(cpp.rotary_call(), workspace_);
  ops_.attention(cpp.attention_call(), workspace_);

  Pages p;
  reprofuse_context* context = nullptr;
  reprofuse_ops* ops = nullptr;
  ASSERT_EQ(reprofuse_context_create(nullptr, &context), REPROFUSE_OK);
  ASSERT_EQ(reprofuse_ops_create(context, "layer 3", &ops), REPROFUSE_OK);
  reprofuse_context_destroy(context);
  reprofuse_batch batch;
  reprofuse_kv_pages pages;
  ASSERT_EQ(reprofuse_batch_init(&batch, sizeof batch), REPROFUSE_OK);
  ASSERT_EQ(reprofuse_kv_pages_init(&pages, sizeof pages), REPROFUSE_OK);
  const reprofuse_chunk chunks[] = {{0, 1, 0, 0}, {1, 2, 0, 1}};
  batch.rows = 3;
  batch.chunk_count = 2;
  batch.max_chunk_rows = 2;
  batch.max_keys = 2;
  batch.positions = p.positions.data();
  batch.sequences = p.sequences.data();
  batch.chunks = chunks;
  batch.page_table = p.table.data();
  batch.page_table_stride = 1;
  batch.page_table_rows = 2;
  pages.keys = p.keys.data();
  pages.values = p.values.data();
  pages.kv_heads = 2;
  pages.head_dim = 8;
  pages.page_size = 16;
  pages.pages = 2;
  std::int32_t kv_dtype = -1;
  ASSERT_EQ(reprofuse_ops_kv_dtype(ops, &kv_dtype), REPROFUSE_OK);
  EXPECT_EQ(kv_dtype, REPROFUSE_F32);
  const reprofuse_matrix q = {p.q.data(), 3, 32, 32}, k = {p.k.data(), 3, 16, 16}, v = {p.v.data(), 3, 16, 16},
                         out = {p.out.data(), 3, 32, 32};
  std::vector<float> cos(16), sin(16);
  ASSERT_EQ(reprofuse_rotary_table(nullptr, 8, 4, cos.data(), sin.data()), REPROFUSE_OK);
  ASSERT_EQ(reprofuse_ops_rotary(ops, &q, &k, &v, nullptr, nullptr, 0, cos.data(), sin.data(), 4, &batch, &pages,
                                 nullptr, 0, nullptr),
            REPROFUSE_OK)
      << reprofuse_last_error();
  size_t bytes = 0;
  ASSERT_EQ(reprofuse_ops_attention_workspace_bytes(ops, 4, 2, 8, 3, 2, 2, &bytes), REPROFUSE_OK);
  const Workspace workspace(context_, bytes);
  ASSERT_EQ(reprofuse_ops_attention(ops, &q, 4, 0.5F, 0, &batch, &pages, &out, workspace.data(), bytes, nullptr),
            REPROFUSE_OK)
      << reprofuse_last_error();
  EXPECT_EQ(p.out, cpp.out);
  EXPECT_NE(p.out, std::vector<float>(p.out.size()));

  pages.page_size = 12;
  EXPECT_NE(
      error_text(reprofuse_ops_attention(ops, &q, 4, 0.5F, 0, &batch, &pages, &out, workspace.data(), bytes, nullptr),
                 REPROFUSE_INVALID_ARGUMENT)
          .find("a page of 12"),
      std::string::npos);
  batch.struct_size = 4;
  EXPECT_EQ(reprofuse_ops_attention(ops, &q, 4, 0.5F, 0, &batch, &pages, &out, nullptr, 0, nullptr),
            REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_ops_silu_gate(nullptr, &q, &q, &q, nullptr, 0, nullptr), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_ops_silu_gate(ops, nullptr, &q, &q, nullptr, 0, nullptr), REPROFUSE_INVALID_ARGUMENT);
  reprofuse_ops_destroy(ops);
  reprofuse_ops_destroy(nullptr);
}

TEST_F(OpsTest, MisuseIsNamedWithItsPlace) {
  const auto refused = [&](const auto& change) {
    Pages p;
    AttentionCall call = p.attention_call();
    change(p, call);
    return thrown(ErrorCode::kInvalidArgument, [&] { ops_.attention(call, workspace_); });
  };
  EXPECT_NE(refused([](Pages&, AttentionCall& c) { c.heads = 3; }).find("attention of 'layer 3': 3 heads"),
            std::string::npos);
  EXPECT_NE(refused([](Pages&, AttentionCall& c) { c.kv.dtype = DType::kBF16; }).find("bf16"), std::string::npos);
  EXPECT_NE(refused([](Pages&, AttentionCall& c) { c.q.data = nullptr; }).find("q pointer"), std::string::npos);
  EXPECT_NE(refused([](Pages&, AttentionCall& c) { c.batch.rows = 2; }).find("2 rows"), std::string::npos);
  EXPECT_NE(refused([](Pages& p, AttentionCall&) { p.positions[2] = 9; }).find("row 2"), std::string::npos);
  EXPECT_NE(refused([](Pages& p, AttentionCall&) { p.chunks[1].rows = 1; }).find("2 rows of 3"), std::string::npos);
  EXPECT_NE(refused([](Pages&, AttentionCall& c) { c.batch.max_keys = 1; }).find("position 1"), std::string::npos);
  EXPECT_NE(thrown(ErrorCode::kInvalidArgument,
                   [&] {
                     Pages p;
                     ops_.attention(p.attention_call(), {nullptr, 0});
                   })
                .find("workspace"),
            std::string::npos);
}

TEST_F(OpsTest, PagesAndPositionsThatAreNotThereAreNamed) {
  const auto refused = [&](const auto& change) {
    Pages p;
    RotaryCall call = p.rotary_call();
    change(p, call);
    return thrown(ErrorCode::kInvalidArgument, [&] { ops_.rotary(call, workspace_); });
  };
  EXPECT_EQ(refused([](Pages& p, RotaryCall&) { p.table[1] = 2; }),
            "rotary of 'layer 3': page_table[1][0] = 2 is outside 0 to 1");
  EXPECT_EQ(refused([](Pages& p, RotaryCall&) { p.table[0] = -1; }),
            "rotary of 'layer 3': page_table[0][0] = -1 is outside 0 to 1");
  EXPECT_EQ(refused([](Pages&, RotaryCall& c) { c.kv.pages = 0; }),
            "rotary of 'layer 3': pages = 0; there is at least one");
  EXPECT_EQ(refused([](Pages&, RotaryCall& c) { c.batch.page_table_rows = 1; }),
            "rotary of 'layer 3': sequence 1 of chunk 1 is outside 0 to 0");
  EXPECT_EQ(refused([](Pages&, RotaryCall& c) { c.positions = 1; }),
            "rotary of 'layer 3': cos and sin have 1 positions, fewer than max_keys = 2");
  EXPECT_EQ(refused([](Pages&, RotaryCall& c) { c.batch.max_keys = 17; }),
            "rotary of 'layer 3': max_keys = 17 is more than the 1 pages of a sequence hold");
  EXPECT_EQ(refused([](Pages& p, RotaryCall&) {
              p.table = {1, 1};
            }),
            "rotary of 'layer 3': two rows store in place 0 of page 1");
  Pages p;  // attention reads every page up to a row's own
  p.table[1] = 7;
  EXPECT_EQ(thrown(ErrorCode::kInvalidArgument, [&] { ops_.attention(p.attention_call(), workspace_); }),
            "attention of 'layer 3': page_table[1][0] = 7 is outside 0 to 1");
}

TEST_F(OpsTest, OperandsThatMayNotShareMemoryAreNamed) {
  const auto refused = [&](const auto& call) { return thrown(ErrorCode::kInvalidArgument, call); };
  std::vector<float> m(64), weight(8);
  const auto at = [&](std::int64_t first) { return Matrix{m.data() + first, 2, 8, 8}; };
  const auto from = [&](std::int64_t first) { return ConstMatrix{m.data() + first, 2, 8, 8}; };
  EXPECT_EQ(refused([&] { ops_.silu_gate({.gate = from(0), .up = from(32), .y = at(4)}, workspace_); }),
            "silu_gate of 'layer 3': y overlaps gate");
  ops_.silu_gate({.gate = from(0), .up = from(32), .y = at(0)}, workspace_);  // in place is no overlap
  EXPECT_EQ(refused([&] { ops_.rms_norm({.x = at(0), .weight = weight.data(), .y = at(8)}, workspace_); }),
            "rms_norm of 'layer 3': y overlaps x");
  EXPECT_EQ(refused([&] { ops_.rms_norm({.x = at(0), .weight = m.data() + 32, .y = at(32)}, workspace_); }),
            "rms_norm of 'layer 3': y overlaps the weight");
  EXPECT_EQ(
      refused([&] { ops_.rms_norm({.x = at(0), .delta = from(8), .weight = weight.data(), .y = at(32)}, workspace_); }),
      "rms_norm of 'layer 3': x overlaps delta");
  const std::int32_t rows[] = {0, 1};
  EXPECT_EQ(refused([&] { ops_.gather_rows({.x = from(0), .rows = rows, .y = at(0)}, workspace_); }),
            "gather_rows of 'layer 3': y overlaps x");
  EXPECT_EQ(refused([&] {
              ops_.embedding({.table = {m.data(), DType::kF32, 4, 8, 8}, .tokens = rows, .x = at(16)}, workspace_);
            }),
            "embedding of 'layer 3': x overlaps the table");
  Pages p;
  RotaryCall rotary = p.rotary_call();
  rotary.kv.values = rotary.kv.keys;
  EXPECT_EQ(refused([&] { ops_.rotary(rotary, workspace_); }),
            "rotary of 'layer 3': the pages of keys overlaps the pages of values");
  AttentionCall attention = p.attention_call();
  attention.out = p.matrix(p.q, 32);
  EXPECT_EQ(refused([&] { ops_.attention(attention, workspace_); }), "attention of 'layer 3': out overlaps q");
}

TEST_F(OpsTest, PointersThatAreNotAlignedAreNamed) {
  std::vector<float> m(64);
  const auto odd = [&](std::int64_t first) {
    return reinterpret_cast<float*>(reinterpret_cast<std::byte*>(m.data() + first) + 2);
  };
  EXPECT_EQ(thrown(ErrorCode::kInvalidArgument,
                   [&] {
                     ops_.silu_gate({.gate = {odd(0), 1, 8, 8}, .up = {m.data(), 1, 8, 8}, .y = {m.data(), 1, 8, 8}},
                                    workspace_);
                   }),
            "silu_gate of 'layer 3': the gate pointer is not aligned to a float");
  const std::int32_t row = 0;
  EXPECT_EQ(thrown(ErrorCode::kInvalidArgument,
                   [&] {
                     ops_.embedding({.table = {odd(0), DType::kF32, 1, 8, 8}, .tokens = &row, .x = {m.data(), 1, 8, 8}},
                                    workspace_);
                   }),
            "embedding of 'layer 3': the table is not aligned to a f32 element");
}

TEST_F(OpsTest, SizesBeyondAnyMemoryAreErrors) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 31;
  const auto refused = [&](const auto& call) { return thrown(ErrorCode::kInvalidArgument, call); };
  EXPECT_NE(refused([&] {
              ops_.attention_workspace_bytes({kHuge - 1, 1, kHuge - 1, kHuge - 1, 1, kHuge - 1});
            }).find("larger than any memory"),
            std::string::npos);
  EXPECT_NE(refused([&] { Sampler(context_, 100, std::int64_t{1} << 62); }).find("max_rows = 4611686018427387904"),
            std::string::npos);
  const std::vector<float> logits(8);
  const SampleInput inputs[2] = {};
  EXPECT_NE(
      refused([&] {
        (void)Sampler(context_, 4, 2).run({logits.data(), 2, 4, std::numeric_limits<std::int64_t>::max() / 2}, inputs);
      }).find("larger than any memory"),
      std::string::npos);
}

TEST_F(OpsTest, ANaNInKOrVIsNamedWhateverTheCacheKeeps) {
  for (const std::string_view numerics : numerics_names()) {
    const Ops ops(Context::cpu(numerics), "layer 3");
    for (const bool in_k : {true, false}) {
      Pages p;
      RotaryCall call = p.rotary_call();
      call.kv.dtype = ops.kv_dtype().value_or(DType::kF32);
      (in_k ? p.k : p.v)[21] = std::bit_cast<float>(0x7fffffffU);  // rounding these bits to 16 would make it -0
      EXPECT_EQ(thrown(ErrorCode::kNonFinite, [&] { ops.rotary(call, workspace_); }),
                std::string("rotary of 'layer 3': ") + (in_k ? "k" : "v") + " row 1 column 5 is not finite");
    }
  }
}

TEST_F(OpsTest, WhatIsNotFiniteIsThrownWithItsRow) {
  Pages p;
  ops_.rotary(p.rotary_call(), workspace_);
  p.q[40] = kInfinity;
  const std::string text = thrown(ErrorCode::kNonFinite, [&] { ops_.attention(p.attention_call(), workspace_); });
  EXPECT_NE(text.find("layer 3"), std::string::npos) << text;
  EXPECT_NE(text.find("row 1"), std::string::npos) << text;
}

}  // namespace
}  // namespace reprofuse::capi
