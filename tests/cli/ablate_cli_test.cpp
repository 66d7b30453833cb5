// reprofuse ablate and bench linear --plot as a user meets them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/run_cli.hpp"
#include "reprofuse/context.hpp"
#include "reprofuse/error.hpp"

namespace reprofuse {
namespace {

TEST(AblateCommand, HelpNamesTheRulesAndTheOutputs) {
  const Finished run = reprofuse("ablate --help");
  EXPECT_EQ(run.status, 0) << run.err;
  for (const char* part : {"r1: arithmetic", "r2: tuned", "r3: split-K", "r4: batch", "--device", "--json", "--report"})
    EXPECT_TRUE(contains(run.out, part)) << part << "\n" << run.out;
  EXPECT_FALSE(contains(run.out, "openblas-digests")) << "that is the tool's own";
}

TEST(AblateCommand, ARuleThatDoesNotExistIsAnErrorWithAHint) {
  for (const char* arguments : {"ablate", "ablate r5", "ablate r1 --device tpu"}) {
    const Finished run = reprofuse(arguments);
    EXPECT_EQ(run.status, 2) << arguments;
    EXPECT_EQ(run.out, "");
    EXPECT_TRUE(contains(run.err, "Try 'reprofuse ablate --help'.")) << run.err;
  }
}

TEST(AblateCommand, AFileThatCannotBeWrittenIsAnErrorBeforeAnythingRuns) {
  for (const char* option : {"--json", "--report"}) {
    const Finished run = reprofuse(std::string("ablate all ") + option + " /nowhere/file");
    EXPECT_EQ(run.status, 1);
    EXPECT_EQ(run.out, "");
    EXPECT_EQ(run.err, "reprofuse: /nowhere/file: cannot be written: No such file or directory\n");
  }
}

TEST(AblateCommand, WritesTheSameExperimentAsTextJsonAndAPage) {
  const TemporaryFolder folder;
  const std::string json_path = folder.file("r3.json"), page_path = folder.file("r3.html");
  const Finished run = reprofuse("ablate r3 --json '" + json_path + "' --report '" + page_path + "'");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "## R3: deterministic split-K\n\ncpu ")) << run.out;
  EXPECT_TRUE(contains(run.out, "- holds: splits merged in order give one result in 50 runs, on 6 of 6")) << run.out;
  EXPECT_FALSE(contains(run.out, "DOES NOT HOLD")) << run.out;
  const auto json = nlohmann::json::parse(read_whole_file(json_path));
  ASSERT_EQ(json["experiments"].size(), 1U);
  const auto& merged = json["experiments"][0]["tables"][0]["rows"];
  ASSERT_EQ(merged.size(), 6U);
  for (const auto& row : merged) EXPECT_EQ(row["ordered"], 1) << row;
  EXPECT_TRUE(contains(read_whole_file(page_path), "<h2>R3: deterministic split-K</h2>"));
}

TEST(AblateCommand, CudaWithoutADeviceIsAnErrorThatSaysWhy) {
  std::string reason;
  try {
    Context::cuda();
    GTEST_SKIP() << "this machine has a CUDA device";
  } catch (const Error& error) {
    reason = error.what();
  }
  const Finished run = reprofuse("ablate r1 --device cuda");
  EXPECT_EQ(run.status, 1);
  EXPECT_EQ(run.err, "reprofuse: " + reason + "\n");
}

TEST(BenchLinearCommand, DrawsAPlotWithBothFloors) {
  const TemporaryFolder folder;
  const std::string path = folder.file("plot.svg");
  const Finished run =
      reprofuse("bench linear --shapes 64x128 --m 1 --numerics fma-1 --threads 1 --plot '" + path + "'");
  ASSERT_EQ(run.status, 0) << run.err;
  const std::string svg = read_whole_file(path);
  for (const char* part : {"<svg ", ">64 x 128</text>", ">fma-1</text>", ">memory floor</text>", ">FMA floor</text>"})
    EXPECT_TRUE(contains(svg, part)) << part;
}

}  // namespace
}  // namespace reprofuse
