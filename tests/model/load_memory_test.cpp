// Loading a model on the CPU takes its 16-bit size in memory and at most a tenth more, at any moment, beside the tensor
// that is being packed; a tied model keeps its embedding beside the packed head. Measured in a child process, by what
// the kernel says of it.
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
#include "model/model.hpp"
#include "model/weights.hpp"
#include "study/seeded/models.hpp"
#include "support/files.hpp"

namespace reprofuse::model {
namespace {

// A line of /proc/self/status, in bytes.
std::int64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind(key + ":", 0) == 0) return std::stoll(line.substr(key.size() + 1)) * 1024;
  fail(ErrorCode::kInternal, "/proc/self/status has no {}", key);
}

// What a process has of its own, be it in memory or swapped out, and that with the mapped pages of files.
struct Footprint {
  std::int64_t own = 0;
  std::int64_t resident = 0;
};

Footprint footprint() {
  const std::int64_t swapped = status_bytes("VmSwap");
  return {status_bytes("RssAnon") + swapped, status_bytes("VmRSS") + swapped};
}

// The most at any moment while a model is loaded, beyond what the process had before.
Footprint peak_of_loading(const std::string& folder) {
  const Footprint before = footprint();
  Footprint peak;
  const auto note = [&] {
    const Footprint now = footprint();
    peak.own = std::max(peak.own, now.own - before.own);
    peak.resident = std::max(peak.resident, now.resident - before.resident);
  };
  const auto source = std::make_shared<CheckpointSource>(checkpoint::Checkpoint::open(folder));
  const Model model(Context::cpu(), std::make_shared<HashedSource>(source), 512,
                    [&](std::int64_t, std::int64_t) { note(); });
  note();
  peak.resident = std::max(peak.resident, status_bytes("VmHWM") - before.resident);  // between two tensors, too
  return peak;
}

// What `work` returns in a process of its own: memory that one of them freed and kept helps no other.
template <typename Work>
Footprint in_child(const Work& work) {
  int ends[2];
  require(pipe(ends) == 0, "no pipe");
  const pid_t child = fork();
  require(child >= 0, "no child process");
  if (child == 0) {
    try {
      const Footprint result = work();
      _exit(write(ends[1], &result, sizeof(result)) == sizeof(result) ? 0 : 1);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      _exit(1);
    }
  }
  close(ends[1]);
  Footprint result;
  EXPECT_EQ(read(ends[0], &result, sizeof(result)), static_cast<ssize_t>(sizeof(result)));
  close(ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  return result;
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

TEST_P(LoadMemory, IsTheSixteenBitSizeATensorAndAtMostATenthMore) {
  const TemporaryFolder folder;
  const checkpoint::ModelConfig config = sizable_config(GetParam());
  in_child([&] {
    ThreadPool pool(available_cores());
    study::RandomCheckpoint random;
    random.config = config;
    study::write_random_checkpoint(folder.path(), random, pool);
    return Footprint{};
  });
  const double size = 2.0 * static_cast<double>(checkpoint::parameter_count(config));
  const Footprint peak = in_child([&] { return peak_of_loading(folder.path()); });
  const double own = static_cast<double>(peak.own) / size;
  const double resident = static_cast<double>(peak.resident) / size;
  std::printf("%.0f MB of weights: %.3f of that in memory at most, %.3f with mapped file pages\n", size / 1e6, own,
              resident);
  EXPECT_GT(size, 150e6);
  EXPECT_GT(own, 0.7) << "the measurement did not see the packed weights";
  EXPECT_LE(own, 1.1 + largest_tensor_bytes(config) / size);
  EXPECT_LE(resident, own + 0.05) << "no weight is mapped";
}

INSTANTIATE_TEST_SUITE_P(Heads, LoadMemory, testing::Bool(),
                         [](const auto& param_info) { return param_info.param ? "tied" : "untied"; });

}  // namespace
}  // namespace reprofuse::model
