// reprofuse bench linear as a user meets it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/run_cli.hpp"

namespace reprofuse {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> names_in(const Json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return names;
}

TEST(BenchCommand, MeasuresEveryBatchSizeAndWritesThemAsJson) {
  const TemporaryFolder folder;
  const std::string path = folder.file("bench.json");
  const Finished run =
      reprofuse("bench linear --shapes 256x512 --m 1,3 --isa scalar --threads 1 --json '" + path + "'");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "Contract fma-1 on cpu scalar")) << run.out;
  EXPECT_FALSE(contains(run.out, "vs bf16")) << "the CPU has no BF16 baseline, hence no such column: " << run.out;
  const Json json = Json::parse(read_whole_file(path));
  EXPECT_EQ(json["version"], REPROFUSE_VERSION);
  ASSERT_EQ(json["runs"].size(), 1U);
  const Json& bench = json["runs"][0];
  EXPECT_EQ(names_in(bench),
            (std::vector<std::string>{"contract", "pins_bits", "device", "baselines", "vendor", "rows", "forwards"}));
  EXPECT_EQ(bench["contract"], "fma-1");
  ASSERT_EQ(bench["rows"].size(), 2U);
  const std::int64_t expected[][3] = {{1, 256, 512}, {3, 256, 512}};
  for (std::size_t i = 0; i < bench["rows"].size(); ++i) {
    const Json& row = bench["rows"][i];
    auto keys = std::vector<std::string>({"name", "m", "n", "k", "weights", "contract", "implementation", "linear",
                                          "workspace_bytes", "gigabytes_per_second", "gigaflops", "read", "read_bytes",
                                          "read_fraction", "fma_fraction"});
    for (const std::string baseline : bench["baselines"]) keys.insert(keys.end(), {baseline, baseline + "_ratio"});
    EXPECT_EQ(names_in(row), keys);
    EXPECT_EQ(row["m"], expected[i][0]);
    EXPECT_EQ(row["n"], expected[i][1]);
    EXPECT_EQ(row["k"], expected[i][2]);
    EXPECT_EQ(row["weights"], "bf16");
    EXPECT_EQ(row["implementation"], "scalar");
    EXPECT_EQ(names_in(row["linear"]), (std::vector<std::string>{"median_s", "fastest_s", "p90_s"}));
    EXPECT_GT(row["linear"]["fastest_s"].get<double>(), 0.0);
    EXPECT_LE(row["linear"]["fastest_s"].get<double>(), row["linear"]["median_s"].get<double>());
    EXPECT_LE(row["linear"]["median_s"].get<double>(), row["linear"]["p90_s"].get<double>());
    EXPECT_GT(row["gigaflops"].get<double>(), 0.0);
  }
}

TEST(BenchCommand, ABadShapeIsAnErrorThatNamesIt) {
  const Finished run = reprofuse("bench linear --shapes 64x64,64by64");
  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_TRUE(contains(run.err, "'64by64' is neither NxK nor one of the models")) << run.err;
}

TEST(BenchCommand, AFileThatCannotBeWrittenIsAnErrorBeforeAnythingIsMeasured) {
  const Finished run = reprofuse("bench linear --shapes 64x64 --m 1 --json /nowhere/bench.json");
  EXPECT_EQ(run.status, 1);
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(run.err, "reprofuse: /nowhere/bench.json: cannot be written: No such file or directory\n");
}

// One run for both claims, since a run takes seconds.
TEST(BenchCommand, TheFmaFloorIsShownWhereItIsOneAndABusyMachineIsTold) {
  const TemporaryFolder folder;
  const std::string path = folder.file("bench.json");
  const std::string busy = "sh -c 'while :; do :; done' & busy=$!; trap 'kill $busy' EXIT; ";
  const std::string options = "--shapes 64x128 --m 1 --numerics fma-1,exact-1 --threads 1 --json '" + path + "'";
  const Finished run = reprofuse("bench linear " + options, busy);
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(contains(run.err, "reprofuse: other programs kept ")) << run.err;
  EXPECT_FALSE(contains(run.out, "other programs")) << run.out;
  EXPECT_TRUE(contains(run.out, "of the peak FMA rate; 1 is the floor")) << run.out;
  EXPECT_TRUE(contains(run.out, "1 is the floor. FMAs are no floor of exact-1\n")) << run.out;
  const Json runs = Json::parse(read_whole_file(path))["runs"];
  EXPECT_GT(runs[0]["rows"][0]["fma_fraction"].get<double>(), 0.0);
  EXPECT_TRUE(runs[1]["rows"][0]["fma_fraction"].is_null()) << runs[1];
}

}  // namespace
}  // namespace reprofuse
