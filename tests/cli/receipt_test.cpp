// `reprofuse verify` as a user meets it.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/receipt_command.hpp"

namespace reprofuse {
namespace {

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

TEST_F(ReceiptCommand, GoldenReceiptsOfEveryDeviceAreTrueHere) {
  ASSERT_FALSE(golden_folders().empty());
  for (const fs::path& folder : golden_folders()) {
    const std::string key = " --key '" + (folder / "key.pem").string() + "'";
    const Finished run = reprofuse("verify" + golden_files(folder, ".json") + key);
    EXPECT_EQ(run.status, 0) << run.out << run.err;
    // cpu has the receipts of four contracts, cpu-int16-1 those of a later one.
    const std::string name = folder.filename().string();
    const std::size_t dash = name.find('-');
    const bool has_one_contract = dash != std::string::npos;
    const std::string contract = has_one_contract ? name.substr(dash + 1) : "exact-1-kv16";
    EXPECT_TRUE(contains(run.err, has_one_contract ? "2 of 2 equal; loaded in " : "8 of 8 equal; loaded in "))
        << run.err;
    EXPECT_TRUE(contains(run.out, contract + "-sampled.json: equal")) << run.out;
    const Finished spots = reprofuse("verify --spot 3" + golden_files(folder, "greedy.json") + key);
    EXPECT_EQ(spots.status, 0) << spots.out << spots.err;
    EXPECT_TRUE(contains(spots.out, ": holds at 3 of ")) << spots.out;
    EXPECT_FALSE(contains(spots.out + spots.err, "equal")) << "not all was compared";
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
  EXPECT_TRUE(contains(without.out, "not proven  artifacts: they were not compared")) << without.out;
  EXPECT_TRUE(contains(without.out, "not proven  tokens and logits: ")) << without.out;
  const Finished signature = reprofuse("verify --level signature --model /nonexistent " + file);
  EXPECT_EQ(signature.status, 0) << signature.out;
  EXPECT_TRUE(contains(signature.out, file + ": holds as far as signature\n")) << signature.out;
  EXPECT_TRUE(contains(signature.err, "1 of 1 hold as far as signature;")) << signature.err;
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
  EXPECT_FALSE(contains(model.out, "artifacts: they were not compared")) << model.out;
  const Finished date = reprofuse("verify --level artifacts --date 2025-01-01 " + file);
  EXPECT_EQ(date.status, 4) << date.out;
  EXPECT_TRUE(contains(date.out, "wrong       date: today is 2024-07-26 in the receipt and 2025-01-01 here"))
      << date.out;
  EXPECT_EQ(reprofuse("verify --level artifacts --date 2024-07-26 " + file).status, 0);
  const Finished context = reprofuse("verify --level artifacts --context 17 " + file);
  EXPECT_EQ(context.status, 4) << context.out;
  EXPECT_TRUE(contains(context.out, "wrong       settings: the longest text is ")) << context.out;
  EXPECT_EQ(reprofuse("verify --level signature --context 17 " + file).status, 2) << "it is not compared there";
}

TEST_F(ReceiptCommand, HidesAPromptAndFollowsAReceipt) {
  const std::string first = receipt();
  const std::string second = folder_.file("second.json");
  const Finished made =
      generate("--receipt " + second + " --receipt-hide-prompt --receipt-nonce mine --receipt-previous " + first);
  ASSERT_EQ(made.status, 0) << made.err;
  fs::rename(second + ".opening", folder_.file("elsewhere"));
  const Finished hidden = reprofuse("verify " + second);
  EXPECT_EQ(hidden.status, 4);
  EXPECT_TRUE(contains(hidden.out, second + ": missing: opening\n")) << hidden.out;
  EXPECT_EQ(reprofuse("verify " + second + " --opening " + folder_.file("elsewhere")).status, 0);
  fs::rename(folder_.file("elsewhere"), second + ".opening");
  EXPECT_EQ(reprofuse("verify --nonce mine " + second).status, 0);
  EXPECT_EQ(reprofuse("verify --nonce theirs " + second).status, 4);
  const Finished opened = reprofuse("verify " + first + " " + second);
  EXPECT_EQ(opened.status, 0) << opened.out;
  EXPECT_TRUE(contains(opened.out, "proven      previous: it follows " + first)) << opened.out;
  EXPECT_FALSE(contains(reprofuse("verify " + second + " " + first).out, " follows "));
  const auto mode = [](const std::string& file) { return fs::status(file).permissions() & fs::perms::all; };
  EXPECT_EQ(mode(second + ".opening"), fs::perms::owner_read | fs::perms::owner_write);
  const Finished wrong = reprofuse("verify " + second + " --opening " + first);
  EXPECT_EQ(wrong.status, 2) << "no opening: " << wrong.out;
}

TEST_F(ReceiptCommand, AnOpeningThatDoesNotOpenIsNotAMissingOne) {
  const std::string file = folder_.file("hidden.json"), beside = file + ".opening";
  const std::string other = folder_.file("other.json");
  ASSERT_EQ(generate("--receipt-hide-prompt --receipt " + file).status, 0);
  ASSERT_EQ(generate("--receipt-hide-prompt --receipt " + other).status, 0);
  fs::rename(beside, folder_.file("elsewhere"));
  const auto says = [&](const std::string& options, const std::string& words) {
    const Finished run = reprofuse("verify " + file + options);
    EXPECT_EQ(run.status, 4) << run.out << run.err;
    EXPECT_TRUE(contains(run.out, file + ": artifact\n")) << run.out;
    EXPECT_TRUE(contains(run.out, "proven      signature: by the key ")) << run.out;
    EXPECT_TRUE(contains(run.out, "wrong       opening: " + words)) << run.out;
  };
  says(" --opening " + other + ".opening", "none that was given is of this receipt's prompt");
  write_file(beside, R"({"prompt_tokens":[1],"salt":"00"})");
  says("", beside + ": does not open a prompt: '00' is not a SHA-256 in hex");
  EXPECT_EQ(reprofuse("verify --level artifacts " + file).status, 0) << "nothing has to be opened for that";
}

// One file that cannot be tried says nothing of the others.
TEST_F(ReceiptCommand, ReportsEveryFileAlsoBesideOnesThatCannotBeTried) {
  const std::string file = receipt();
  const Finished run = reprofuse("verify " + folder_.path() + " " + file + " " + folder_.file("nothing"));
  EXPECT_EQ(run.status, 2) << run.out;
  EXPECT_TRUE(contains(run.out, folder_.path() + ": not tried")) << run.out;
  EXPECT_TRUE(contains(run.out, "is a folder without receipts")) << run.out;
  EXPECT_TRUE(contains(run.out, "nothing: cannot be read: No such file or directory")) << run.out;
  EXPECT_TRUE(contains(run.out, file + ": equal")) << run.out;
  EXPECT_TRUE(contains(run.out, folder_.file("nothing") + ": not tried")) << run.out;
  EXPECT_TRUE(contains(run.err, "1 of 3 equal; loaded in ")) << run.err;
  const Finished device = reprofuse("verify --device cuda:99 " + file);
  EXPECT_EQ(device.status, 2) << device.out << device.err;
  EXPECT_TRUE(contains(run.out, "not proven  date 2024-07-26 and context ")) << run.out;
}

TEST_F(ReceiptCommand, ShowsWhatWasProvenToReadersAndToPrograms) {
  const std::string file = folder_.file("receipt.json");
  ASSERT_EQ(reprofuse("generate --chat --prompt 'What is 12 + 30?' --receipt-nonce mine --receipt " + file,
                      "REPROFUSE_KEY=" + folder_.file("key") + " ")
                .status,
            0);
  const Finished text = reprofuse("verify " + file + " 2>&1");
  EXPECT_TRUE(contains(text.out, "  contract    \"fma-1\"\n  model       ")) << text.out;
  EXPECT_TRUE(contains(text.out, "What is 12 + 30?")) << text.out;
  EXPECT_TRUE(contains(text.out, "42")) << text.out;
  EXPECT_TRUE(contains(text.out, "  nonce       \"mine\"\n")) << text.out;
  EXPECT_TRUE(contains(text.out, "not proven  max_tokens: ")) << "it stops by itself: " << text.out;
  EXPECT_FALSE(contains(text.out, "artifacts: they were not compared")) << text.out;
  const Finished quiet = reprofuse("verify --quiet " + file + " " + folder_.file("nothing"));
  EXPECT_EQ(quiet.status, 2);
  EXPECT_EQ(std::count(quiet.out.begin(), quiet.out.end(), '\n'), 2) << quiet.out;
  const Finished json = reprofuse("verify --json " + file);
  EXPECT_EQ(json.err, "");
  const auto parsed = nlohmann::json::parse(json.out);
  EXPECT_EQ(parsed["status"], 0);
  EXPECT_EQ(parsed["receipts"][0]["verdict"], "equal");
  EXPECT_EQ(parsed["receipts"][0]["nonce"], "mine");
  EXPECT_TRUE(contains(parsed["receipts"][0]["text"], "42")) << json.out;
  EXPECT_EQ(reprofuse("verify --json --quiet " + file).status, 2);
  EXPECT_EQ(reprofuse("verify -", "cat " + file + " | ").status, 0) << "- is stdin";
  // A folder stands for the receipts that a server keeps.
  fs::create_directory(folder_.file("log"));
  fs::copy(file, folder_.file("log/000000000001.receipt.json"));
  const Finished kept = reprofuse("verify --log --level signature " + folder_.file("log"));
  EXPECT_EQ(kept.status, 0) << kept.out;
  EXPECT_TRUE(contains(kept.out, "from its beginning, 1 receipts by the key ")) << kept.out;
}

TEST_F(ReceiptCommand, SaysWhatIsWrongWithJsonInItsOwnWords) {
  const std::string whole = read_whole_file(receipt());
  const std::pair<std::string, std::string> cases[] = {
      {whole.substr(0, 1000), "is no JSON: it ends too early, after 1000 bytes"},
      {"", "is no JSON: it is empty"},
      {"{]", "is no JSON: byte 2 is not what JSON has there"},
      {"data: {\"id\": 1}\n\n", "is a stream of events"},
      {R"({"choices": [{"message": {"content": "42"}}]})", "it has no 'system_fingerprint'"},
      {R"({"signatures": 1})", "is no envelope with one signature"}};
  for (const auto& [text, words] : cases) {
    write_file(folder_.file("wrong"), text);
    const Finished run = reprofuse("verify " + folder_.file("wrong"));
    EXPECT_EQ(run.status, 3) << run.out;
    EXPECT_TRUE(contains(run.out, words)) << run.out;
    EXPECT_FALSE(contains(run.out, "json.exception")) << run.out;
    EXPECT_LT(run.out.size(), 1000U);
  }
  const Finished opening = reprofuse("verify --opening " + folder_.file("receipt.json") + " " + folder_.file("wrong"));
  EXPECT_TRUE(contains(opening.err, "does not open a prompt: it has no 'salt'")) << opening.err;
}

TEST_F(ReceiptCommand, WhatCannotBeReadIsNoDivergence) {
  EXPECT_EQ(reprofuse("verify " + folder_.file("nothing")).status, 2);
  EXPECT_EQ(reprofuse("verify").status, 2);
  EXPECT_EQ(reprofuse("verify --level all x").status, 2);
  write_file(folder_.file("text"), "no receipt");
  EXPECT_EQ(reprofuse("verify " + folder_.file("text")).status, 3);
  EXPECT_EQ(reprofuse("verify --spot 2 --level tokens " + receipt()).status, 2);
  fs::create_directory(folder_.file("empty"));
  for (const char* unread : {"empty", "nothing"}) {
    const Finished log = reprofuse("verify --log --level signature " + receipt() + " " + folder_.file(unread));
    EXPECT_EQ(log.status, 2) << log.out;
    EXPECT_TRUE(contains(log.out, "log: not checked: " + folder_.file(unread))) << log.out;
  }
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
