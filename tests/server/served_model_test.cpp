// What a fingerprint promises, and what may not decide how long an answer is.
#include "server/served_model.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "support/files.hpp"
#include "support/messages.hpp"

namespace reprofuse::server {
namespace {

namespace fs = std::filesystem;

class ServedModelTest : public testing::Test {
 protected:
  ServedModelTest() {
    for (const auto& entry : fs::directory_iterator(REPROFUSE_BUNDLED_MODEL))
      fs::create_symlink(entry.path(), folder_.file(entry.path().filename().string()));
    options_.folder = folder_.path();
    options_.version = "0.1.0";
  }
  std::string fingerprint(const char* numerics = "fma-1", int threads = 1) const {
    return ServedModel(Context::cpu(numerics, {}, threads), options_, {}).facts().fingerprint;
  }
  void append_to(const std::string& name, const std::string& text) {
    const std::string whole = read_whole_file(folder_.file(name));
    fs::remove(folder_.file(name));
    write_file(folder_.file(name), whole + text);
  }

  TemporaryFolder folder_;
  ServedModelOptions options_;
};

TEST_F(ServedModelTest, WhateverDecidesAnAnswerIsInTheFingerprint) {
  const std::string first = fingerprint();
  EXPECT_EQ(first.substr(0, 6), "fma-1-");
  std::set<std::string> seen = {first};
  const auto expect_another = [&](const char* what) { EXPECT_TRUE(seen.insert(fingerprint()).second) << what; };
  options_.max_positions = 512;
  expect_another("the longest text");
  options_.date = text::parse_date("2031-02-03");
  expect_another("the date");
  options_.special_tokens = engine::SpecialTokens::kPlain;
  expect_another("what special tokens in contents are");
  for (const char* name :
       {"generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}) {
    append_to(name, "\n");
    expect_another(name);
  }
  EXPECT_EQ(fingerprint("exact-1").substr(0, 8), "exact-1-");
  EXPECT_EQ(fingerprint("int16-1").substr(0, 8), "int16-1-");
  EXPECT_EQ(fingerprint("exact-2").substr(0, 8), "exact-2-");
}

TEST_F(ServedModelTest, WhatDecidesOnlyWhenAnAnswerComesIsNot) {
  const std::string first = fingerprint();
  options_.name = "another-name";
  options_.engine.max_batch = 3;
  options_.engine.max_rows = 17;
  options_.engine.page_size = 16;
  options_.engine.speculation = 4;
  options_.engine.prefix_cache = false;
  options_.kv_bytes = 100 << 20;
  EXPECT_EQ(fingerprint("fma-1", 2), first);
}

TEST(RowsOfPass, AreRaisedOnlyWhereTheyMayAndADeviceHasMemoryForThem) {
  constexpr std::int64_t kMuch = std::int64_t{8} << 30;
  constexpr bool kGpu = true, kCpu = false;  // whether it is asynchronous
  ServedModelOptions options;
  options.may_raise_rows = true;
  EXPECT_EQ(rows_of_pass(options, kGpu, kMuch), 2048);
  EXPECT_EQ(rows_of_pass(options, kGpu, kMuch - 1), 512) << "activations would take what keys and values need";
  EXPECT_EQ(rows_of_pass(options, kCpu, kMuch), 512) << "nothing is gained there";
  options.engine.max_rows = 4000;
  EXPECT_EQ(rows_of_pass(options, kGpu, kMuch), 4000) << "never lowered";
  options.may_raise_rows = false;
  options.engine.max_rows = 512;
  EXPECT_EQ(rows_of_pass(options, kGpu, kMuch), 512) << "somebody has said how many";
}

TEST_F(ServedModelTest, ACacheTooSmallForOneTextIsRefusedAndSaysWhatWouldFit) {
  options_.kv_bytes = 4 << 20;
  const std::string error = error_of([&] { fingerprint(); });
  EXPECT_NE(error.find("of KV cache hold 448 tokens, fewer than the 1024 of the longest text: say --context 448"),
            std::string::npos)
      << error;
  options_.max_positions = 448;
  EXPECT_EQ(error_of([&] { fingerprint(); }), "");
}

TEST_F(ServedModelTest, ACacheTooLargeForTheMachineIsRefusedByItsSize) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer ends a program that asks for so much";
#endif
  options_.kv_bytes = std::int64_t{1} << 49;  // more than any address space
  EXPECT_EQ(error_of([&] { fingerprint(); }),
            "there is no memory for 524288.00 GiB of KV cache: ask for less with --kv-memory");
}

}  // namespace
}  // namespace reprofuse::server
