// Loading a model on the CPU takes its 16-bit size in memory and at most a tenth more, at any moment. Measured in a
// child process, by what the kernel says of it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "base/check.hpp"
#include "checkpoint/support.hpp"
#include "model/checkpoint_source.hpp"
#include "model/model.hpp"
#include "study/random_checkpoint.hpp"

namespace reprofuse::model {
namespace {

// A line of /proc/self/status, in bytes: RssAnon is memory that only this process has, VmHWM the most of all kinds so
// far, with the pages of mapped files.
std::int64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind(key + ":", 0) == 0) return std::stoll(line.substr(key.size() + 1)) * 1024;
  fail(ErrorCode::kInternal, "/proc/self/status has no {}", key);
}

struct Peaks {
  std::int64_t anonymous = 0;  // beyond what the process had before
  std::int64_t resident = 0;
};

Peaks load_and_measure(const std::string& folder) {
  const std::int64_t anonymous_before = status_bytes("RssAnon");
  const std::int64_t resident_before = status_bytes("VmRSS");
  Peaks peaks;
  const auto note = [&] { peaks.anonymous = std::max(peaks.anonymous, status_bytes("RssAnon") - anonymous_before); };
  const Model model(Context::cpu(), std::make_shared<CheckpointSource>(checkpoint::Checkpoint::open(folder)), 512,
                    [&](std::int64_t, std::int64_t) { note(); });
  note();
  peaks.resident = status_bytes("VmHWM") - resident_before;
  return peaks;
}

// A process of its own starts with little, so that nothing is hidden in memory that was freed before.
Peaks measure_in_child(const std::string& folder) {
  int ends[2];
  require(pipe(ends) == 0, "no pipe");
  const pid_t child = fork();
  require(child >= 0, "no child process");
  if (child == 0) {
    try {
      const Peaks peaks = load_and_measure(folder);
      _exit(write(ends[1], &peaks, sizeof(peaks)) == sizeof(peaks) ? 0 : 1);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      _exit(1);
    }
  }
  close(ends[1]);
  Peaks peaks;
  EXPECT_EQ(read(ends[0], &peaks, sizeof(peaks)), static_cast<ssize_t>(sizeof(peaks)));
  close(ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  return peaks;
}

checkpoint::ModelConfig sizable_config(bool tied) {
  checkpoint::ModelConfig config = study::small_config(checkpoint::Architecture::kLlama);
  config.vocab_size = 16000;
  config.hidden_size = 1024;
  config.intermediate_size = 2816;
  config.layers = tied ? 8 : 6;
  config.heads = 16;
  config.kv_heads = 4;
  config.head_dim = 64;
  config.tied_embeddings = tied;
  config.layer_windows.assign(static_cast<std::size_t>(config.layers), 0);
  return config;
}

double largest_tensor_bytes(const checkpoint::ModelConfig& config) {
  return 2.0 * static_cast<double>(config.hidden_size * std::max(config.vocab_size, 2 * config.intermediate_size));
}

class LoadMemory : public testing::TestWithParam<bool> {};

TEST_P(LoadMemory, IsTheSixteenBitSizeAndAtMostATenthMore) {
  const checkpoint::TemporaryFolder folder;
  const checkpoint::ModelConfig config = sizable_config(GetParam());
  {
    ThreadPool pool(available_cores());
    study::RandomCheckpoint random;
    random.config = config;
    study::write_random_checkpoint(folder.path(), random, pool);
  }
  const double size = 2.0 * static_cast<double>(checkpoint::parameter_count(config));
  const Peaks peaks = measure_in_child(folder.path());
  const double anonymous = static_cast<double>(peaks.anonymous) / size;
  std::printf("%.0f MB of weights: %.3f of that in memory at most, %.3f with mapped file pages\n", size / 1e6,
              anonymous, static_cast<double>(peaks.resident) / size);
  EXPECT_GT(size, 150e6);
  EXPECT_LE(anonymous, 1.1);
  // The tensor that is being packed is mapped meanwhile; the kernel can drop those pages whenever it needs memory.
  EXPECT_LE(static_cast<double>(peaks.resident), 1.1 * size + largest_tensor_bytes(config));
  EXPECT_GT(anonymous, 0.5) << "the measurement saw the packed weights";
}

INSTANTIATE_TEST_SUITE_P(Heads, LoadMemory, testing::Bool(),
                         [](const auto& param_info) { return param_info.param ? "tied" : "untied"; });

}  // namespace
}  // namespace reprofuse::model
