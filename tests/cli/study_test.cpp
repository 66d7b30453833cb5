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
  const std::string options = " --chat --max-tokens 24 --seeds 2 --numerics fma-1,exact-1 --task " + task;
  const std::string a = folder.file("a.run"), b = folder.file("b.run");
  ASSERT_EQ(reprofuse("study run --batch 2 --out " + a + options).status, 0);
  const Finished other = reprofuse("study run --threads 1 --batch 3 --out " + b + options);
  ASSERT_EQ(other.status, 0) << other.err;
  const Finished compared = reprofuse("study compare --json " + a + " " + b);
  ASSERT_EQ(compared.status, 0) << compared.err;
  const nlohmann::json result = nlohmann::json::parse(compared.out);
  EXPECT_EQ(result.at("runs").at(1).at("name"), "b.run");
  EXPECT_TRUE(contains(result.at("runs").at(1).at("device").get<std::string>(), ", 1 thread"));
  EXPECT_EQ(result.at("runs").at(1).at("batch"), 3);
  for (const nlohmann::json& method : result.at("methods")) {
    EXPECT_EQ(method.at("between_runs").at("pairs"), 6);
    EXPECT_EQ(method.at("between_runs").at("divergent"), 0);
    EXPECT_EQ(method.at("between_runs").at("other_digests"), 0);
    EXPECT_EQ(method.at("between_seeds").at("equal_margins"), method.at("between_seeds").at("positions"));
    EXPECT_EQ(method.at("runs").at(0).at("right_answers"), 6);
  }
  EXPECT_TRUE(contains(reprofuse("study compare " + a + " " + b).out, "Div_Index"));

  const std::string page = folder.file("report.html");
  const Finished report = reprofuse("study report --out " + page + " " + a + " " + b);
  EXPECT_EQ(report.status, 0) << report.err;
  EXPECT_TRUE(contains(read_whole_file(page), R"("task":"task")"));
  const std::string c = folder.file("c.run");
  ASSERT_EQ(reprofuse("study run --out " + c + options + " --limit 2").status, 0);
  const Finished other_problems = reprofuse("study report --out " + page + " " + a + " " + c);
  EXPECT_EQ(other_problems.status, 1);
  EXPECT_TRUE(contains(other_problems.err, "a.run and c.run cannot be compared: they have 3 and 2 problems"))
      << other_problems.err;

  const Finished again = reprofuse("study run --batch 2 --out " + a + options);
  EXPECT_EQ(again.status, 0);
  EXPECT_TRUE(contains(again.out, "12 of 12 answers are there already")) << again.out;
  const Finished longer = reprofuse("study run --batch 2 --out " + a + options + " --limit 2");
  EXPECT_EQ(longer.status, 1);
  EXPECT_TRUE(contains(longer.err, "is a run of something else")) << longer.err;
}

// A build without a tokenizer can answer prompts that are ids, and its run is one of the same prompts.
TEST(StudyCommand, PromptsMayBeIds) {
  const TemporaryFolder folder;
  const std::string text = folder.file("text.jsonl"), ids = folder.file("ids.jsonl");
  write_file(text, R"({"id": "x", "prompt": "What is 12 + 30?"})");
  const Finished tokens = reprofuse("generate --chat --max-tokens 1 --jsonl " + text);
  ASSERT_EQ(tokens.status, 0) << tokens.err;
  const nlohmann::json prompt = nlohmann::json::parse(tokens.out).at("prompt_tokens");
  write_file(ids, nlohmann::json{{"id", "x"}, {"prompt_tokens", prompt}}.dump());
  const std::string a = folder.file("a.run"), b = folder.file("b.run"), options = " --max-tokens 24 --seeds 1";
  ASSERT_EQ(reprofuse("study run --chat --task " + text + " --out " + a + options).status, 0);
  const Finished run = reprofuse("study run --task " + ids + " --out " + b + options);
  ASSERT_EQ(run.status, 0) << run.err;
  const Finished compared = reprofuse("study compare --json " + a + " " + b);
  EXPECT_EQ(compared.status, 0) << compared.err;
  EXPECT_EQ(nlohmann::json::parse(compared.out).at("methods").at(0).at("between_runs").at("pairs"), 1);
}

TEST(StudyCommand, TheDemoWritesAReportOfFourPlatformsAndTwoTasks) {
  const TemporaryFolder folder;
  const Finished demo = reprofuse("study demo --problems 2 --out " + folder.file("demo"));
  ASSERT_EQ(demo.status, 0) << demo.err;
  EXPECT_TRUE(contains(demo.out, "demo/report.html")) << demo.out;
  const std::string page = read_whole_file(folder.file("demo/report.html"));
  const std::string before = R"(id="document">)";
  const std::size_t at = page.find(before) + before.size();
  const auto groups = nlohmann::json::parse(page.substr(at, page.find("</script>", at) - at)).at("groups");
  ASSERT_EQ(groups.size(), 2U);
  for (const nlohmann::json& group : groups) {
    EXPECT_EQ(group.at("model"), "arithmetic-7m");
    EXPECT_EQ(group.at("runs").size(), 4U);
    EXPECT_GE(group.at("methods").size(), 2U);  // the contracts, and the baselines where OpenBLAS is
    EXPECT_EQ(group.at("methods")[0].at("between_runs").at("pairs"), 6 * 2 * 2);  // of runs, seeds, problems
    EXPECT_EQ(group.at("methods")[0].at("moved"), false);
  }
  EXPECT_EQ(reprofuse("study demo --problems 0").status, 2);
}

TEST(StudyCommand, WhatMakesNoSenseIsRefused) {
  const TemporaryFolder folder;
  EXPECT_EQ(reprofuse("study").status, 2);
  EXPECT_EQ(reprofuse("study run --task x").status, 2);
  EXPECT_EQ(reprofuse("study compare").status, 2);
  EXPECT_EQ(reprofuse("study report --out " + folder.file("y")).status, 2);
  EXPECT_EQ(reprofuse("study report x.run").status, 2);
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
