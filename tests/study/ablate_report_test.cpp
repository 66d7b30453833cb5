#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "study/ablation/ablate.hpp"

namespace reprofuse::study {
namespace {

Experiment example() {
  return {.rule = "r9",
          .title = "R9: <rules> & \"more\"",
          .machine = "cpu scalar, 1 thread",
          .analogue = "a stand-in",
          .claims = {{"it holds", true}, {"it breaks", false}},
          .tables = {{.title = "A table",
                      .columns = {"name", "count", "ratio"},
                      .rows = {{"a", std::int64_t{12}, 0.5}, {"long", std::int64_t{3}, 1234.5678}},
                      .note = "read so"}}};
}

TEST(AblationReport, MarkdownIsATableThatPeopleCanReadToo) {
  EXPECT_EQ(to_markdown(example()),
            "## R9: <rules> & \"more\"\n\ncpu scalar, 1 thread\n\nCPU analogue: a stand-in\n\n"
            "- holds: it holds\n- DOES NOT HOLD: it breaks\n\nA table\n\n"
            "| name | count | ratio    |\n|------|------:|---------:|\n"
            "| a    |    12 |      0.5 |\n| long |     3 | 1.23e+03 |\n\nread so\n");
}

TEST(AblationReport, JsonHasAnObjectPerRow) {
  const nlohmann::ordered_json json = to_json(example());
  EXPECT_EQ(json["rule"], "r9");
  EXPECT_EQ(json["claims"][1]["held"], false);
  EXPECT_EQ(json["tables"][0]["rows"][1]["name"], "long");
  EXPECT_EQ(json["tables"][0]["rows"][1]["count"], 3);
  EXPECT_EQ(json["tables"][0]["rows"][1]["ratio"], 1234.5678);
}

TEST(AblationReport, HtmlEscapesTextAndAsksNothingOfTheNetwork) {
  const Experiment experiment = example();
  const std::string page = to_html(std::span(&experiment, 1), "1.2.3");
  EXPECT_NE(page.find("R9: &lt;rules&gt; &amp; &quot;more&quot;"), std::string::npos);
  EXPECT_NE(page.find("<strong>DOES NOT HOLD</strong> it breaks"), std::string::npos);
  EXPECT_NE(page.find("<td class=\"number\">1.23e+03</td>"), std::string::npos);
  for (const char* asks : {"http", "src=", "href=", "@import", "url(", "<script"})
    EXPECT_EQ(page.find(asks), std::string::npos) << asks;
}

TEST(AblationReport, WhatWasNotMeasuredIsADash) {
  EXPECT_EQ(to_text(std::numeric_limits<double>::quiet_NaN()), "-");
}

TEST(AblationReport, OneBrokenClaimIsEnough) {
  Experiment experiment = example();
  EXPECT_FALSE(all_claims_hold(std::span(&experiment, 1)));
  experiment.claims.pop_back();
  EXPECT_TRUE(all_claims_hold(std::span(&experiment, 1)));
}

}  // namespace
}  // namespace reprofuse::study
