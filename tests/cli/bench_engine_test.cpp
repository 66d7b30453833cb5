// reprofuse bench engine as a user meets it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/run_cli.hpp"

namespace reprofuse {
namespace {

using Json = nlohmann::ordered_json;

std::string engine_arguments(const std::string& more) {
  return std::string("bench engine --model '") + REPROFUSE_BUNDLED_MODEL + "' --threads 1 --prompt 20 " + more;
}

TEST(BenchEngineCommand, MeasuresEveryNumericsAtEveryBatchAndWritesThemAsJson) {
  const TemporaryFolder folder;
  const std::string path = folder.file("engine.json");
  const Finished run =
      reprofuse(engine_arguments("--tokens 12 --batch 1,3 --numerics exact-1,fma-1 --json '" + path + "'"));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "arithmetic-7m on cpu ")) << run.out;
  EXPECT_TRUE(contains(run.out, "each a prompt of 20 tokens and an answer of 12, up to 512 tokens in a pass"))
      << run.out;
  EXPECT_TRUE(contains(run.out, "outside: the part of a step that is not the model's; below 0 where")) << run.out;
  EXPECT_FALSE(contains(run.out, "Times the tokens/s of layercast")) << "which was not asked for: " << run.out;
  const Json json = Json::parse(read_whole_file(path));
  EXPECT_EQ(json["version"], REPROFUSE_VERSION);
  EXPECT_EQ(json["prompt"], 20);
  ASSERT_EQ(json["rows"].size(), 4U);
  const std::vector<std::pair<std::string, int>> expected = {
      {"exact-1", 1}, {"exact-1", 3}, {"fma-1", 1}, {"fma-1", 3}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Json& row = json["rows"][i];
    EXPECT_EQ(row["numerics"], expected[i].first);
    EXPECT_EQ(row["batch"], expected[i].second);
    EXPECT_EQ(row["output_tokens"], 12 * expected[i].second);
    EXPECT_NEAR(row["tokens_per_second"].get<double>() * row["seconds"].get<double>(), row["output_tokens"], 1e-6);
    EXPECT_TRUE(row["pins_bits"].get<bool>());
    EXPECT_TRUE(row["times_baseline"].is_null());
    EXPECT_GT(row["decode_pass"]["tokens_per_second"].get<double>(), 0.0);
    EXPECT_GT(row["model_step_s"].get<double>(), 0.0);
    EXPECT_GT(row["prefill_tokens_per_second"].get<double>(), 0.0);
    EXPECT_GT(row["first_token_s"].get<double>(), 0.0);
    EXPECT_EQ(row["compared_answers"], expected[i].second == 1 ? 0 : 1);
    EXPECT_EQ(row["changed_answers"], 0) << row;
  }
}

TEST(BenchEngineCommand, TheBaselineIsComparedWithWhereverItStandsInTheList) {
  const TemporaryFolder folder;
  const std::string path = folder.file("engine.json");
  const Finished run =
      reprofuse(engine_arguments("--tokens 12 --batch 2 --numerics fma-1,layercast --json '" + path + "'"));
  if (run.status == 1 && contains(run.err, "OpenBLAS")) GTEST_SKIP() << run.err;
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "Times the tokens/s of layercast\nbatch              2\nfma-1")) << run.out;
  const Json json = Json::parse(read_whole_file(path)), &rows = json["rows"];
  EXPECT_EQ(json["baseline"], "layercast");
  EXPECT_FALSE(rows[1]["pins_bits"].get<bool>());
  EXPECT_DOUBLE_EQ(rows[0]["times_baseline"].get<double>(),
                   rows[0]["tokens_per_second"].get<double>() / rows[1]["tokens_per_second"].get<double>());
  EXPECT_EQ(rows[1]["times_baseline"], 1.0);
}

TEST(BenchEngineCommand, ATextLongerThanTheModelAllowsIsRefusedBeforeAnythingIsPrinted) {
  const Finished run = reprofuse(engine_arguments("--batch 1 --tokens 1005"));
  EXPECT_EQ(run.status, 1);
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(run.err, "reprofuse: a prompt of 20 tokens and an answer of 1005 do not fit into the 1024 of the model\n");
}

}  // namespace
}  // namespace reprofuse
