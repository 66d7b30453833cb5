// JSON files are read strictly, and in linear time whatever they hold.
#include "base/json.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <stdexcept>

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

// Memory is asked for before it is taken, and reading ends when there is none.
TEST(ParseJson, AsksItsGuard) {
  class Guard final : public ReadGuard {
   public:
    explicit Guard(std::size_t limit) : limit_(limit) {}
    void claim_memory(std::size_t bytes) override {
      taken_ += bytes;
      if (taken_ > limit_) throw std::runtime_error("no more");
    }
    std::size_t taken() const { return taken_; }

   private:
    std::size_t limit_, taken_ = 0;
  };
  std::string keys = "{\"a\":0";
  for (int i = 0; i < 20'000; ++i) keys += ",\"" + std::to_string(i) + "\":0";
  for (const std::string& text : {list_of("1", 200'000), list_of("[]", 50'000), list_of("\"x\"", 50'000), keys + "}"}) {
    Guard all(SIZE_MAX), some(1 << 20);
    parse_json(text, "f", {.guard = &all});
    EXPECT_GT(all.taken(), 5 * text.size());
    EXPECT_THROW(parse_json(text, "f", {.guard = &some}), std::runtime_error);
    EXPECT_LT(some.taken(), (1U << 20) + (1U << 17));
  }
}

TEST(Shown, IsTheBeginningOfTheValueWithStringsInSingleQuotes) {
  const auto expected = [](const nlohmann::json& value) {
    std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    if (value.is_string()) text.front() = text.back() = '\'';
    return text.size() > 80 ? text.substr(0, 80) + "..." : text;
  };
  const char* texts[] = {"", "a", "\"\\\n\x01", "\xc3\xa9", "\xf0\x9f\x98\x80", "\xff", "\xe2\x82", "\xe2\x82\xff"};
  for (const std::string text : texts)
    for (const std::size_t times : {1, 12, 13, 14, 26, 27, 39, 40, 77, 78, 79, 80, 81, 200})
      for (const char* end : {"", "z"}) {
        const std::string long_text = repeated(text, times) + end;
        EXPECT_EQ(shown(long_text), expected(long_text)) << text << " " << times;
        EXPECT_EQ(shown(std::string_view(long_text)), expected(long_text)) << text << " " << times;
        const nlohmann::json object = {{long_text, 1}, {"b", {long_text, nullptr}}};
        EXPECT_EQ(shown(object), expected(object)) << text << " " << times;
      }
  for (const char* text : {"null", "true", "-7", "18446744073709551615", "0.1", "-0.0", "1e+300", "[]", "{}", "[[],{}]",
                           R"({"z":[1,2,{"y":"x"}],"a":{}})"}) {
    EXPECT_EQ(shown(nlohmann::json::parse(text)), expected(nlohmann::json::parse(text)));
    EXPECT_EQ(shown(nlohmann::ordered_json::parse(text)), text) << "in its order";
  }
}

// A thousand times as long, once.
TEST(Shown, LooksAtNoMoreThanItShows) {
  const auto seconds = [](const nlohmann::ordered_json& value) {
    return seconds_for("", [&](const std::string&) {
      for (int i = 0; i < 2'000; ++i) EXPECT_EQ(shown(value).size(), 83U);
    });
  };
  for (const char* entry : {"1", "[1]", R"({"a":"b"})"})
    EXPECT_LT(seconds(nlohmann::ordered_json::parse(list_of(entry, 50'000))),
              16 * seconds(nlohmann::ordered_json::parse(list_of(entry, 50))))
        << entry;
}

}  // namespace
}  // namespace reprofuse
