// `reprofuse study` as it is used.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cli/run_cli.hpp"

namespace reprofuse {
namespace {

TEST(StudyCommand, RunsAreComparedAndAContractDoesNotMove) {
  const TemporaryFolder folder;
  const std::string task = folder.file("task.jsonl");
  write_file(task, R"({"prompt": "What is 12 + 30?", "answer": 42}
{"prompt": "What is 7 + 8?", "answer": 15}
{"prompt": "What is 20 + 1?", "answer": 21}
)");
  const std::string options = " --chat --max-tokens 24 --seeds 2 --batch 2 --numerics fma-1,exact-1 --task " + task;
  const std::string a = folder.file("a.run"), b = folder.file("b.run");
  ASSERT_EQ(reprofuse("study run --out " + a + options).status, 0);
  const Finished other = reprofuse("study run --threads 1 --out " + b + options);
  ASSERT_EQ(other.status, 0) << other.err;
  const Finished compared = reprofuse("study compare --json " + a + " " + b);
  ASSERT_EQ(compared.status, 0) << compared.err;
  const nlohmann::json result = nlohmann::json::parse(compared.out);
  for (const nlohmann::json& method : result.at("methods")) {
    EXPECT_EQ(method.at("between_runs").at("pairs"), 6);
    EXPECT_EQ(method.at("between_runs").at("divergent"), 0);
    EXPECT_EQ(method.at("between_runs").at("other_digests"), 0);
    EXPECT_EQ(method.at("between_seeds").at("equal_margins"), method.at("between_seeds").at("positions"));
    EXPECT_EQ(method.at("runs").at(0).at("right_answers"), 6);
  }
  EXPECT_TRUE(contains(reprofuse("study compare " + a + " " + b).out, "Div_Index"));

  const Finished again = reprofuse("study run --out " + a + options);
  EXPECT_EQ(again.status, 0);
  EXPECT_TRUE(contains(again.out, "12 of 12 answers are there already")) << again.out;
  const Finished longer = reprofuse("study run --out " + a + options + " --limit 2");
  EXPECT_EQ(longer.status, 1);
  EXPECT_TRUE(contains(longer.err, "is a run of something else")) << longer.err;
}

TEST(StudyCommand, WhatMakesNoSenseIsRefused) {
  const TemporaryFolder folder;
  EXPECT_EQ(reprofuse("study").status, 2);
  EXPECT_EQ(reprofuse("study run --task x").status, 2);
  EXPECT_EQ(reprofuse("study compare").status, 2);
  EXPECT_EQ(reprofuse("study run --task x --out y --seeds 0").status, 2);
  const Finished none = reprofuse("study run --task " + folder.file("none") + " --out " + folder.file("y"));
  EXPECT_EQ(none.status, 1);
  EXPECT_TRUE(contains(none.err, "none: cannot be read")) << none.err;
  write_file(folder.file("x.run"), "no run");
  EXPECT_TRUE(contains(reprofuse("study compare " + folder.file("x.run")).err, "x.run: is no run"));
}

TEST(StudyMemoryCommand, WhatMakesNoSenseIsRefused) {
  const struct {
    const char* options;
    const char* message;
  } cases[] = {{"--shape llama-9b", "--shape: 'llama-9b' is not one of llama-3.2-1b, "},
               {"--budget 24GB", "--budget: '24GB' is not a number of bytes, or of KiB, MiB, GiB or TiB, above 0"},
               {"--budget 0", "--budget: '0' is not a number of bytes"},
               {"--budget 99999999TiB", "--budget: '99999999TiB' is not a number of bytes"},
               {"--numerics fma-0", "--numerics: 'fma-0' is not one of fma-1, "}};
  for (const auto& [options, message] : cases) {
    const Finished run = reprofuse(std::string("study memory ") + options);
    EXPECT_EQ(run.status, 2) << options;
    EXPECT_TRUE(contains(run.err, message)) << run.err;
  }
}

}  // namespace
}  // namespace reprofuse
