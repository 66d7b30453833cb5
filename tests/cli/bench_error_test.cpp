// reprofuse bench error as a user meets it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cli/run_cli.hpp"
#include "reprofuse/context.hpp"

namespace reprofuse {
namespace {

using Json = nlohmann::ordered_json;

TEST(BenchErrorCommand, WritesTheSeededRowsAndTheModels) {
  const TemporaryFolder folder;
  const std::string path = folder.file("error.json");
  const Finished run = reprofuse("bench error --k 96 --numerics fma-1 --threads 2 --json '" + path + "'");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "Relative rms error against exact sums on cpu ")) << run.out;
  EXPECT_TRUE(contains(run.out, "one of 1000 sigma Gaussian, 0 there    96 ")) << run.out;
  const Json json = Json::parse(read_whole_file(path));
  EXPECT_EQ(json["version"], REPROFUSE_VERSION);
  ASSERT_EQ(json["seeded"].size(), 9U);
  for (const Json& row : json["seeded"]) {
    EXPECT_EQ(row["k"], 96);
    EXPECT_EQ(row["outputs"], 2048);
    EXPECT_LT(row["errors"]["fma-1"]["rms"].get<double>(), 1e-6) << row;
    EXPECT_GT(row["errors"]["fma-1"]["rms"].get<double>(), 1e-8) << row;
  }
#if REPROFUSE_HAVE_TEXT
  EXPECT_TRUE(contains(run.out, "arithmetic-7m, its own activations and weights, a prompt of 43 tokens")) << run.out;
  EXPECT_EQ(json["model"].size(), 8U);
  for (const Json& row : json["model"]) EXPECT_LT(row["errors"]["fma-1"]["worst_row"].get<double>(), 1e-5) << row;
#else
  EXPECT_TRUE(contains(run.out, "arithmetic-7m is left out: ")) << run.out;
#endif
}

TEST(BenchErrorCommand, TheTableOfContractsIsTheSameForEveryIsa) {
  std::string first;
  for (const Isa isa : supported_isas()) {
    Finished run = reprofuse("bench error --k 600 --numerics fma-1,exact-1 --isa " + std::string(isa_name(isa)));
    ASSERT_EQ(run.status, 0) << run.err;
    run.out.erase(0, run.out.find('\n'));  // names the instruction set
    if (first.empty()) first = run.out;
    EXPECT_EQ(run.out, first) << isa_name(isa);
  }
}

TEST(BenchErrorCommand, WhatMakesNoSenseIsRefused) {
  EXPECT_EQ(reprofuse("bench error --k 0").status, 2);
  EXPECT_EQ(reprofuse("bench error --k 64 --numerics fma-9").status, 2);
  const Finished run = reprofuse("bench error --k 64 --json /nowhere/error.json");
  EXPECT_EQ(run.status, 1);
  EXPECT_EQ(run.err, "reprofuse: /nowhere/error.json: cannot be written: No such file or directory\n");
}

TEST(BenchErrorCommand, SumsTooLongForOneOfTheNumericsAreRefusedBeforeAnythingIsPrinted) {
  for (const char* numerics : {"", " --numerics fma-1,exact-1"}) {
    const Finished run = reprofuse(std::string("bench error --k 64,200000") + numerics);
    EXPECT_EQ(run.status, 2);
    EXPECT_EQ(run.out, "");
    EXPECT_TRUE(contains(run.err, "--k: 200000 is above 131072, the longest sum of exact-1")) << run.err;
  }
}

}  // namespace
}  // namespace reprofuse
