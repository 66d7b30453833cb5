// What memory a method takes, as the allocator counts it.
#include <gtest/gtest.h>

#include "checkpoint/config.hpp"
#include "study/bench/engine.hpp"
#include "study/seeded/models.hpp"
#include "support/messages.hpp"

namespace reprofuse {
namespace {

// Large enough that what else is allocated does not matter.
study::MemoryOptions memory_options() {
  study::MemoryOptions options{.config = study::small_config(checkpoint::Architecture::kLlama)};
  options.config.hidden_size = 512;
  options.config.intermediate_size = 2048;
  options.config.vocab_size = 8192;
  options.config.layers = 2;
  options.config.tied_embeddings = false;
  options.config.layer_windows.assign(2, 0);
  options.budget = std::int64_t{256} << 20;
  options.batch = 2;
  options.rows = 16;
  options.context = 64;
  return options;
}

TEST(RepeatedSource, TensorsOfAShapeAreTheSameInWhateverOrderTheyAreAskedFor) {
  checkpoint::ModelConfig config = study::small_config(checkpoint::Architecture::kLlama);
  const auto bytes = [](const study::RepeatedSource& source, const char* name) {
    const checkpoint::TensorView view = source.tensor(name);
    EXPECT_EQ(view.name, name);
    return std::vector<std::byte>(view.bytes.begin(), view.bytes.end());
  };
  const char* const gate = "model.layers.0.mlp.gate_proj.weight";
  const study::RepeatedSource one(config, DType::kBF16, 1), other(config, DType::kBF16, 1);
  EXPECT_EQ(bytes(one, gate), bytes(one, "model.layers.2.mlp.up_proj.weight"));
  EXPECT_EQ(bytes(other, "model.layers.2.mlp.up_proj.weight"), bytes(one, gate));
  EXPECT_EQ(bytes(one, gate),
            bytes(study::RepeatedSource(config, DType::kBF16, 1), "model.layers.1.mlp.gate_proj.weight"));
  EXPECT_NE(bytes(one, gate), bytes(study::RepeatedSource(config, DType::kBF16, 2), gate));
  EXPECT_NE(bytes(one, gate), bytes(one, "model.layers.0.mlp.down_proj.weight"));
  config.layers = 1;
  config.layer_windows.resize(1);
  const study::RepeatedSource fewer(config, one);
  EXPECT_EQ(fewer.tensor(gate).bytes.data(), one.tensor(gate).bytes.data());
  EXPECT_TRUE(contains(error_of([&] { fewer.tensor("model.layers.1.mlp.gate_proj.weight"); }), "has no tensor"));
}

class StudyMemory : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers have an allocator of their own";
#endif
  }
};

TEST_F(StudyMemory, WeightsTransientAndCacheAreWhatTheAllocatorGives) {
  const study::MemoryOptions options = memory_options();
  const auto bytes = static_cast<double>(2 * checkpoint::parameter_count(options.config));
  const study::MemoryRow row = study::measure_memory(Context::open("cpu"), options);
  EXPECT_GE(static_cast<double>(row.weight_bytes), bytes);
  EXPECT_LT(static_cast<double>(row.weight_bytes), 1.5 * bytes) << "16-bit weights, each in pages of 2 MiB";
  EXPECT_GT(row.transient_bytes, options.batch * options.config.vocab_size * 4) << "at least the logits";
  const std::int64_t used = row.weight_bytes + row.transient_bytes + row.kv_bytes;
  EXPECT_LE(used, options.budget);
  EXPECT_GT(static_cast<double>(used), 0.98 * static_cast<double>(options.budget));
  EXPECT_GE(row.kv_bytes, row.kv_tokens * 2 * options.config.layers * options.config.kv_size() * 4);
}

TEST_F(StudyMemory, MethodsDifferByWhatTheyCopy) {
  const study::MemoryOptions options = memory_options();
  const auto measured = [&](const char* numerics) {
    return study::measure_memory(Context::open("cpu", numerics), options);
  };
  const study::MemoryRow fma = measured("fma-1"), kv16 = measured("fma-1-kv16");
  EXPECT_NEAR(static_cast<double>(kv16.kv_tokens), 2.0 * static_cast<double>(fma.kv_tokens),
              0.1 * static_cast<double>(fma.kv_tokens))
      << "each buffer in pages of 2 MiB";
  study::MemoryRow layercast, sgemm;
  const std::string error = error_of([&] {
    layercast = measured("layercast");
    sgemm = measured("sgemm");
  });
  if (contains(error, "libopenblas")) GTEST_SKIP() << error;
  ASSERT_EQ(error, "");
  const std::int64_t head = options.config.vocab_size * options.config.hidden_size * 4;  // in binary32
  EXPECT_GE(layercast.transient_bytes, fma.transient_bytes + head * 3 / 4) << "the copy of the largest weight";
  EXPECT_LT(sgemm.transient_bytes, layercast.transient_bytes - head / 2) << "which has its copies for good:";
  EXPECT_GT(sgemm.weight_bytes, layercast.weight_bytes + head / 2);
  EXPECT_LT(layercast.kv_tokens, fma.kv_tokens);
}

TEST_F(StudyMemory, ABudgetThatHoldsNoMoreThanTheWeightsLeavesNoTokens) {
  study::MemoryOptions options = memory_options();
  options.budget = std::int64_t{16} << 20;
  const study::MemoryRow row = study::measure_memory(Context::open("cpu"), options);
  EXPECT_GT(row.weight_bytes, options.budget);
  EXPECT_EQ(row.kv_tokens, 0);
  EXPECT_EQ(row.kv_bytes, 0);
}

}  // namespace
}  // namespace reprofuse
