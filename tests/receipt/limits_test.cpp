// What is read before anything is known of who wrote it: in linear time, within limits, and no longer than anyone
// waits.
#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "receipt/envelope.hpp"
#include "receipt/receipt_case.hpp"
#include "support/messages.hpp"

namespace reprofuse::receipt {
namespace {

using Json = nlohmann::json;

class CountingGuard final : public ReadGuard {
 public:
  explicit CountingGuard(std::size_t limit = SIZE_MAX) : limit_(limit) {}
  void claim_memory(std::size_t bytes) override {
    taken_ += bytes;
    ++times_;
    if (taken_ > limit_) throw std::runtime_error("no more");
  }
  std::size_t taken() const { return taken_; }
  std::size_t times() const { return times_; }

 private:
  std::size_t limit_, taken_ = 0, times_ = 0;
};

class LimitsTest : public ReceiptTest {
 protected:
  Json statement() const { return Json::parse(issue(short_request({5, 6, 7})).payload); }
  static Json with_extra_keys(Json statement, int keys) {
    for (int i = 0; i < keys; ++i) statement["predicate"]["x" + std::to_string(i)] = 0;
    return statement;
  }
  static Json with_long_subject(Json statement, std::size_t entries) {
    statement["subject"] = std::vector<int>(entries, 0);
    return statement;
  }
};

TEST_F(LimitsTest, TheFirstDifferenceIsNamed) {
  const auto difference = [](const char* said, const char* written) {
    return difference_between(Json::parse(said), Json::parse(written));
  };
  const std::string in = ", and in a receipt of its answer it is ";
  EXPECT_EQ(difference("[1]", "[1]"), "its JSON is not canonical: keys in order, no white space");
  EXPECT_EQ(difference(R"({"a":{"b":[1,2]}})", R"({"a":{"b":[1,3]}})"), "'/a/b/1' is 2" + in + "3");
  EXPECT_EQ(difference(R"({"a":[1,2,3]})", R"({"a":[1]})"), "'/a/1' is 2" + in + "not there");
  EXPECT_EQ(difference(R"({"a":[1]})", R"({"a":[1,2,3]})"), "'/a/1' is not there" + in + "2");
  EXPECT_EQ(difference(R"({"a":1,"b":2})", R"({"b":2})"), "'/a' is 1" + in + "not there");
  EXPECT_EQ(difference(R"({"b":2})", R"({"a":1,"b":2})"), "'/a' is not there" + in + "1");
  EXPECT_EQ(difference(R"({"a":[]})", R"({"a":{}})"), "'/a' is []" + in + "{}");
  EXPECT_EQ(difference("1", "null"), "'' is 1" + in + "null");
}

// Quadratic time would grow by 64.
TEST_F(LimitsTest, WhatIsNoReceiptIsRefusedInLinearTime) {
  const Json honest = statement();
  const auto seconds = [&](const std::string& text) {
    double least = 1e9;
    for (int i = 0; i < 3; ++i) {
      const std::clock_t begin = std::clock();
      EXPECT_EQ(examine(text, "it", std::nullopt).report.verdict, Verdict::kSignature);
      least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    }
    return least;
  };
  const auto of_subject = [&](std::size_t size) { return sign(with_long_subject(honest, size).dump()).text(); };
  EXPECT_LT(seconds(of_subject(16'000)) / seconds(of_subject(2'000)), 32);
  const auto of_keys = [&](int keys) { return sign(with_extra_keys(honest, keys).dump()).text(); };
  EXPECT_LT(seconds(of_keys(16'000)) / seconds(of_keys(2'000)), 32);
}

TEST_F(LimitsTest, TheSignatureIsCheckedBeforeTheForm) {
  const std::string other = with_extra_keys(statement(), 1).dump();
  const auto problem = [&](const Envelope& envelope) { return examine(envelope.text(), "it", {}).report.problem; };
  EXPECT_TRUE(contains(problem(sign(other)), "is no receipt: '/predicate/x0' is 0")) << problem(sign(other));
  Envelope forged = sign(other);
  forged.signature[5] = static_cast<char>(forged.signature[5] ^ 1);
  EXPECT_TRUE(contains(problem(forged), "signature: it is not that of the key")) << problem(forged);
}

TEST_F(LimitsTest, WhatAReceiptHoldsIsCountedAndLimited) {
  const auto examined = [](const Json& json, const JsonLimits& limits) {
    return examine_document(json, "it", std::nullopt, {}, limits).front().report.problem;
  };
  const Json small = Json::parse(sign(statement().dump()).text());
  const Json large = Json::parse(sign(with_extra_keys(statement(), 20'000).dump()).text());
  CountingGuard guard, impatient(1 << 20);
  EXPECT_EQ(examined(small, {.values = 200, .guard = &guard}), "");
  EXPECT_TRUE(contains(examined(large, {.values = 20'000}), "has more than 20000 values"));
  examined(large, {.guard = &guard});
  EXPECT_GT(guard.taken(), 20'000U * 128);
  EXPECT_THROW(examined(large, {.guard = &impatient}), std::runtime_error);
  EXPECT_LT(impatient.taken(), 3U << 20);
}

TEST_F(LimitsTest, AReplyHasSoManyChoicesAndEachIsAskedFor) {
  const auto reply = [](std::size_t choices) { return Json{{"choices", std::vector<Json>(choices, Json::object())}}; };
  CountingGuard guard;
  EXPECT_EQ(examine_document(reply(100), "it", std::nullopt, {}, {.guard = &guard}).size(), 100U);
  EXPECT_EQ(guard.times(), 100U);
  EXPECT_EQ(examine_all(reply(4096).dump(), "it", std::nullopt).size(), 4096U);
  const std::vector<Evidence> refused = examine_all(reply(4097).dump(), "it", std::nullopt);
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_TRUE(contains(refused[0].report.problem, "it has 4097 choices")) << refused[0].report.problem;
}

}  // namespace
}  // namespace reprofuse::receipt
