// Runs of a study: the file keeps what was written or says that it does not, and the metrics are those of answers whose
// differences are known.
#include "study/runs/runs.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "study/seeded/models.hpp"
#include "support/files.hpp"
#include "support/messages.hpp"

namespace reprofuse {
namespace {

using study::RunAnswer;

study::RunHeader header(std::vector<study::RunCell> cells, std::size_t problems) {
  study::RunHeader header{.version = "1",
                          .model = "a model",
                          .task = "a task",
                          .device = "a test",
                          .vendor = "a library",
                          .machine = "none",
                          .batch = 7,
                          .settings = {{"longest answer", "8"}}};
  header.cells = std::move(cells);
  for (std::size_t i = 0; i < problems; ++i) header.problems.push_back({std::to_string(i), "ab", "4"});
  return header;
}

// Answers of eight tokens, 10, 11, ..., with a margin of 1 everywhere.
RunAnswer plain_answer(std::uint32_t cell, std::uint32_t problem) {
  RunAnswer answer{.cell = cell, .problem = problem, .digest = "tree-1:00", .text = "It is 4."};
  for (int i = 0; i < 8; ++i)
    answer.steps.push_back({.token = 10 + i, .ids = {10 + i, 1, 2, 3, 4}, .logprobs = {-0.5F, -1.5F, -2, -3, -4}});
  return answer;
}

study::Run plain_run(const std::string& name, std::vector<study::RunCell> cells, std::uint32_t problems) {
  study::Run run{.name = name, .header = header(std::move(cells), problems)};
  run.seconds.assign(run.header.cells.size(), 2.0);
  for (std::uint32_t cell = 0; cell < run.header.cells.size(); ++cell)
    for (std::uint32_t problem = 0; problem < problems; ++problem)
      run.answers[{cell, problem}] = plain_answer(cell, problem);
  return run;
}

const std::vector<study::RunCell> kTwoSeeds = {{"fma-1", true, 0, "fma-1-ab-cd-1"},
                                               {"fma-1", true, 1, "fma-1-ab-cd-1"}};

TEST(CompareRuns, EqualAnswersDivergeNowhere) {
  const std::vector<study::Run> runs = {plain_run("a", kTwoSeeds, 5), plain_run("b", kTwoSeeds, 5)};
  const auto methods = study::compare_runs(runs);
  ASSERT_EQ(methods.size(), 1U);
  const study::MethodResult& method = methods[0];
  EXPECT_FALSE(method.moved());
  EXPECT_EQ(method.divergent_fraction(), 0);
  EXPECT_FALSE(method.between_runs.mean_first_index());
  EXPECT_EQ(method.between_runs.pairs, 10);   // 5 problems at 2 seeds
  EXPECT_EQ(method.between_seeds.pairs, 10);  // 5 problems in 2 runs
  EXPECT_EQ(method.between_runs.positions, 80);
  EXPECT_EQ(method.between_runs.equal_margins, 80);
  EXPECT_EQ(method.predicted, 0);
  EXPECT_EQ(method.times[0].mean_seconds, 2.0);
  EXPECT_EQ(method.times[0].tokens_per_second, 20.0);  // 5 x 8 in 2 seconds
  EXPECT_EQ(method.times[0].accuracy.right, 10);
}

TEST(CompareRuns, ContractsComeFirst) {
  const std::vector<study::Run> runs = {plain_run("a", {{"fma-1", true, 0}, {"bf16", false, 0}}, 1),
                                        plain_run("b", {{"bf16", false, 0}, {"exact-1", true, 0}}, 1)};
  std::vector<std::string> names;
  for (const study::MethodResult& method : study::compare_runs(runs)) names.push_back(method.numerics);
  EXPECT_EQ(names, (std::vector<std::string>{"fma-1", "exact-1", "bf16"}));
}

TEST(CompareRuns, CountsProblemsPairsAndWhereTheyPart) {
  std::vector<study::Run> runs = {plain_run("a", kTwoSeeds, 4), plain_run("b", kTwoSeeds, 4),
                                  plain_run("c", kTwoSeeds, 4)};
  runs[1].answers[{0, 2}].steps[3].token = 99;   // seed 0: b differs from a and c at token 3
  runs[2].answers[{1, 2}].steps.resize(6);       // seed 1: c ends early: differs from a and b at token 6
  runs[2].answers[{1, 3}].digest = "tree-1:ff";  // the same tokens, other logits
  const study::MethodResult method = study::compare_runs(runs).front();
  EXPECT_TRUE(method.moved());
  EXPECT_EQ(method.divergent_problems, 1);
  EXPECT_DOUBLE_EQ(method.divergent_fraction(), 0.25);
  EXPECT_EQ(method.between_runs.pairs, 3 * 2 * 4);
  EXPECT_EQ(method.between_runs.divergent, 4);
  EXPECT_DOUBLE_EQ(*method.between_runs.mean_first_index(), (3 + 3 + 6 + 6) / 4.0);
  EXPECT_EQ(method.between_runs.other_digests, 2);
  EXPECT_EQ(method.between_seeds.divergent, 2);      // problem 2 in b and in c
  EXPECT_EQ(method.between_seeds.other_digests, 1);  // problem 3 in c
  ASSERT_EQ(method.pairs.size(), 3U);
  EXPECT_EQ(method.pairs[0].divergence.divergent, 1);  // a, b
  EXPECT_EQ(method.pairs[1].divergence.divergent, 1);  // a, c
  EXPECT_EQ(method.pairs[2].divergence.divergent, 2);  // b, c
}

TEST(CompareRuns, OneSeedIsComparedWithTheSameSeedAlone) {
  std::vector<study::Run> runs = {plain_run("a", {{"bf16", false, 0}}, 3), plain_run("b", {{"bf16", false, 1}}, 3)};
  runs[1].answers[{0, 0}].steps[0].token = 99;
  const study::MethodResult method = study::compare_runs(runs).front();
  EXPECT_EQ(method.between_runs.pairs, 0);
  EXPECT_FALSE(method.measured);
}

// Margins uniform in (0, 1), and shifts of 0.2 everywhere: of a pair's tokens a tenth would flip.
TEST(CompareRuns, PredictsWhatIndependentMarginsAndShiftsGive) {
  constexpr std::uint32_t kProblems = 200;
  std::vector<study::Run> runs = {plain_run("a", {{"bf16", false, 0}}, kProblems),
                                  plain_run("b", {{"bf16", false, 0}}, kProblems)};
  for (std::uint32_t problem = 0; problem < kProblems; ++problem)
    for (std::size_t i = 0; i < 8; ++i) {
      const auto rank = static_cast<float>(problem * 8 + i);
      const float margin = (rank + 0.5F) / (kProblems * 8);
      runs[0].answers[{0, problem}].steps[i].logprobs = {0, -margin, -9, -9, -9};
      runs[1].answers[{0, problem}].steps[i].logprobs = {0, -margin - 0.2F, -9, -9, -9};
    }
  const study::MethodResult method = study::compare_runs(runs).front();
  // Half the margins are b's, 0.2 to 1.2: P(margin < 0.2) is 0.1 over both, and half of the shifts go the right way.
  EXPECT_NEAR(*method.flip_per_token, 0.05, 0.002);
  EXPECT_NEAR(*method.predicted, 1 - std::pow(0.95, 8), 0.01);
  EXPECT_EQ(method.measured, 0);
  EXPECT_NEAR(study::quantile(method.between_runs.shifts, 0.5), 0.2, 1e-6);
  EXPECT_NEAR(*method.tail_slope, 0.5, 0.02);  // of a's margins, a tenth is below 0.1; of b's none
  EXPECT_NEAR(static_cast<double>(method.between_runs.exposed) / static_cast<double>(method.between_runs.positions),
              0.2, 0.01);
}

TEST(CompareRuns, ACurveTellsThePartUpToEachStepOfADecade) {
  const std::vector<float> values = {0, 0, 0.01F, 0.1F, 1, 1, 5, 10};
  const study::Curve curve = study::cumulative_curve(values);
  EXPECT_EQ(curve.zero, 0.25);
  EXPECT_EQ(curve.first, -32);  // 0.01
  ASSERT_EQ(curve.values.size(), 3 * 16 + 1U);
  EXPECT_EQ(curve.values[0], 3.0 / 8);
  EXPECT_EQ(curve.values[16], 4.0 / 8);  // up to 0.1
  EXPECT_EQ(curve.values[31], 4.0 / 8);  // below 1
  EXPECT_EQ(curve.values[32], 6.0 / 8);
  EXPECT_EQ(curve.values.back(), 1);
  const std::vector<float> zeros = {0, 0};
  EXPECT_EQ(study::cumulative_curve(zeros).zero, 1);
  EXPECT_TRUE(study::cumulative_curve(zeros).values.empty());
  EXPECT_EQ(study::cumulative_curve({}).zero, 0);
}

TEST(CompareRuns, GroupsAreOfOneModelAndOneTask) {
  const auto run = [](const std::string& name, const std::string& digest, const std::string& task) {
    study::Run made = plain_run(name, kTwoSeeds, 2);
    made.header.settings["model digest"] = digest;
    made.header.task = task;
    return made;
  };
  const auto groups =
      study::compare_by_task({run("a", "1", "x"), run("b", "2", "x"), run("c", "1", "x"), run("a", "1", "y")});
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[0].runs.size(), 2U);
  EXPECT_EQ(groups[0].methods.front().between_runs.pairs, 4);
  EXPECT_EQ(groups[1].methods.front().between_runs.pairs, 0);
  EXPECT_TRUE(contains(error_of([&] {
                         study::compare_by_task({run("a", "1", "x"), run("a", "1", "x")});
                       }),
                       "a: two runs of x have this name"));
}

// The document is in the page as JSON, whatever its texts are.
TEST(ReportPage, CarriesItsDocumentAndNoTextEndsIt) {
  study::Run run = plain_run("</script><b>.run", kTwoSeeds, 2);
  run.header.model = "\xff</script>";
  const std::string page = study::report_page(study::compare_by_task({run}), {}, "1.2");
  const std::string before = R"(id="document">)";
  const std::size_t at = page.find(before) + before.size();
  const auto document = nlohmann::json::parse(page.substr(at, page.find("</script>", at) - at));
  EXPECT_EQ(document.at("version"), "1.2");
  EXPECT_EQ(document.at("groups")[0].at("model"), "\xEF\xBF\xBD</script>");
  EXPECT_EQ(document.at("groups")[0].at("runs")[0].at("name"), "</script><b>.run");
  EXPECT_EQ(document.at("groups")[0].at("methods")[0].at("curves").at("shift").at("zero"), 1);
  EXPECT_FALSE(contains(page, "src=\"")) << "a file beside the page";
  EXPECT_FALSE(contains(page, "<link"));
}

TEST(CompareRuns, IntervalsOfAccuracyAreWilsons) {
  const study::Accuracy accuracy = study::accuracy_of(50, 40);
  EXPECT_NEAR(accuracy.low, 0.6696, 1e-4);
  EXPECT_NEAR(accuracy.high, 0.8876, 1e-4);
  EXPECT_EQ(study::accuracy_of(0, 0).high, 0);
}

TEST(CompareRuns, WhatCannotBeComparedIsRefusedWithTheReason) {
  const auto refusal = [](const auto& change) {
    std::vector<study::Run> runs = {plain_run("a", kTwoSeeds, 3), plain_run("b", kTwoSeeds, 3)};
    change(runs[1]);
    return error_of([&] { study::compare_runs(runs); });
  };
  EXPECT_EQ(refusal([](study::Run&) {}), "");
  EXPECT_EQ(refusal([](study::Run& run) { run.header.settings["longest answer"] = "9"; }),
            "a and b cannot be compared: longest answer is 8 in one and 9 in the other");
  EXPECT_TRUE(
      contains(refusal([](study::Run& run) { run.header.settings["date"] = "x"; }), "date is none in one and x"));
  EXPECT_TRUE(
      contains(refusal([](study::Run& run) { run.header.problems[1].prompt_sha256 = "cd"; }), "problem 2 is '1'"));
  EXPECT_TRUE(contains(refusal([](study::Run& run) {
                         run.answers.erase({1, 2});
                       }),
                       "b: is not finished: it has 5 of 6"));
}

class RunFile : public testing::Test {
 protected:
  std::string write() {
    study::RunWriter writer(path_, header(kTwoSeeds, 2));
    for (std::uint32_t problem = 0; problem < 2; ++problem) writer.add(plain_answer(0, problem));
    writer.add_seconds(0, 1.5);
    writer.add(plain_answer(1, 0));
    return read_whole_file(path_);
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.file("a.run");
};

TEST_F(RunFile, HasWhatWasWritten) {
  write();
  const study::Run run = study::read_run(path_);
  EXPECT_EQ(run.name, "a.run");
  EXPECT_EQ(run.answers.size(), 3U);
  EXPECT_FALSE(run.complete());
  EXPECT_DOUBLE_EQ(run.seconds[0], 1.5);
  const RunAnswer& answer = run.answers.at({1, 0});
  EXPECT_EQ(answer.text, "It is 4.");
  EXPECT_EQ(answer.digest, "tree-1:00");
  ASSERT_EQ(answer.steps.size(), 8U);
  EXPECT_EQ(answer.steps[7].token, 17);
  EXPECT_EQ(answer.steps[7].logprobs[1], -1.5F);
  EXPECT_EQ(run.header.model, "a model");
  EXPECT_EQ(run.header.task, "a task");
  EXPECT_EQ(run.header.vendor, "a library");
  EXPECT_EQ(run.header.batch, 7);
  EXPECT_EQ(run.header.cells[1].seed, 1U);
  EXPECT_TRUE(run.header.cells[1].pins_bits);
  EXPECT_EQ(run.header.cells[1].fingerprint, "fma-1-ab-cd-1");
  EXPECT_EQ(study::to_json(run).at("fingerprints"), (nlohmann::json{{"fma-1", "fma-1-ab-cd-1"}}));
}

// As runs were before cells had a fingerprint. It says nothing that answers depend on and settings do not tell.
TEST_F(RunFile, OneWithoutFingerprintsIsReadAndComparedAndNotGoneOnWith) {
  const std::string kept = R"(,"fingerprint":"fma-1-ab-cd-1")";
  const std::string whole = write();
  const std::size_t first = 16, checksum = whole.find("]}", first) + 2;  // the record of the header, and where it ends
  std::string head = whole.substr(first, checksum - first);
  for (std::size_t at = 0; (at = head.find(kept)) != std::string::npos;) head.erase(at, kept.size());
  for (std::size_t i = 0; i < 4; ++i) head[1 + i] = static_cast<char>((head.size() - 5) >> 8 * i);
  Sha256 hash;
  hash.update(head.data(), head.size());
  const Sha256::Digest digest = hash.finish();
  const std::string bytes = whole.substr(0, first) + head + std::string(digest.begin(), digest.end()) +
                            whole.substr(checksum + digest.size());
  const study::Run run = study::parse_run(bytes, "old");
  EXPECT_EQ(run.answers.size(), 3U);
  EXPECT_EQ(run.header.cells[0].fingerprint, "");
  EXPECT_EQ(study::to_json(run).at("fingerprints"), nlohmann::json::object());

  study::Run old = plain_run("old", kTwoSeeds, 3);
  for (study::RunCell& cell : old.header.cells) cell.fingerprint.clear();
  EXPECT_FALSE(study::compare_runs(std::vector<study::Run>{old, plain_run("new", kTwoSeeds, 3)}).front().moved());

  write_file(path_, bytes);
  EXPECT_TRUE(contains(error_of([&] { study::RunWriter(path_, header(kTwoSeeds, 2)); }), "is a run of something else"));
}

TEST_F(RunFile, GoesOnWhereItStopped) {
  const std::string whole = write();
  write_file(path_, whole.substr(0, whole.size() - 7));  // interrupted in the middle of a record
  {
    study::RunWriter writer(path_, header(kTwoSeeds, 2));
    EXPECT_EQ(writer.done().answers.size(), 2U);
    writer.add(plain_answer(1, 0));
  }
  EXPECT_EQ(read_whole_file(path_), whole);
  EXPECT_TRUE(contains(error_of([&] { study::RunWriter(path_, header(kTwoSeeds, 3)); }), "is a run of something else"));

  std::string damaged = whole;
  damaged[whole.find("tree-1:00") - 15] = '\x7f';  // the length of the first answer, which nothing after it is lost to
  write_file(path_, damaged);
  EXPECT_TRUE(contains(error_of([&] { study::RunWriter(path_, header(kTwoSeeds, 2)); }), "is damaged: its length"));
  EXPECT_EQ(read_whole_file(path_), damaged);
}

TEST_F(RunFile, AnyFlippedByteIsAnErrorOrTheEndOfTheFile) {
  const std::string whole = write();
  const std::size_t answers = study::parse_run(whole, "x").answers.size();
  const std::size_t last = whole.rfind("tree-1:00") - 18;
  EXPECT_EQ(study::parse_run(whole.substr(0, last), "x").answers.size(), answers - 1) << "it begins there";
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string broken = whole;
    broken[at] = static_cast<char>(broken[at] ^ 0x10);
    // In the last record, a length that points beyond the end looks like a record that was cut off.
    std::size_t left = 0;
    const std::string error = error_of([&] { left = study::parse_run(broken, "x").answers.size(); });
    EXPECT_TRUE(!error.empty() || (at >= last && left < answers)) << at;
    EXPECT_TRUE(error.empty() || contains(error, "x: is no run: ") || contains(error, "is damaged: its ") ||
                contains(error, "x: is a run of another version"))
        << error;
  }
  for (std::size_t size = 0; size < whole.size(); ++size) {
    std::size_t left = 0;
    const std::string error = error_of([&] { left = study::parse_run(whole.substr(0, size), "x").answers.size(); });
    EXPECT_TRUE(!error.empty() || left < answers) << size;
  }
  EXPECT_TRUE(contains(error_of([&] { study::parse_run("reprofuse-run-2\n" + whole.substr(16), "x"); }),
                       "x: is a run of another version, 'reprofuse-run-2'; this one reads 'reprofuse-run-1'"));
  EXPECT_TRUE(contains(error_of([&] { study::parse_run("reprofuse-run-1", "x"); }), "it does not begin as one"));
}

TEST(Task, LinesArePromptsOrJson) {
  const auto plain = study::parse_task("one\n\n two \n", "t");
  ASSERT_EQ(plain.size(), 2U);
  EXPECT_EQ(plain[1].prompt, "two");
  EXPECT_EQ(plain[1].id, "3");
  const auto json = study::parse_task(R"({"id": 7, "prompt": "p", "answer": 12}
{"messages": [{"role": "user", "content": "q"}], "answer": "B", "more": 1}
{"prompt_tokens": [3, 0, 2147483647]})",
                                      "t");
  ASSERT_EQ(json.size(), 3U);
  EXPECT_EQ(json[2].tokens, (std::vector<std::int32_t>{3, 0, 2147483647}));
  EXPECT_EQ(json[0].id, "7");
  EXPECT_EQ(json[0].answer, "12");
  EXPECT_EQ(json[1].messages[0]["content"], "q");
  for (const char* wrong : {"", "\n", "{}", "{\"prompt\": 1}", "{\"prompt\": \"a\", \"messages\": []}",
                            "{\"prompt_tokens\": []}", "{\"prompt_tokens\": [-1]}", "{\"prompt_tokens\": [2147483648]}",
                            "{\"prompt_tokens\": [\"1\"]}", "{\"prompt_tokens\": [1], \"prompt\": \"a\"}",
                            "{\"prompt\":", "{\"id\": 1, \"prompt\": \"a\"}\n{\"id\": \"1\", \"prompt\": \"b\"}"})
    EXPECT_TRUE(contains(error_of([&] { study::parse_task(wrong, "t"); }), "t")) << wrong;
}

TEST(Task, KnowsARightAnswer) {
  EXPECT_TRUE(study::is_right("12 + 30 = 42.", "42"));
  EXPECT_TRUE(study::is_right("so it costs $1,250.50 in all.", "1250.5"));
  EXPECT_TRUE(study::is_right("The answer is -3", "-3"));
  EXPECT_FALSE(study::is_right("The answer is 3", "-3"));
  EXPECT_FALSE(study::is_right("42 apples and 7 pears", "42"));
  EXPECT_FALSE(study::is_right("", "42"));
  EXPECT_TRUE(study::is_right("I choose (B).", "B"));
  EXPECT_FALSE(study::is_right("BAD (C)", "B"));
  EXPECT_TRUE(study::is_right("It is Paris.", "Paris"));
}

TEST(MakeRun, EveryOrderGivesTheSameAnswersAndWhatIsThereIsNotAskedAgain) {
  const study::ModelCase spec = study::model_cases().front();
  const auto model = study::make_model(Context::cpu(), spec);
  study::RunRequest request{.prompts = {}, .max_tokens = 4, .sampling = {}, .stop_tokens = {}, .batch = 3};
  const std::vector<std::int32_t> text = study::case_tokens(spec);
  for (std::ptrdiff_t i = 0; i < 7; ++i) request.prompts.emplace_back(text.begin() + i, text.begin() + 2 * i + 2);
  const TemporaryFolder folder;
  const auto run = [&](const std::string& path, std::uint32_t cells) {
    study::RunWriter writer(path, header(kTwoSeeds, 7));
    for (std::uint32_t cell = 0; cell < cells; ++cell) study::make_cell(writer, cell, *model, request, nullptr, {});
  };
  run(folder.file("a"), 1);
  std::filesystem::resize_file(folder.file("a"), std::filesystem::file_size(folder.file("a")) - 600);
  run(folder.file("a"), 2);
  run(folder.file("b"), 2);
  const std::vector<study::Run> runs = {study::read_run(folder.file("a")), study::read_run(folder.file("b"))};
  const study::MethodResult method = study::compare_runs(runs).front();
  EXPECT_FALSE(method.moved());
  EXPECT_EQ(method.between_runs.pairs, 14);
  EXPECT_EQ(method.between_seeds.positions, 2 * 7 * 4);

  const std::vector<std::uint32_t> order = study::arrival_order(1, 7);
  EXPECT_EQ(std::set<std::uint32_t>(order.begin(), order.end()).size(), 7U);
  EXPECT_NE(order, study::arrival_order(0, 7));
  EXPECT_NE(order, study::arrival_order(2, 7));
}

}  // namespace
}  // namespace reprofuse
