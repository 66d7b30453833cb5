#include "study/plot_svg.hpp"

#include <gtest/gtest.h>

#include <regex>

#include "reprofuse/error.hpp"
#include "study/bench/linear.hpp"

namespace reprofuse::study {
namespace {

Plot example() {
  return {.title = "A & B",
          .x_label = "M, rows",
          .y_label = "time, us",
          .panels = {{"one", {{"ours", {{1, 10}, {10, 100}, {100, 1000}}}, {"floor", {{1, 5}, {100, 5}}, true}}},
                     {"two", {{"theirs", {{1, 20}, {10, 30}}}}}}};
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(PlotSvg, HasALabelOnEveryAxisAndALegendEntryPerName) {
  const std::string svg = to_svg(example());
  EXPECT_EQ(count(svg, ">M, rows</text>"), 2U);
  EXPECT_EQ(count(svg, ">time, us</text>"), 2U);
  EXPECT_NE(svg.find(">A &amp; B</text>"), std::string::npos);
  for (const char* name : {">ours</text>", ">theirs</text>", ">floor</text>"}) EXPECT_EQ(count(svg, name), 1U) << name;
}

TEST(PlotSvg, AsksNothingOfTheNetworkAndKnowsTheDark) {
  const std::string svg = to_svg(example());
  EXPECT_EQ(count(svg, "http"), 1U) << "the namespace of SVG alone";
  for (const char* asks : {"href", "url(", "@import", "<script", "@font-face"}) EXPECT_EQ(count(svg, asks), 0U) << asks;
  EXPECT_EQ(count(svg, "prefers-color-scheme: dark"), 1U);
}

TEST(PlotSvg, EqualFactorsAreEqualDistances) {
  const std::string svg = to_svg(example());
  std::smatch match;
  const std::regex line("class=\"line c0\" d=\"M([0-9.]+) ([0-9.]+)L([0-9.]+) ([0-9.]+)L([0-9.]+) ([0-9.]+)\"");
  ASSERT_TRUE(std::regex_search(svg, match, line));
  const auto at = [&](int i) { return std::stod(match[static_cast<std::size_t>(i)]); };
  EXPECT_NEAR(at(3) - at(1), at(5) - at(3), 0.2);
  EXPECT_NEAR(at(2) - at(4), at(4) - at(6), 0.2);
  EXPECT_GT(at(2), at(4)) << "larger values stand higher";
}

TEST(PlotSvg, FloorsAreDashedAndWithoutMarks) {
  Plot plot = example();
  plot.panels = {{"one", {{"floor", {{1, 5}, {100, 5}}, true}}}};
  const std::string svg = to_svg(plot);
  EXPECT_EQ(count(svg, "class=\"mark"), 0U);
  EXPECT_EQ(count(svg, "class=\"floor f0\""), 2U) << "in the panel and in the legend";
}

TEST(PlotSvg, WhatCannotBeDrawnIsAnError) {
  Plot plot = example();
  plot.panels[0].lines[0].points[0].y = 0;
  EXPECT_THROW(to_svg(plot), Error);
  plot.panels[0].lines = {};
  EXPECT_THROW(to_svg(plot), Error);
  plot.panels = {};
  EXPECT_THROW(to_svg(plot), Error);
}

BenchRow row_of(const BenchShape& shape, std::int64_t m, const std::string& numerics, double seconds) {
  return {.shape = shape,
          .m = m,
          .weights = DType::kBF16,
          .linear = {numerics, "scalar", {seconds, seconds, seconds}, 0},
          .read = {{1e-3, 1e-3, 1e-3}, 8'000'000},
          .peak_gigaflops = 16,
          .baselines = {{"layercast", "openblas", {3e-3, 3e-3, 3e-3}, 0}}};
}

TEST(BenchLinearPlot, HasALinePerNumericsAndTheTwoFloors) {
  const BenchShape shape{"a", 1000, 2000};  // 4 MB of weights: half of what was read in a millisecond
  const BenchRow rows[] = {row_of(shape, 8, "fma-1", 2e-3), row_of(shape, 1, "fma-1", 1e-3),
                           row_of(shape, 1, "exact-1", 4e-3)};
  const Plot plot = plot_linear(rows, "cpu");
  ASSERT_EQ(plot.panels.size(), 1U);
  std::vector<std::string> names;
  for (const PlotLine& line : plot.panels[0].lines) names.push_back(line.name);
  EXPECT_EQ(names, (std::vector<std::string>{"fma-1", "layercast", "memory floor", "FMA floor", "exact-1"}));
  const auto& lines = plot.panels[0].lines;
  ASSERT_EQ(lines[0].points.size(), 2U);
  EXPECT_EQ(lines[0].points[0].x, 1) << "sorted by M";
  EXPECT_DOUBLE_EQ(lines[0].points[0].y, 1000);
  EXPECT_DOUBLE_EQ(lines[2].points[0].y, 500);
  EXPECT_DOUBLE_EQ(lines[3].points[1].y, 2000) << "32 million operations at 16 Gflop/s";
  EXPECT_TRUE(lines[2].is_floor && lines[3].is_floor && !lines[4].is_floor);
  EXPECT_EQ(lines[1].points.size(), 2U) << "a baseline measured beside both contracts is drawn once";
}

TEST(BenchLinearPlot, AForwardIsAPanelOfItsOwn) {
  std::vector<BenchRow> rows;
  for (const BenchShape& shape : parse_bench_shapes("llama-3.2-3b")) rows.push_back(row_of(shape, 1, "fma-1", 1e-3));
  const Plot plot = plot_linear(rows, "cpu");
  ASSERT_EQ(plot.panels.size(), 6U);
  EXPECT_EQ(plot.panels[5].title, "llama-3.2-3b: 28 layers and head");
  EXPECT_NEAR(plot.panels[5].lines[0].points[0].y, (28 * 4 + 1) * 1000.0, 1e-6);
}

}  // namespace
}  // namespace reprofuse::study
