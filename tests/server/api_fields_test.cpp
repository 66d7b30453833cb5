// Bodies that are no requests, fields of other types, and what errors look like to a client.
#include <cfloat>
#include <chrono>
#include <cstdint>

#include "engine/service.hpp"
#include "server/api_support.hpp"
#include "server/openai/json.hpp"

namespace reprofuse::server {
namespace {

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(ApiBody, AnythingButAnObjectIsRefused) {
  const Refusal cases[] = {
      {"[]", "400 - -: the body is [], not a JSON object"},
      {"null", "400 - -: the body is null, not a JSON object"},
      {R"("{}")", "400 - -: the body is '{}', not a JSON object"},
      {"7", "400 - -: the body is 7, not a JSON object"},
      {R"({"a":1,"a":1})", "400 - -: the body has the key 'a' twice in one object"},
      {R"({"a":{"b":1,"c":2,"b":3}})", "400 - -: the body has the key 'b' twice in one object"},
      {R"({"a":)" + repeated("[", 70) + repeated("]", 70) + "}", "400 - -: the body is nested deeper than 64 levels"},
      {repeated(R"({"a":)", 100'000), "400 - -: the body is nested deeper than 64 levels"},
      {R"({"a":1e999})", "400 - -: the body has a number beyond FP64"},
  };
  for (const Refusal& refusal : cases)
    EXPECT_EQ(refusal_of([&] { parse_object(refusal.body); }), refusal.expected) << refusal.body.substr(0, 80);
}

TEST(ApiBody, MalformedJsonIsRefusedInFewWords) {
  const std::string broken[] = {"",
                                "{",
                                "{}{}",
                                R"({"a":NaN})",
                                R"({"a":Infinity})",
                                R"({"a":-Infinity})",
                                R"({"a":01})",
                                R"({"a":.5})",
                                R"({'a':1})",
                                R"({"a":1,})",
                                R"({"a":"\ud800"})",
                                R"({"a":"\udc00\ud800"})",
                                R"({"a":"\x"})",
                                "{\"a\":\"\xff\"}",
                                "{\"a\":\"\xc0\x80\"}",
                                "{\"a\":\"\xed\xa0\x80\"}",
                                "{\"a\":\"line\nbreak\"}",
                                "{\"a\":\"" + std::string(1 << 20, 'x'),
                                std::string("{\"a\":1}\0", 8),
                                std::string("{\"a\":1}\0{", 9)};
  for (const std::string& body : broken) {
    const std::string refusal = refusal_of([&] { parse_object(body); });
    EXPECT_EQ(refusal.find("400 - invalid_json: the body is not JSON: "), 0U) << body.substr(0, 80) << refusal;
    EXPECT_LT(refusal.size(), 300U);
  }
}

TEST(ApiBody, WhereABodyStopsBeingJsonIsTold) {
  const Refusal cases[] = {{"", "it ends at byte 0, before it is complete"},
                           {R"({"a": )", "it ends at byte 6, before it is complete"},
                           {R"({"a": tru})", R"(it goes wrong at byte 10, at the end of '{\"a\": tru}')"},
                           {R"({"prompt": "Tom has 3 boxes of pens" "n": 2})",
                            R"(it goes wrong at byte 40, at the end of 'has 3 boxes of pens\" \"n\"')"},
                           {"{\"a\":\"\xff\"}", R"(it goes wrong at byte 7, at the end of '{\"a\":\"\ufffd')"},
                           {std::string("{}\0", 3), "byte 3 is zero"}};
  for (const Refusal& refusal : cases)
    EXPECT_EQ(refusal_of([&] { parse_object(refusal.body); }),
              "400 - invalid_json: the body is not JSON: " + refusal.expected);
}

TEST(ApiBody, WhatJsonAllowsIsTaken) {
  EXPECT_EQ((*parse_object(R"( {"a":"\ud83d\ude00\u0000", "b": -0.0} )"))["a"], std::string("\xf0\x9f\x98\x80\0", 5));
  EXPECT_EQ(parse_object(R"({"z":1,"a":{"y":2,"b":3}})")->dump(), R"({"z":1,"a":{"y":2,"b":3}})") << "in its order";
  EXPECT_TRUE(parse_object(R"({"a":)" + repeated("[", 60) + repeated("]", 60) + "}")->contains("a"));
}

// What a body takes, as it is asked for; and what is asked for when there is no more.
class CountingGuard final : public ReadGuard {
 public:
  explicit CountingGuard(std::size_t limit = SIZE_MAX) : limit_(limit) {}
  void claim_memory(std::size_t bytes) override {
    taken_ += bytes;
    if (taken_ > limit_) throw bad_request("no more", std::nullopt, "limit");
  }
  std::size_t taken() const { return taken_; }

 private:
  std::size_t limit_, taken_ = 0;
};

TEST(ApiBody, MemoryIsAskedForBeforeItIsTaken) {
  const std::string ids = R"({"prompt":[)" + repeated("7,", 1'000'000) + "7]}";
  CountingGuard guard;
  EXPECT_EQ((*parse_object({ids, &guard}))["prompt"].size(), 1'000'001U);
  EXPECT_GE(guard.taken(), 1'000'000 * sizeof(Json));
  CountingGuard small(1'000'000);
  EXPECT_EQ(refusal_of([&] { parse_object({ids, &small}); }), "400 - limit: no more");
  EXPECT_LT(small.taken(), 1'100'000U) << "and it goes no further";
  const std::string many = R"({"prompt":[)" + repeated("[],", 16'000) + "[" + repeated("7,", 9'000'000) + "7]]}";
  EXPECT_EQ(refusal_of([&] { parse_object(many); }).substr(0, 25), "413 - body_too_large: wha");
}

TEST(ApiBody, ListsOfManyThingsAreRefused) {
  for (const char* entry : {R"("")", "{}", "[]", "null", "true"}) {
    const std::string list = std::string(R"({"stop":[)") + repeated(std::string(entry) + ",", 1'000'000) + entry + "]}";
    CountingGuard guard;
    EXPECT_EQ(refusal_of([&] {
                parse_object({list, &guard});
              }),
              "400 - -: the body has a list of more than 16384 entries that are no numbers");
    EXPECT_LT(guard.taken(), std::size_t{4} << 20) << entry;
  }
}

TEST(ApiBody, AListOfMoreNumbersThanAContextHasIsRefused) {
  const auto ids = [](std::size_t count) { return R"({"prompt":[)" + repeated("7,", count - 1) + "7]}"; };
  EXPECT_EQ((*parse_object(ids(16384), "the body", {}, 1024))["prompt"].size(), 16384U) << "as of other things";
  EXPECT_EQ((*parse_object(ids(20000), "the body", {}, 20000))["prompt"].size(), 20000U);
  CountingGuard guard;
  EXPECT_EQ(
      refusal_of([&] {
        parse_object({ids(1'000'000), &guard}, "the body", {}, 20000);
      }),
      "400 - context_length_exceeded: the body has a list of more than 20000 numbers; no context of this server is "
      "longer");
  EXPECT_LT(guard.taken(), std::size_t{2} << 20);
}

// What an object holds stays where it is when the object grows: it is not copied.
TEST(ApiBody, AnObjectGrowsWithoutCopies) {
  Json object = Json::object();
  add_key(object, "a") = {1, 2, 3};
  const Json* first = &object["a"][0];
  for (int i = 0; i < 100; ++i) add_key(object, std::to_string(i)) = i;
  EXPECT_EQ(first, &object["a"][0]);
  EXPECT_EQ(object.size(), 101U);
  EXPECT_EQ(object["a"].dump() + object["99"].dump(), "[1,2,3]99");
}

// 240 KB of this took seconds once, and four times as much sixteen times as long.
TEST(ApiBody, WhatNobodyReadsTakesNeitherTimeNorMemory) {
  const std::string_view user[] = {"user"};
  for (const char* entry : {"{}", "[]", R"({"a":{}})", R"("x")"}) {
    const std::string body = std::string(R"({"user":[)") + repeated(std::string(entry) + ",", 2'000'000) + entry + "]}";
    CountingGuard guard;
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_TRUE((*parse_object({body, &guard}, "the body", user))["user"].is_null());
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60)) << entry;
    EXPECT_LT(guard.taken(), std::size_t{16} << 20) << entry;
  }
  EXPECT_TRUE(refusal_of([&] { parse_object(R"({"user":[{"a":1,"a":2}]})", "the body", user); }).find("twice") !=
              std::string::npos);
}

TEST(ApiBody, AnObjectOfManyKeysIsRefused) {
  const auto object_of = [](int keys) {
    std::string body = "{";
    for (int i = 0; i < keys; ++i) body += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":0";
    return body + "}";
  };
  EXPECT_EQ(parse_object(object_of(1024))->size(), 1024U);
  EXPECT_EQ(refusal_of([&] { parse_object(object_of(1'000'000)); }),
            "400 - -: the body has an object of more than 1024 keys");
}

class ApiFields : public testing::Test {
 protected:
  template <typename Read>
  std::string refusal(const std::string& value, Read read) {
    const Json object = {{"x", Json::parse(value)}};
    Fields fields(object, "at.");
    return refusal_of([&] { read(fields); });
  }
};

TEST_F(ApiFields, ValuesOfOtherTypesAreRefused) {
  const auto boolean = [](Fields& fields) { fields.boolean("x"); };
  const auto integer = [](Fields& fields) { fields.integer("x", -3, 7); };
  const auto number = [](Fields& fields) { fields.number("x", 0, 1); };
  const auto string = [](Fields& fields) { fields.string("x"); };
  const auto object = [](Fields& fields) { fields.object("x"); };
  const auto ids = [](Fields& fields) { fields.ids("x", 100, 3); };
  const std::string begin = "400 at.x invalid_value: at.x is ";
  for (const char* value : {"0", "1", "\"true\"", "[]", "{}"})
    EXPECT_EQ(refusal(value, boolean), begin + shown(Json::parse(value)) + ", not true or false");
  for (const char* value : {"8", "-4", "1.0", "1.5", "\"1\"", "true", "[1]", "9223372036854775808",
                            "18446744073709551615", "18446744073709551616", "-9223372036854775809", "1e300"})
    EXPECT_EQ(refusal(value, integer), begin + shown(Json::parse(value)) + ", not an integer from -3 to 7");
  for (const char* value : {"1.5", "-1", "-1e-45", "1e300", "-1e300", "\"0.5\"", "true", "[]"})
    EXPECT_EQ(refusal(value, number), begin + shown(Json::parse(value)) + ", not a number from 0 to 1");
  const auto told = [&](const auto& read) { return refusal("-9", read); };
  EXPECT_EQ(told([](Fields& fields) { fields.integer("x", 1, INT64_MAX); }),
            begin + "-9, not an integer of 64 bits, at least 1");
  EXPECT_EQ(told([](Fields& fields) { fields.integer("x", -1, INT32_MAX); }),
            begin + "-9, not an integer of 32 bits, at least -1");
  EXPECT_EQ(told([](Fields& fields) { fields.number("x", 0, FLT_MAX); }),
            begin + "-9, not a number of at least 0 that FP32 can hold");
  EXPECT_EQ(told([](Fields& fields) { fields.number("x", 0.01F, 100); }), begin + "-9, not a number from 0.01 to 100");
  for (const char* value : {"0", "true", "[\"a\"]", "{}"})
    EXPECT_EQ(refusal(value, string), begin + shown(Json::parse(value)) + ", not a string");
  for (const char* value : {"0", "[]", "\"{}\""})
    EXPECT_EQ(refusal(value, object), begin + shown(Json::parse(value)) + ", not an object");
  for (const char* value : {"7", "\"7\"", "{}", "[1,2,3,4]"})
    EXPECT_EQ(refusal(value, ids), begin + shown(Json::parse(value)) + ", not a list of at most 3 token ids");
  for (const char* value : {"100", "-1", "1.0", "true", "[1]", "null", "4294967296"})
    EXPECT_EQ(refusal("[5," + std::string(value) + "]", ids),
              "400 at.x invalid_value: at.x[1] is " + std::string(value) + ", not a token id from 0 to 99");
}

TEST_F(ApiFields, ValuesWithinTheirRangesAreTaken) {
  const Json object = Json::parse(R"({"b":true,"i":-3,"f":0.7,"one":1,"s":"","o":{"k":1},"ids":[0,99],"none":null})");
  Fields fields(object);
  EXPECT_EQ(fields.boolean("b"), true);
  EXPECT_EQ(fields.integer("i", -3, 7), -3);
  EXPECT_EQ(fields.number("f", 0, FLT_MAX), 0.7F);
  EXPECT_EQ(fields.number("one", 0, 1), 1.0F);
  EXPECT_EQ(fields.string("s"), "");
  EXPECT_EQ(fields.object("o")->integer("k", 0, 1), 1);
  EXPECT_EQ(fields.ids("ids", 100, 2), (std::vector<std::int32_t>{0, 99}));
  EXPECT_EQ(fields.boolean("none"), std::nullopt);
  EXPECT_EQ(fields.integer("absent", 0, 1), std::nullopt);
  fields.refuse_the_rest();
}

TEST_F(ApiFields, AKeyThatNobodyAsksForIsRefused) {
  const Json object = Json::parse(R"({"temprature":0.5})");
  Fields fields(object);
  EXPECT_EQ(refusal_of([&] { fields.refuse_the_rest(); }),
            "400 temprature unknown_parameter: unrecognized request argument supplied: 'temprature'");
  constexpr std::string_view kKnown[] = {"temprature"};
  fields.ignore(kKnown);
  EXPECT_EQ(refusal_of([&] { fields.refuse_the_rest(); }), "accepted");
}

TEST_F(ApiFields, TheNearestKeyIsNamedWhereOneIsNear) {
  constexpr std::string_view kKnown[] = {"n", "seed", "top_k", "top_p", "temperature", "max_tokens"};
  const auto suggested = [&](const std::string& key) {
    const Json object = {{key, 1}};
    Fields fields(object, "at.");
    fields.ignore(kKnown);
    const std::string refusal = refusal_of([&] { fields.refuse_the_rest(); });
    const std::size_t suggestion = refusal.find("; ");
    return suggestion == std::string::npos ? "" : refusal.substr(suggestion);
  };
  EXPECT_EQ(suggested("temprature"), "; did you mean 'at.temperature'?");
  EXPECT_EQ(suggested("maxTokens"), "; did you mean 'at.max_tokens'?");
  EXPECT_EQ(suggested("topp"), "; did you mean 'at.top_p'?");
  EXPECT_EQ(suggested("top_n"), "; did you mean 'at.top_k'?") << "the first of those that are equally near";
  for (const char* other : {"k", "id", "nee", "stop", "prompt"}) EXPECT_EQ(suggested(other), "") << other;
  EXPECT_EQ(suggested(std::string(std::size_t{1} << 20, 'n')), "");
}

TEST_F(ApiFields, AValueThatIsNotSupportedIsNamed) {
  const Json object = Json::parse(R"({"a":0,"b":0.0,"c":1,"d":null})");
  Fields fields(object);
  constexpr FixedValue kAllowed[] = {{"a", "0"}, {"b", "0"}, {"d", "0"}, {"absent", "0"}};
  constexpr FixedValue kOther[] = {{"c", "0"}};
  EXPECT_EQ(refusal_of([&] { fields.allow_only(kAllowed); }), "accepted");
  EXPECT_EQ(refusal_of([&] { fields.allow_only(kOther); }), "400 c unsupported_value: c is 1; only 0 is supported");
}

TEST(ApiErrors, ABodyIsOpenAisErrorObject) {
  EXPECT_EQ(error_body(bad_request("n is 0, not \"one\"", "n", "invalid_value")),
            R"({"error":{"message":"n is 0, not \"one\"","type":"invalid_request_error","param":"n",)"
            R"("code":"invalid_value"}})");
  EXPECT_EQ(error_body(ApiError(413, "invalid_request_error", "too long")),
            R"({"error":{"message":"too long","type":"invalid_request_error","param":null,"code":null}})");
  EXPECT_EQ(Json::parse(error_body(bad_request("\xff")))["error"]["message"], "\xef\xbf\xbd") << "never broken UTF-8";
}

TEST(ApiErrors, TheLibrarysErrorsHaveAStatusEach) {
  const auto told = [](const Error& error) { return refusal_of([&] { throw from_library_error(error, "prompt"); }); };
  EXPECT_EQ(told(Error(ErrorCode::kInvalidArgument, "m")), "400 prompt -: m");
  EXPECT_EQ(told(Error(ErrorCode::kUnsupported, "m")), "400 prompt unsupported: m");
  EXPECT_EQ(told(Error(ErrorCode::kNonFinite, "m")), "500 - non_finite: m");
  EXPECT_EQ(told(Error(ErrorCode::kDevice, "m")), "500 - device_error: m");
  EXPECT_EQ(told(Error(ErrorCode::kBusy, "m")), "429 - queue_full: m");
  EXPECT_EQ(told(Error(ErrorCode::kInternal, "m")), "500 - internal_error: m");
  EXPECT_EQ(told(engine::Refused(engine::Refusal::kNeverFits, "m")), "400 prompt invalid_value: m");
  EXPECT_EQ(told(engine::Refused(engine::Refusal::kFull, "m")), "429 - queue_full: m");
  EXPECT_EQ(told(engine::Refused(engine::Refusal::kDraining, "m")), "503 - draining: m");
  EXPECT_EQ(told(engine::Refused(engine::Refusal::kStopped, "m")), "503 - stopped: m");
}

TEST(ApiFacts, TheFingerprintIsContractModelSettingsAndVersion) {
  receipt::Artifacts artifacts;
  artifacts.model = "0123456789abcdef0123456789abcdef";
  artifacts.settings = "89abcdef01234567";
  const auto fingerprint = [&](const Numerics& numerics) {
    return receipt::system_fingerprint(numerics, artifacts, "0.1.0");
  };
  EXPECT_EQ(fingerprint(find_numerics("fma-1")), "fma-1-0123456789abcdef-89abcdef-0.1.0");
  EXPECT_EQ(fingerprint(find_numerics("bf16")), "unpinned-bf16-0123456789abcdef-89abcdef-0.1.0");
  Numerics draft = find_numerics("fma-1");
  draft.draft = true;
  EXPECT_EQ(fingerprint(draft), "unpinned-fma-1-0123456789abcdef-89abcdef-0.1.0");
}

TEST(ApiFacts, TheModelIsListedAndFoundByItsName) {
  const char* card = R"({"id":"arithmetic-7m","object":"model","created":1700000000,"owned_by":"reprofuse",
                         "root":"arithmetic-7m","parent":null,"max_model_len":1024,
                         "system_fingerprint":"fma-1-0123456789abcdef-0.1.0","receipts":false,
                         "receipts_key":null})";
  EXPECT_EQ(Json::parse(model_list(served())), (Json{{"object", "list"}, {"data", Json::array({Json::parse(card)})}}));
  EXPECT_EQ(Json::parse(model_card("arithmetic-7m", served())), Json::parse(card));
  EXPECT_EQ(refusal_of([] { model_card("gpt-4o", served()); }),
            "404 model model_not_found: the model 'gpt-4o' does not exist; this server has 'arithmetic-7m'");
}

}  // namespace
}  // namespace reprofuse::server
