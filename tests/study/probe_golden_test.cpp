#include <gtest/gtest.h>

#include <algorithm>

#include "ops/contract.hpp"
#include "reprofuse/error.hpp"
#include "study/probe/probe.hpp"
#include "support/files.hpp"
#include "support/messages.hpp"

namespace reprofuse::study {
namespace {

const Golden kGolden{"fma-1",
                     {{{"first", 1, 2, 3, DType::kF16, true, 16}, std::string(64, 'a')},
                      {{"second", 4, 5, 6, DType::kF32, false, 32}, std::string(64, 'b')}}};

std::string parse_error(const std::string& json) {
  return error_of([&] { parse_golden(json, "some.json"); });
}

TEST(ProbeGolden, SurvivesWritingAndReading) {
  const TemporaryFolder folder;
  const std::string path = folder.file("golden.json");
  write_golden(path, kGolden);
  const Golden read = read_golden(path);
  EXPECT_EQ(read.contract, "fma-1");
  ASSERT_EQ(read.cases.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read.cases[i].spec, kGolden.cases[i].spec);
    EXPECT_EQ(read.cases[i].sha256, kGolden.cases[i].sha256);
  }
}

TEST(ProbeGolden, IsNeverOverwritten) {
  const TemporaryFolder folder;
  const std::string path = folder.file("golden.json");
  write_file(path, "kept");
  EXPECT_THROW(write_golden(path, kGolden), Error);
  EXPECT_EQ(read_whole_file(path), "kept");
}

TEST(ProbeGolden, HoldsOneCasePerLine) {
  const std::string json = to_json(kGolden);
  EXPECT_NE(json.find("\n  {\"name\":\"first\",\"m\":1,\"n\":2,\"k\":3,\"weights\":\"f16\",\"bias\":true,\"seed\":16,"),
            std::string::npos)
      << json;
  EXPECT_EQ(std::count(json.begin(), json.end(), '\n'), 5);
}

TEST(ProbeGolden, TheCommittedFilesAreWhatTheProbeWouldWrite) {
  for (const Numerics& contract : contracts()) {
    EXPECT_EQ(to_json(parse_golden(golden_file(contract.linear->name), contract.name)),
              golden_file(contract.linear->name))
        << contract.name;
  }
}

TEST(ProbeGolden, ModelsHaveDigestsUnderEveryContractAndUnderNothingElse) {
  for (const Numerics& contract : contracts())
    EXPECT_EQ(parse_model_golden({}, contract.name).size(), contract.draft ? 0 : model_cases().size()) << contract.name;
  EXPECT_TRUE(parse_model_golden({}, "bf16").empty());
}

TEST(ProbeGolden, BadFilesAreNamed) {
  EXPECT_EQ(parse_error("{").find("some.json: "), 0U);
  EXPECT_NE(parse_error(R"({"cases": []})").find("contract"), std::string::npos);
  EXPECT_NE(parse_error(R"({"contract": "fma-1", "cases": [{"name": "a"}]})").find("'m'"), std::string::npos);
  EXPECT_NE(parse_error(R"({"contract": "fma-1", "cases": [{"name": "a", "m": 1, "n": 1, "k": 1, "weights": "f64",
                      "bias": false, "seed": 1, "sha256": ""}]})")
                .find("weights 'f64'"),
            std::string::npos);
  EXPECT_THROW(read_golden("/nowhere/golden.json"), Error);
}

}  // namespace
}  // namespace reprofuse::study
