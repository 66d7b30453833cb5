// `reprofuse keys`, `generate --receipt` and `verify` as a user meets them.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/run_cli.hpp"
#include "support/files.hpp"

namespace reprofuse {
namespace {

namespace fs = std::filesystem;

// Files of a folder of golden/receipts/, by the end of their names.
std::string golden_files(const fs::path& folder, const std::string& ending) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().string().ends_with(ending)) names.push_back(entry.path());
  std::sort(names.begin(), names.end());
  std::string all;
  for (const std::string& name : names) all += " '" + name + "'";
  return all;
}

std::vector<fs::path> golden_folders() {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(REPROFUSE_GOLDEN_RECEIPTS))
    if (entry.is_directory()) folders.push_back(entry.path());
  return folders;
}

class ReceiptCommand : public testing::Test {
 protected:
  void SetUp() override {
    if (REPROFUSE_HAVE_SIGNATURES == 0) GTEST_SKIP() << "this build has no OpenSSL";
    ASSERT_EQ(reprofuse("keys new " + folder_.file("key")).status, 0);
    write_file(folder_.file("key.pem"), reprofuse("keys show " + folder_.file("key")).out);
  }

  Finished generate(const std::string& options) const {
    return reprofuse("generate --prompt-tokens 1,2,3 --max-tokens 6 " + options,
                     "REPROFUSE_KEY=" + folder_.file("key") + " ");
  }
  std::string receipt() const {
    const std::string file = folder_.file("receipt.json");
    EXPECT_EQ(generate("--receipt " + file).status, 0);
    return file;
  }

  // The bundled model with one file that is another.
  std::string model_with(const std::string& file, const std::string& more) const {
    const std::string model = folder_.file("model-" + file);
    fs::create_directory(model);
    for (const auto& entry : fs::directory_iterator(REPROFUSE_BUNDLED_MODEL))
      if (entry.path().filename() != file)
        fs::create_symlink(entry.path(), model + "/" + entry.path().filename().string());
    write_file(model + "/" + file, read_whole_file(std::string(REPROFUSE_BUNDLED_MODEL) + "/" + file) + more);
    return model;
  }

  TemporaryFolder folder_;
};

TEST_F(ReceiptCommand, GoldenReceiptsOfEveryDeviceAreTrueHere) {
  ASSERT_FALSE(golden_folders().empty());
  for (const fs::path& folder : golden_folders()) {
    const std::string key = " --key '" + (folder / "key.pem").string() + "'";
    const Finished run = reprofuse("verify" + golden_files(folder, ".json") + key);
    EXPECT_EQ(run.status, 0) << run.out << run.err;
    EXPECT_TRUE(contains(run.err, "8 of 8 equal; loaded in ")) << run.err;
    EXPECT_TRUE(contains(run.out, "exact-1-kv16-sampled.json: equal")) << run.out;
    const Finished spots = reprofuse("verify --spot 3" + golden_files(folder, "greedy.json") + key);
    EXPECT_EQ(spots.status, 0) << spots.out << spots.err;
    const Finished other =
        reprofuse("verify --level signature" + golden_files(folder, ".json") + " --key " + folder_.file("key.pem"));
    EXPECT_EQ(other.status, 3) << other.out;
  }
}

TEST_F(ReceiptCommand, AReplyIsNotWhatAKeyHasSigned) {
  const Finished reply =
      reprofuse("verify --key " + folder_.file("key.pem") + golden_files(REPROFUSE_GOLDEN_RECEIPTS, ".json"));
  EXPECT_EQ(reply.status, 3) << reply.out;
  EXPECT_TRUE(contains(reply.out, "wrong       signature: a reply has none")) << reply.out;
}

TEST_F(ReceiptCommand, SaysWhatItCouldProveWithoutTheModel) {
  const std::string file = receipt();
  const Finished without = reprofuse("verify --model /nonexistent " + file);
  EXPECT_EQ(without.status, 4) << without.err;
  EXPECT_TRUE(contains(without.out, "wrong       model: /nonexistent")) << without.out;
  EXPECT_TRUE(contains(without.out, "proven      signature: ")) << without.out;
  EXPECT_TRUE(contains(without.out, "not proven  tokens and logits: ")) << without.out;
  const Finished signature = reprofuse("verify --level signature --model /nonexistent " + file);
  EXPECT_EQ(signature.status, 0) << signature.out;
  EXPECT_TRUE(contains(signature.out, "not proven  artifacts: ")) << signature.out;
}

TEST_F(ReceiptCommand, NamesTheArtifactThatIsAnotherOne) {
  const std::string file = receipt();
  const std::vector<std::vector<std::string>> cases = {
      {"tokenizer.json", " ", "tokenizer: tokenizer.json"},
      {"chat_template.jinja", " ", "template: its source"},
      {"tokenizer_config.json", " ", "tokenizer: tokenizer_config.json"},
      {"generation_config.json", " ", "settings: generation_config.json"}};
  for (const auto& one : cases) {
    const Finished run = reprofuse("verify --level artifacts " + file + " --model " + model_with(one[0], one[1]));
    EXPECT_EQ(run.status, 4) << run.out;
    EXPECT_TRUE(contains(run.out, "wrong       " + one[2])) << run.out;
  }
  const std::string weights = model_with("model.safetensors", "");
  std::fstream(weights + "/model.safetensors", std::ios::in | std::ios::out | std::ios::binary).seekp(-9, std::ios::end)
      << 'x';
  const Finished model = reprofuse("verify " + file + " --model " + weights);
  EXPECT_EQ(model.status, 4) << model.out;
  EXPECT_TRUE(contains(model.out, "wrong       model: its digest")) << model.out;
  const Finished date = reprofuse("verify --level artifacts --date 2025-01-01 " + file);
  EXPECT_EQ(date.status, 4) << date.out;
  EXPECT_TRUE(contains(date.out, "wrong       date: today is 2024-07-26 in the receipt and 2025-01-01 here"))
      << date.out;
  EXPECT_EQ(reprofuse("verify --level artifacts --date 2024-07-26 " + file).status, 0);
}

TEST_F(ReceiptCommand, HidesAPromptAndFollowsAReceipt) {
  const std::string first = receipt();
  const std::string second = folder_.file("second.json");
  const Finished made =
      generate("--receipt " + second + " --receipt-hide-prompt --receipt-nonce mine --receipt-previous " + first);
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(reprofuse("verify " + second).status, 4);
  const Finished opened = reprofuse("verify " + first + " " + second + " --opening " + second + ".opening");
  EXPECT_EQ(opened.status, 0) << opened.out;
  EXPECT_TRUE(contains(opened.out, "proven      previous: it follows " + first)) << opened.out;
  EXPECT_FALSE(contains(reprofuse("verify " + second + " " + first).out, " follows "));
  const auto mode = [](const std::string& file) { return fs::status(file).permissions() & fs::perms::all; };
  EXPECT_EQ(mode(second + ".opening"), fs::perms::owner_read | fs::perms::owner_write);
  const Finished wrong = reprofuse("verify " + second + " --opening " + first);
  EXPECT_EQ(wrong.status, 2) << "no opening: " << wrong.out;
}

TEST_F(ReceiptCommand, ALogHasNoGapAndOneKey) {
  const std::string first = receipt();
  std::vector<std::string> log = {first};
  for (const char* name : {"second", "third"}) {
    const std::string file = folder_.file(name);
    ASSERT_EQ(generate("--receipt " + file + " --receipt-previous " + log.back()).status, 0);
    log.push_back(file);
  }
  const std::string verify = "verify --level signature ";
  EXPECT_EQ(reprofuse(verify + "--log " + log[0] + " " + log[1] + " " + log[2]).status, 0);
  const Finished gap = reprofuse(verify + "--log " + log[0] + " " + log[2]);
  EXPECT_EQ(gap.status, 1);
  EXPECT_TRUE(contains(gap.out, "wrong       previous: it does not follow " + log[0])) << gap.out;
  EXPECT_EQ(reprofuse(verify + log[0] + " " + log[2]).status, 0) << "without --log it is not asked";
  ASSERT_EQ(reprofuse("keys new " + folder_.file("other")).status, 0);
  const std::string by_other = folder_.file("by-other");
  ASSERT_EQ(
      reprofuse("generate --prompt-tokens 1,2 --max-tokens 2 --receipt " + by_other + " --receipt-previous " + log[0],
                "REPROFUSE_KEY=" + folder_.file("other") + " ")
          .status,
      0);
  EXPECT_EQ(reprofuse(verify + "--log " + log[0] + " " + by_other).status, 1);
}

TEST_F(ReceiptCommand, AReceiptReplacesNoKeyAndAFailureLeavesNoFile) {
  const std::string key = read_whole_file(folder_.file("key"));
  EXPECT_EQ(generate("--receipt " + folder_.file("key")).status, 1);
  fs::create_hard_link(folder_.file("key"), folder_.file("x.opening"));
  EXPECT_EQ(generate("--receipt-hide-prompt --receipt " + folder_.file("x")).status, 1);
  EXPECT_EQ(read_whole_file(folder_.file("key")), key);
  const std::string first = receipt();
  EXPECT_EQ(generate("--receipt " + first + " --receipt-previous " + first).status, 1);
  EXPECT_EQ(reprofuse("verify " + first).status, 0);
  EXPECT_EQ(generate("--receipt-nonce '\xff' --receipt " + folder_.file("none")).status, 2);
  EXPECT_EQ(generate("--stop '\xff' --receipt " + folder_.file("none")).status, 2);
  EXPECT_EQ(generate("--context 2 --receipt " + folder_.file("none")).status, 1);
  EXPECT_FALSE(fs::exists(folder_.file("none")));
  EXPECT_FALSE(fs::exists(folder_.file("x")));
}

// One file that cannot be tried says nothing of the others.
TEST_F(ReceiptCommand, ReportsEveryFileAlsoBesideOnesThatCannotBeTried) {
  const std::string file = receipt();
  const Finished run = reprofuse("verify " + folder_.path() + " " + file + " " + folder_.file("nothing"));
  EXPECT_EQ(run.status, 2) << run.out;
  EXPECT_TRUE(contains(run.out, folder_.path() + ": not tried")) << run.out;
  EXPECT_TRUE(contains(run.out, file + ": equal")) << run.out;
  EXPECT_TRUE(contains(run.out, folder_.file("nothing") + ": not tried")) << run.out;
  EXPECT_TRUE(contains(run.err, "1 of 3 equal; loaded in ")) << run.err;
  const Finished device = reprofuse("verify --device cuda:99 " + file);
  EXPECT_EQ(device.status, 2) << device.out << device.err;
  EXPECT_TRUE(contains(run.out, "not proven  date 2024-07-26 and context ")) << run.out;
}

TEST_F(ReceiptCommand, WithoutAKeyOrForABaselineThereIsNoReceipt) {
  const std::string file = folder_.file("none.json");
  const Finished keyless = reprofuse("generate --prompt-tokens 1,2 --receipt " + file, "REPROFUSE_KEY= ");
  EXPECT_EQ(keyless.status, 1);
  EXPECT_TRUE(contains(keyless.err, "reprofuse keys new FILE")) << keyless.err;
  chmod(folder_.file("key").c_str(), 0644);
  EXPECT_TRUE(contains(generate("--receipt " + file).err, "others than its owner may use it (mode 644)"));
  chmod(folder_.file("key").c_str(), 0600);
  EXPECT_TRUE(contains(generate("--numerics sgemm --receipt " + file).err, "pins no bits"));
  EXPECT_EQ(generate("--digest chain-1 --receipt " + file).status, 2);
  EXPECT_EQ(generate("--receipt-roots").status, 2) << "without --receipt";
  EXPECT_EQ(reprofuse("keys new " + folder_.file("key")).status, 1) << "it is there already";
}

TEST_F(ReceiptCommand, WhatCannotBeReadIsNoDivergence) {
  EXPECT_EQ(reprofuse("verify " + folder_.file("nothing")).status, 2);
  EXPECT_EQ(reprofuse("verify").status, 2);
  EXPECT_EQ(reprofuse("verify --level all x").status, 2);
  write_file(folder_.file("text"), "no receipt");
  EXPECT_EQ(reprofuse("verify " + folder_.file("text")).status, 3);
  EXPECT_EQ(reprofuse("verify --spot 2 --level tokens " + receipt()).status, 2);
}

// What the step of every other machine compares: no signature, so every build can.
TEST(VerifyCommand, RepliesOfAServerAreTrueOnEveryInstructionSet) {
  const std::string replies = golden_files(REPROFUSE_GOLDEN_RECEIPTS, ".json");
  const Finished run = reprofuse("verify" + replies);
  EXPECT_EQ(run.status, 0) << run.out << run.err;
  EXPECT_TRUE(contains(run.out, "reply-fma-1.json: equal, unsigned\n")) << run.out;
  EXPECT_TRUE(contains(run.out, "not proven  signature: ")) << run.out;
  EXPECT_EQ(reprofuse("verify --level signature" + replies).status, 3);
  EXPECT_EQ(reprofuse("verify --level tokens" + replies).status, 2);
  const Finished scalar = reprofuse("verify --isa scalar" + replies);
  EXPECT_EQ(scalar.status, 0) << scalar.out;
  const TemporaryFolder folder;
  for (const auto& entry : fs::directory_iterator(REPROFUSE_GOLDEN_RECEIPTS)) {
    if (entry.path().extension() != ".json") continue;
    auto json = nlohmann::json::parse(read_whole_file(entry.path()));
    json["choices"][0]["token_ids"][7] = 1;
    write_file(folder.file("altered"), json.dump());
    const Finished altered = reprofuse("verify " + folder.file("altered"));
    EXPECT_EQ(altered.status, 1) << altered.out;
  }
}

}  // namespace
}  // namespace reprofuse
