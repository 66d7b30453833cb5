// What the benchmarks say to a command line that makes no sense: the mistake and the way out, on stderr, with status 2.
#include <gtest/gtest.h>

#include <string>

#include "cli/run_cli.hpp"

namespace reprofuse {
namespace {

struct Mistake {
  std::string arguments;
  std::string answer;
};

void expect_usage_errors(std::initializer_list<Mistake> mistakes) {
  for (const Mistake& mistake : mistakes) {
    const Finished run = reprofuse(mistake.arguments);
    EXPECT_EQ(run.status, 2) << mistake.arguments;
    EXPECT_EQ(run.out, "") << mistake.arguments;
    EXPECT_TRUE(contains(run.err, mistake.answer)) << mistake.arguments << ": " << run.err;
    EXPECT_TRUE(contains(run.err, "\nTry 'reprofuse bench")) << run.err;
  }
}

TEST(BenchUsage, AMistypedBenchmarkIsNamedWithThoseThereAre) {
  expect_usage_errors({{"bench liner", "there is no bench 'liner'; there are linear, model, engine, error"},
                       {"bench liner --m 1", "there is no bench 'liner'"},
                       {"bench", "bench needs a command: linear, model, engine, error"}});
}

TEST(BenchUsage, AMistypedOptionIsNamedWithTheNearest) {
  expect_usage_errors({{"bench linear --shape 64x64 --m 1", "linear has no option '--shape'; did you mean '--shapes'?"},
                       {"bench model --shapes=llama-8b", "model has no option '--shapes'; did you mean '--shape'?"},
                       {"bench engine --bacth 1", "engine has no option '--bacth'; did you mean '--batch'?"},
                       {"bench error --frobnicate", "error has no option '--frobnicate'\n"},
                       {"bench --device cuda linear", "bench has no option '--device'"},
                       {"bench linear 64x64", "linear was given '64x64', which belongs to no option"}});
}

TEST(BenchUsage, ListsHaveNoEmptyNorEqualPlaces) {
  for (const std::string bench : {"linear", "model", "engine", "error"}) {
    const std::string command = "bench " + bench + " --numerics ";
    expect_usage_errors({{command + "fma-1,fma-1", "--numerics: 'fma-1' is given twice"},
                         {command + "fma-1,", "--numerics: 'fma-1,' has an empty place in its list"},
                         {command + "''", "--numerics: '' has an empty place in its list"},
                         {command + "fma-1 --numerics exact-1", "--numerics"},
                         {command + "fma-1,fma-9", "--numerics: 'fma-9' is not one of fma-1, "}});
  }
  expect_usage_errors({{"bench linear --m 1,1", "--m: '1' is given twice"},
                       {"bench linear --m 1,x", "--m: 'x' is not a whole number from 1 to 1048576"},
                       {"bench model --batch 0", "--batch: '0' is not a whole number from 1 to 4096"},
                       {"bench engine --batch 1,,2", "--batch: '1,,2' has an empty place in its list"},
                       {"bench error --k 64,64", "--k: '64' is given twice"}});
}

TEST(BenchUsage, AFileHasANameAndOneUse) {
  expect_usage_errors({{"bench linear --plot ''", "--plot: the name of a file is empty"},
                       {"bench linear --json ''", "--json: the name of a file is empty"},
                       {"bench linear --plot a.svg --plot b.svg", "--plot"},
                       {"bench linear --json x.svg --plot x.svg", "--json and --plot name the same file, x.svg"}});
}

TEST(BenchUsage, OptionsThatContradictEachOtherAreRefused) {
  expect_usage_errors(
      {{"bench linear --device cuda --isa scalar", "--isa and --threads go with --device cpu, not cuda"},
       {"bench model --device cuda --threads 1", "--isa and --threads go with --device cpu, not cuda"},
       {"bench model --context 131000 --steps 65",
        "--context 131000 and --steps 65, with 8 to warm up, make texts of 131073 tokens; the shapes have 131072 "
        "positions"},
       {"bench model --shape llama-9b", "--shape: 'llama-9b' is not one of llama-"},
       {"bench engine --shape llama-8b --model .", "--shape excludes --model"},
       {"bench engine --max-rows 65536", "--max-rows: '65536' is not a whole number from 1 to 65535"},
       {"bench engine --batch 1,8 --max-rows 7", "--max-rows: 7 is below the batch of 8: each answer needs a row"}});
}

TEST(BenchUsage, AFileThatCannotBeWrittenIsAnErrorBeforeAnythingIsMeasured) {
  for (const char* bench : {"model", "engine"}) {
    const Finished run = reprofuse(std::string("bench ") + bench + " --json /nowhere/bench.json");
    EXPECT_EQ(run.status, 1);
    EXPECT_EQ(run.out, "");
    EXPECT_EQ(run.err, "reprofuse: /nowhere/bench.json: cannot be written: No such file or directory\n");
  }
}

}  // namespace
}  // namespace reprofuse
