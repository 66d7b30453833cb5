// Which receipts are a log.
#include "receipt/log.hpp"

#include <nlohmann/json.hpp>

#include "receipt/receipt_case.hpp"
#include "support/messages.hpp"

namespace reprofuse::receipt {
namespace {

class LogTest : public ReceiptTest {
 protected:
  // Receipts that follow each other; the second hides its prompt.
  std::vector<Evidence> log_of(std::size_t count) const {
    const engine::Request request = short_request({5, 6, 7});
    const AnswerSteps answer = answer_of(request);
    Issuer issuer = this->issuer();
    std::vector<Evidence> all;
    for (std::size_t i = 0; i < count; ++i) {
      const ReceiptOptions options{.hide_prompt = i == 1};
      all.push_back(examine(issuer.issue(request, answer, options).envelope.text(), fmt::format("{}.json", i), {}));
    }
    return all;
  }

  static LogReport check(std::vector<Evidence>& all, bool must_follow = true) {
    std::vector<Evidence*> pointers;
    for (Evidence& one : all) pointers.push_back(&one);
    return check_log(pointers, must_follow);
  }
  static std::string proven(const Evidence& one) { return fmt::format("{}", fmt::join(one.report.proven, " ")); }
  static std::string not_proven(const Evidence& one) {
    return fmt::format("{}", fmt::join(one.report.not_proven, " "));
  }
};

TEST_F(LogTest, WhatWasNotReplayedIsFollowedAllTheSame) {
  std::vector<Evidence> all = log_of(3);
  check_needs(all[1], Level::kLogits);
  ASSERT_EQ(all[1].report.verdict_text(), "missing: opening");
  const LogReport log = check(all);
  EXPECT_EQ(log.verdict, Verdict::kEqual) << log.text;
  EXPECT_EQ(log.text, "unbroken, from its beginning, 3 receipts by the key " + key_.public_key().id());
  EXPECT_TRUE(all[2].report.is_open()) << all[2].report.problem;
  EXPECT_TRUE(contains(proven(all[1]), "follows 0.json"));
  EXPECT_TRUE(contains(proven(all[2]), "follows 1.json"));
}

TEST_F(LogTest, AGapIsOneAndAMissingBeginningIsSaid) {
  std::vector<Evidence> gap = log_of(3);
  gap.erase(gap.begin() + 1);
  const LogReport broken = check(gap);
  EXPECT_EQ(broken.verdict, Verdict::kDiverged);
  EXPECT_EQ(broken.text, "broken at 2.json: it does not follow 0.json");
  EXPECT_EQ(gap[1].report.verdict, Verdict::kDiverged);
  std::vector<Evidence> not_asked = log_of(3);
  not_asked.erase(not_asked.begin() + 1);
  check(not_asked, false);
  EXPECT_TRUE(not_asked[1].report.is_open()) << "it need not be a log";
  std::vector<Evidence> middle = log_of(3);
  middle.erase(middle.begin());
  const LogReport late = check(middle);
  EXPECT_EQ(late.verdict, Verdict::kEqual);
  EXPECT_TRUE(contains(late.text, "unbroken, from the middle (what 1.json follows is not here), 2 receipts"))
      << late.text;
}

TEST_F(LogTest, AnotherKeyIsNamed) {
  std::vector<Evidence> all = log_of(1);
  const SigningKey other = SigningKey::make(folder_.file("other"));
  Issuer theirs(other, issuer_facts(model_->context(), artifacts_, "1.2.3"));
  theirs.continue_after(*all[0].envelope);
  const engine::Request request = short_request({5, 6, 7});
  all.push_back(examine(theirs.issue(request, answer_of(request), {}).envelope.text(), "theirs.json", {}));
  for (const bool must_follow : {false, true}) {
    std::vector<Evidence> copy = all;
    EXPECT_EQ(check(copy, must_follow).verdict, Verdict::kDiverged);
    const std::string said = must_follow ? copy[1].report.problem : not_proven(copy[1]);
    EXPECT_TRUE(contains(said, "it follows 0.json, but by another key: " + key_.public_key().id())) << said;
    EXPECT_EQ(copy[1].report.is_open(), !must_follow);
  }
}

TEST_F(LogTest, AForgedOneBreaksTheLogAndAccusesNoOther) {
  std::vector<Evidence> all = log_of(3);
  nlohmann::json forged = nlohmann::json::parse(all[1].envelope->text());
  forged["signatures"][0]["sig"] = std::string(86, 'A') + "==";
  all[1] = examine(forged.dump(), "1.json", {});
  const LogReport log = check(all);
  EXPECT_EQ(log.text, "broken at 1.json: its signature does not hold");
  EXPECT_EQ(all[1].report.verdict, Verdict::kSignature);
  EXPECT_TRUE(all[2].report.is_open()) << all[2].report.problem;
  EXPECT_TRUE(contains(not_proven(all[2]), "it follows 1.json, whose signature does not hold"));
}

// What cannot be read has not diverged, and nobody knows whether the log is whole.
TEST_F(LogTest, WhatCannotBeReadBreaksNothing) {
  Evidence unread;
  unread.name = "unread.json";
  unread.report.refuse(Verdict::kNotTried, "unread.json: cannot be read: Permission denied");
  for (std::size_t place = 0; place < 3; ++place) {
    std::vector<Evidence> all = log_of(3);
    all[place] = unread;
    const LogReport log = check(all);
    EXPECT_EQ(log.verdict, Verdict::kNotTried) << place;
    EXPECT_EQ(log.text, "not checked: unread.json: cannot be read: Permission denied");
    for (const Evidence& one : all) EXPECT_NE(one.report.verdict, Verdict::kDiverged) << one.report.problem;
    const bool says = place < 2 && contains(not_proven(all[place + 1]), "whether it follows unread.json is not known");
    EXPECT_EQ(says, place < 2);
  }
  std::vector<Evidence> gap = log_of(4);
  gap.erase(gap.begin() + 1);
  gap.push_back(unread);
  EXPECT_EQ(check(gap).text, "broken at 2.json: it does not follow 0.json");
}

}  // namespace
}  // namespace reprofuse::receipt
