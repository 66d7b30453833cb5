#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <sstream>

#include "checkpoint/checkpoint.hpp"
#include "study/seeded/models.hpp"
#include "support/files.hpp"

namespace reprofuse::checkpoint {
namespace {

std::string digest_of(const study::RandomCheckpoint& random, int threads = 2) {
  const TemporaryFolder folder;
  ThreadPool pool(threads);
  study::write_random_checkpoint(folder.path(), random, pool);
  return model_digest(Checkpoint::open(folder.path()), pool);
}

std::string manifest_of(const Checkpoint& checkpoint, ThreadPool& pool) {
  return model_manifest(checkpoint, tensor_digests(checkpoint, pool));
}

study::RandomCheckpoint small_model(Architecture architecture = Architecture::kLlama) {
  study::RandomCheckpoint random;
  random.config = study::small_config(architecture);
  return random;
}

// Every machine must write these very models; other tests record what they compute.
TEST(Digest, OfSeededModelsIsPinned) {
  EXPECT_EQ(digest_of(small_model(Architecture::kLlama)),
            "652de96463a572e33be5d607a30075d871e3a9ffbe5fb8a8e2ba70bf2574fbf4");
  EXPECT_EQ(digest_of(small_model(Architecture::kQwen2)),
            "ec2bdf58b046a13e2f997382825244219372112e561789984b82e0b7bdddc43a");
  EXPECT_EQ(digest_of(small_model(Architecture::kQwen3)),
            "0772724e10ef6c8a94fb9f2e79795d490a55197b0101936e37e2ca7c12ef90e3");
  EXPECT_EQ(digest_of(small_model(Architecture::kMistral)),
            "109836f7fe5e8af7151419e1f1b4f15946b619ed6e1c6b81e69e17377a2188dc");
}

TEST(Digest, DoesNotDependOnShardsSpellingThreadsOrUnusedKeys) {
  study::RandomCheckpoint random = small_model();
  const std::string digest = digest_of(random);
  EXPECT_EQ(digest_of(random, 1), digest);
  random.shards = 4;
  random.spelling = Spelling::kNew;
  random.config.eos_tokens = {5};
  random.config.max_positions = 77;
  EXPECT_EQ(digest_of(random), digest);
}

TEST(Digest, ChangesWithEveryConstantThatEntersTheArithmetic) {
  std::set<std::string> digests = {digest_of(small_model())};
  const auto expect_new = [&](const std::function<void(study::RandomCheckpoint&)>& change,
                              Architecture architecture = Architecture::kLlama) {
    study::RandomCheckpoint random = small_model(architecture);
    change(random);
    EXPECT_TRUE(digests.insert(digest_of(random)).second) << config_to_json(random.config);
  };
  expect_new([](auto& random) { random.seed = 2; });
  expect_new([](auto& random) { random.dtype = DType::kF16; });
  expect_new([](auto& random) { random.config.rms_norm_eps = 1e-6; });
  expect_new([](auto& random) { random.config.rotary.theta = 10001; });
  expect_new([](auto& random) {
    random.config.rotary.kind = RotaryKind::kLinear;
    random.config.rotary.factor = 2;
  });
  const auto expect_new_rotary = [&](const std::function<void(RotaryConfig&)>& change) {
    expect_new([&](auto& random) {
      random.config.rotary.factor = 2;
      random.config.rotary.original_max_positions = 64;
      change(random.config.rotary);
    });
  };
  expect_new_rotary([](auto& rotary) { rotary.kind = RotaryKind::kYarn; });
  const std::function<void(RotaryConfig&)> yarn_changes[] = {
      [](auto& rotary) { rotary.factor = 3; },
      [](auto& rotary) { rotary.original_max_positions = 65; },
      [](auto& rotary) { rotary.beta_fast = 16; },
      [](auto& rotary) { rotary.beta_slow = 2; },
      [](auto& rotary) { rotary.truncate = false; },
      [](auto& rotary) { rotary.attention_factor = 1.5; },
      [](auto& rotary) { rotary.mscale = 0.7, rotary.mscale_all_dim = 0.8; },
      [](auto& rotary) { rotary.mscale = 0.7, rotary.mscale_all_dim = 0.9; }};
  for (const auto& change : yarn_changes)
    expect_new_rotary([&](RotaryConfig& rotary) {
      rotary.kind = RotaryKind::kYarn;
      change(rotary);
    });
  const auto llama3 = [](double low, double high) {
    return [low, high](RotaryConfig& rotary) {
      rotary.kind = RotaryKind::kLlama3;
      rotary.low_freq_factor = low;
      rotary.high_freq_factor = high;
    };
  };
  expect_new_rotary(llama3(1, 4));
  expect_new_rotary(llama3(2, 4));
  expect_new_rotary(llama3(1, 5));
  expect_new([](auto& random) { random.config.heads = random.config.kv_heads = 3; });
  expect_new([](auto& random) { random.config.tied_embeddings = true; });
  expect_new([](auto& random) { random.config.mlp_bias = true; });
  expect_new([](auto& random) { random.config.vocab_size = 312; });
  expect_new([](auto&) {}, Architecture::kMistral);
  expect_new([](auto& random) { random.config.layer_windows.assign(3, 9); }, Architecture::kMistral);
}

TEST(Digest, ChangesWithOneBitOfOneWeight) {
  const TemporaryFolder folder;
  ThreadPool pool(2);
  study::write_random_checkpoint(folder.path(), small_model(), pool);
  const std::string before = manifest_of(Checkpoint::open(folder.path()), pool);
  std::string bytes = read_whole_file(folder.file("model.safetensors"));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(folder.file("model.safetensors"), bytes);
  const std::string after = manifest_of(Checkpoint::open(folder.path()), pool);
  int lines = 0;
  std::istringstream a(before);
  std::istringstream b(after);
  for (std::string x, y; std::getline(a, x) && std::getline(b, y);) lines += x == y ? 0 : 1;
  EXPECT_EQ(lines, 1);  // the manifest says which tensor it was
}

TEST(Digest, ReportsProgressUpToTheEnd) {
  const TemporaryFolder folder;
  ThreadPool pool(2);
  study::write_random_checkpoint(folder.path(), small_model(), pool);
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  std::int64_t last = 0;
  model_digest(checkpoint, pool, [&](std::int64_t done, std::int64_t total) {
    EXPECT_GT(done, last);
    EXPECT_EQ(total, checkpoint.tensor_bytes());
    last = done;
  });
  EXPECT_EQ(last, checkpoint.tensor_bytes());
}

}  // namespace
}  // namespace reprofuse::checkpoint
