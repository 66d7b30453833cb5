// JSON files are read strictly, and in linear time whatever they hold.
#include "base/json.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "support/messages.hpp"

namespace reprofuse {
namespace {

std::string repeated(const std::string& text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

std::string list_of(const std::string& entry, std::size_t entries) {
  return "[" + repeated(entry + ",", entries - 1) + entry + "]";
}

// The least of three tries, in processor time.
double seconds_for(const std::string& text, const std::function<void(const std::string&)>& parse) {
  double least = 1e9;
  for (int i = 0; i < 3; ++i) {
    const std::clock_t begin = std::clock();
    parse(text);
    least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return least;
}

// How much longer eight times the entries take.
double growth(const std::string& entry, std::size_t entries, const std::function<void(const std::string&)>& parse) {
  return seconds_for(list_of(entry, 8 * entries), parse) / seconds_for(list_of(entry, entries), parse);
}

TEST(ParseJson, GivesTheValueThatTheTextHolds) {
  const std::string text = R"({"a": [1, -2, 3.5, true, null, {}, []], "b": {"c": "d", "a": [{"x": [[]]}]}})";
  EXPECT_EQ(parse_json(text, "f"), nlohmann::json::parse(text));
  for (const std::string value : {"1", "\"x\"", "[]", "null"})
    EXPECT_EQ(parse_json(value, "f"), nlohmann::json::parse(value)) << value;
  EXPECT_NE(parse_json("[1, 2]", "f"), nlohmann::json::parse("[2, 1]"));
}

TEST(ParseJson, RefusesWhatWouldBePassedOver) {
  EXPECT_EQ(error_of([] { parse_json(R"({"a": {"b": 1, "b": 2}})", "f"); }), "f: key 'b' is given twice");
  EXPECT_EQ(error_of([] { parse_json(R"([{"b": 1}, {"b": 2}])", "f"); }), "");
  EXPECT_EQ(error_of([] { parse_json(std::string("{}\0{}", 5), "f"); }), "f: byte 3 is zero");
  for (const std::string text : {"", "{", "[1,]", "{} x", "1e999"})
    EXPECT_THROW(parse_json(text, "f"), nlohmann::json::exception) << text;
}

TEST(ParseJson, HasLimits) {
  const JsonLimits limits = {.depth = 3, .values = 6};
  EXPECT_EQ(error_of([&] { parse_json("[[[]]]", "f", limits); }), "");
  EXPECT_EQ(error_of([&] { parse_json("[[[[]]]]", "f", limits); }), "f: nested deeper than 3 levels");
  EXPECT_EQ(error_of([&] { parse_json(R"({"a": {"b": [1, 2, 3]}})", "f", limits); }), "");
  EXPECT_EQ(error_of([&] { parse_json(R"({"a": {"b": [1, 2, 3, 4]}})", "f", limits); }),
            "f: has more than 6 values; the last one is in 'a.b'");
  EXPECT_EQ(error_of([&] { parse_json("[1, 2, 3, 4, 5, 6]", "f", limits); }),
            "f: has more than 6 values; it is one list");
}

// Quadratic time would grow by 64.
TEST(ParseJson, TakesTimeThatGrowsWithTheTextAlone) {
  const auto parse = [](const std::string& text) { parse_json(text, "f"); };
  for (const char* entry : {"{}", "[]", R"({"a":[{}]})", "1", R"("x")"})
    EXPECT_LT(growth(entry, 20'000, parse), 32) << entry;
}

TEST(ParseJson, TheControlThatLooksThroughListsAgainGrowsQuadratically) {
  const auto parse = [](const std::string& text) {
    const auto keep = [](int, nlohmann::json::parse_event_t, nlohmann::json&) { return true; };
    EXPECT_TRUE(nlohmann::json::parse(text, keep).is_array());
  };
  EXPECT_GT(growth("{}", 2'000, parse), 32);
}

}  // namespace
}  // namespace reprofuse
