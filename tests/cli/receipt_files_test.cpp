// `reprofuse keys` and `generate --receipt` as a user meets them: which files they write and which they replace, and
// what a log of receipts is.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/receipt_command.hpp"

namespace reprofuse {
namespace {

TEST_F(ReceiptCommand, WithoutAKeyOrForABaselineThereIsNoReceipt) {
  const std::string file = folder_.file("none.json");
  const Finished keyless = reprofuse("generate --prompt-tokens 1,2 --receipt " + file, "REPROFUSE_KEY= ");
  EXPECT_EQ(keyless.status, 1);
  EXPECT_TRUE(contains(keyless.err, "reprofuse keys new FILE")) << keyless.err;
  chmod(folder_.file("key").c_str(), 0644);
  EXPECT_TRUE(contains(generate("--receipt " + file).err, "others than its owner may use it (mode 644)"));
  chmod(folder_.file("key").c_str(), 0600);
  const Finished baseline = generate("--numerics sgemm --receipt " + file);
  EXPECT_EQ(baseline.status, 2);
  EXPECT_TRUE(contains(baseline.err, "pins no bits")) << baseline.err;
  EXPECT_EQ(baseline.out, "") << "nothing was computed";
  EXPECT_EQ(generate("--digest chain-1 --receipt " + file).status, 2);
  EXPECT_EQ(generate("--receipt-roots").status, 2) << "without --receipt";
  EXPECT_EQ(reprofuse("keys new " + folder_.file("key")).status, 1) << "it is there already";
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

TEST_F(ReceiptCommand, WritesToStdoutWithoutReplacingIt) {
  EXPECT_EQ(generate("--receipt -").status, 2);
  EXPECT_FALSE(fs::exists("-"));
  const Finished both = generate("--receipt /dev/stdout");
  EXPECT_EQ(both.status, 0) << both.err;
  EXPECT_TRUE(contains(both.out, "\n{\"payload\":")) << "the answer, then the receipt: " << both.out;
  const std::string place = folder_.file("place");
  write_file(place, "before");
  fs::create_symlink(place, folder_.file("link"));
  EXPECT_EQ(generate("--receipt " + folder_.file("link")).status, 0);
  EXPECT_TRUE(fs::is_symlink(folder_.file("link"))) << "a file of its own is replaced, not the link";
  EXPECT_TRUE(read_whole_file(place).starts_with("{\"payload\":"));
}

TEST_F(ReceiptCommand, AKeyOfTheWrongKindIsCalledThat) {
  const std::string secret = folder_.file("key"), open_key = folder_.file("key.pem");
  const Finished as_secret =
      reprofuse("generate --prompt-tokens 1,2 --receipt " + folder_.file("x"), "REPROFUSE_KEY=" + open_key + " ");
  EXPECT_TRUE(contains(as_secret.err, "is a public key; the secret one is wanted")) << as_secret.err;
  const std::string file = receipt();
  EXPECT_TRUE(contains(reprofuse("keys show " + file).err, "holds no private key in PEM"));
  EXPECT_TRUE(
      contains(reprofuse("verify --key " + secret + " " + file).err, "is a secret key; its public part is wanted"));
  EXPECT_TRUE(contains(reprofuse("verify --key " + folder_.path() + " " + file).err, "is a folder"));
  EXPECT_EQ(reprofuse("verify --level signature --key " + open_key + " " + file).status, 0);
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
  const Finished whole = reprofuse(verify + "--log " + log[0] + " " + log[1] + " " + log[2]);
  EXPECT_EQ(whole.status, 0);
  EXPECT_TRUE(contains(whole.out, "log: unbroken, from its beginning, 3 receipts by the key ")) << whole.out;
  const Finished late = reprofuse(verify + "--log " + log[1] + " " + log[2]);
  EXPECT_EQ(late.status, 0);
  EXPECT_TRUE(contains(late.out, "log: unbroken, from the middle ")) << late.out;
  const Finished gap = reprofuse(verify + "--log " + log[0] + " " + log[2]);
  EXPECT_EQ(gap.status, 1);
  EXPECT_TRUE(contains(gap.out, "wrong       previous: it does not follow " + log[0])) << gap.out;
  EXPECT_TRUE(contains(gap.out, "log: broken at " + log[2] + ": it does not follow " + log[0])) << gap.out;
  EXPECT_EQ(reprofuse(verify + log[0] + " " + log[2]).status, 0) << "without --log it is not asked";
  ASSERT_EQ(reprofuse("keys new " + folder_.file("other")).status, 0);
  const std::string by_other = folder_.file("by-other");
  const std::string follow =
      "generate --prompt-tokens 1,2 --max-tokens 2 --receipt " + by_other + " --receipt-previous ";
  const Finished other = reprofuse(follow + log[0], "REPROFUSE_KEY=" + folder_.file("other") + " ");
  EXPECT_EQ(other.status, 2) << "a log has one key";
  EXPECT_TRUE(contains(other.err, "it is by the key ")) << other.err;
  nlohmann::json forged = nlohmann::json::parse(read_whole_file(log[0]));
  forged["signatures"][0]["sig"] = std::string(86, 'A') + "==";
  write_file(folder_.file("forged"), forged.dump());
  EXPECT_EQ(generate("--receipt " + by_other + " --receipt-previous " + folder_.file("forged")).status, 2);
  EXPECT_FALSE(fs::exists(by_other));
}

TEST_F(ReceiptCommand, AServerRefusesALogThatIsNotItsOwnBeforeItLoads) {
  if (reprofuse("serve --help").status != 0) GTEST_SKIP() << "this build has no server";
  const auto serve = [&](const std::string& log, const std::string& key, const std::string& more = "") {
    return reprofuse("serve --port 0 --receipt-dir " + log + " " + more,
                     "REPROFUSE_KEY=" + folder_.file(key) + " timeout -s INT 20 ");
  };
  const std::string log = folder_.file("log");
  fs::create_directory(log);
  fs::copy(receipt(), log + "/000000000002.receipt.json");
  ASSERT_EQ(reprofuse("keys new " + folder_.file("other")).status, 0);
  for (const Finished& refused :
       {serve(log, "other"), serve(folder_.file("nowhere"), "key"), serve(log, "key", "--numerics layercast")}) {
    EXPECT_EQ(refused.status, 2) << refused.err;
    EXPECT_FALSE(contains(refused.err, "loading")) << refused.err;
  }
  const Finished own =
      reprofuse("serve --port 0 --receipt-dir " + log, "REPROFUSE_KEY=" + folder_.file("key") + " timeout -s INT 5 ");
  EXPECT_TRUE(contains(own.err, "kept in " + log + ", going on after number 2")) << own.err;
  EXPECT_TRUE(contains(own.err, "warning: 1 of the 2 receipts before are missing")) << own.err;
}

}  // namespace
}  // namespace reprofuse
