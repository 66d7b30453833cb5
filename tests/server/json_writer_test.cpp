// What is written is what nlohmann's dump() would write of the same values.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "server/openai/json.hpp"

namespace reprofuse::server {
namespace {

using Json = nlohmann::ordered_json;

template <typename Value>
std::string written(const Value& value) {
  std::string text;
  JsonWriter(text).value(value);
  return text;
}

std::string dumped(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

TEST(JsonWriter, EveryByteAndEveryPairOfBytesIsWrittenAsDumpDoes) {
  for (int first = 0; first < 256; ++first) {
    ASSERT_EQ(written(std::string(1, static_cast<char>(first))), dumped(std::string(1, static_cast<char>(first))));
    for (int second = 0; second < 256; ++second) {
      const std::string pair = {static_cast<char>(first), static_cast<char>(second)};
      ASSERT_EQ(written(pair), dumped(pair)) << first << " " << second;
      ASSERT_EQ(written("\xf0" + pair + "a"), dumped("\xf0" + pair + "a")) << first << " " << second;
    }
  }
}

// Of bytes that begin, go on with, or break off characters, so that most texts are broken in some way.
TEST(JsonWriter, BrokenTextIsReplacedAsDumpDoes) {
  constexpr std::string_view kBytes =
      "a\"\\\n\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc2\xdf\xe0\xe1\xed\xef\xf0\xf1\xf4\xf5\xff";
  std::mt19937 random(1);
  int replaced = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string text(random() % 12, ' ');
    for (char& byte : text) byte = kBytes[random() % kBytes.size()];
    ASSERT_EQ(written(text), dumped(text));
    replaced += written(text).find("\xef\xbf\xbd") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(replaced, 100'000);
}

TEST(JsonWriter, NumbersHaveTheDigitsThatDumpGivesThem) {
  for (const double value : {0.0, -0.0, 1.0, -1.0, 1e15, 1e16, 1e-4, 1e-5, 123456.75, 5e-324, 1.7976931348623157e308,
                             -14.802810668945313, -9999.0})
    EXPECT_EQ(written(value), dumped(value));
  EXPECT_EQ(written(std::numeric_limits<double>::infinity()), "null");
  std::mt19937_64 random(1);
  for (int i = 0; i < 500'000; ++i) {
    const auto any = std::bit_cast<double>(random());
    ASSERT_EQ(written(any), dumped(any));
    const auto logprob = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    ASSERT_EQ(written(static_cast<double>(logprob)), dumped(static_cast<double>(logprob)));
    const auto integer = static_cast<std::int64_t>(random()) >> (i % 64);
    ASSERT_EQ(written(integer), dumped(integer));
  }
}

TEST(JsonWriter, ObjectsAndArraysNestAndCommasStandBetween) {
  const std::string text = json_object([](JsonWriter& json) {
    json.field("a", true).field("b", nullptr).field("c", std::optional<int>()).field("d", std::optional<int>(7));
    json.key("e").array([] {});
    json.key("f").array(
        [&] { json.value(1).object([] {}).object([&] { json.field("g", "h\n"); }).raw("[2,3]").value(-1.5); });
    json.key("i").object([&] { json.field("j", std::vector<std::string>{"k", "l"}); });
    json.field("m\"", UINT64_MAX);
  });
  EXPECT_EQ(text, R"({"a":true,"b":null,"c":null,"d":7,"e":[],"f":[1,{},{"g":"h\n"},[2,3],-1.5],"i":{"j":["k","l"]},)"
                  R"("m\"":18446744073709551615})");
}

}  // namespace
}  // namespace reprofuse::server
