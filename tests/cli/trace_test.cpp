// `reprofuse trace` and `reprofuse diff` as they are used.
#include "study/trace/trace.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/run_cli.hpp"
#include "ops/contract.hpp"

namespace reprofuse {
namespace {

const std::string kText = " --prompt '12+30=' --max-tokens 3";

TEST(TraceCommand, ASavedTraceIsWhatAnotherInstructionSetComputes) {
  const TemporaryFolder folder;
  const std::string file = folder.file("trace.safetensors");
  const Finished saved = reprofuse("trace --threads 1 --out " + file + kText);
  ASSERT_EQ(saved.status, 0) << saved.err;
  EXPECT_TRUE(contains(saved.out, "position     6  148 results, logits f283cc50c156dd3c")) << saved.out;
  const Finished piped =
      reprofuse("trace --prompt - --max-tokens 3 --threads 1 --out " + folder.file("piped"), "echo 12+30= | ");
  EXPECT_EQ(piped.out, saved.out) << piped.err;
  const Finished same = reprofuse("diff " + file + " cpu");
  EXPECT_EQ(same.status, 0) << same.err;
  EXPECT_TRUE(contains(same.out, "3 steps, every op the same bits\n")) << same.out;

  const std::string scalar = folder.file("scalar.safetensors");
  ASSERT_EQ(reprofuse("trace --isa scalar --prefill-chunk 2 --out " + scalar + kText).status, 0);
  EXPECT_EQ(reprofuse("diff " + file + " " + scalar).status, 0);
}

// Also by contracts whose caches keep integers.
TEST(TraceCommand, EveryContractCanBeTracedAndHasTheSameBitsOnEveryInstructionSet) {
  const TemporaryFolder folder;
  for (const Numerics& contract : contracts()) {
    const std::string name(contract.name), file = folder.file(name);
    const Finished saved = reprofuse("trace --isa scalar --numerics " + name + " --out " + file + kText);
    ASSERT_EQ(saved.status, 0) << name << ": " << saved.err;
    const Finished same = reprofuse("diff " + file + " cpu");
    EXPECT_EQ(same.status, 0) << name << ": " << same.out << same.err;
    EXPECT_TRUE(contains(same.out, "3 steps, every op the same bits\n")) << same.out;
  }
  const Finished integers = reprofuse("diff cpu/exact-1 cpu/exact-2" + kText);
  EXPECT_TRUE(contains(integers.out, "model.layers.0.self_attn.rotary.keys.units in B\n")) << integers.out;
}

TEST(TraceCommand, AChatIsTracedAsGenerateAnswersIt) {
  const Finished answer = reprofuse("generate --chat --system 'Be brief.' --prompt '2 + 3?' --json");
  ASSERT_EQ(answer.status, 0) << answer.err;
  const auto json = nlohmann::json::parse(answer.out);
  const Finished run = reprofuse("trace --chat --system 'Be brief.' --prompt '2 + 3?' --max-tokens 4 --json");
  ASSERT_EQ(run.status, 0) << run.err;
  auto text = json.at("prompt_tokens").get<std::vector<int>>();
  const auto given = json.at("tokens").get<std::vector<int>>();
  ASSERT_GE(given.size(), 3U);
  text.insert(text.end(), given.begin(), given.begin() + 3);
  EXPECT_EQ(nlohmann::json::parse(run.out).at("tokens").get<std::vector<int>>(), text);
  for (const char* nonsense : {"--system a --prompt b", "--date 2026-01-01 --prompt b", "--chat --prompt-tokens 1"})
    EXPECT_EQ(reprofuse(std::string("trace --json ") + nonsense).status, 2) << nonsense;
}

// Only the positions that were traced are compared, and attention reads the others, too.
TEST(TraceCommand, AttentionThatDiffersFirstHintsAtPositionsThatWereNotCompared) {
  const TemporaryFolder folder;
  const std::string file = folder.file("trace"), other = folder.file("other");
  ASSERT_EQ(reprofuse("trace --digests-only --out " + file + " --prompt '12+30='").status, 0);
  study::Trace trace = study::read_trace(file);
  for (study::TracedResult& result : trace.steps[0].results)
    if (result.op == "model.layers.1.self_attn.attention") result.sha256[0] = result.sha256[0] == '0' ? '1' : '0';
  study::write_trace(other, trace);
  const Finished run = reprofuse("diff " + file + " " + other);
  EXPECT_EQ(run.status, 1) << run.err;
  EXPECT_EQ(run.out.substr(run.out.find("First")),
            "First difference: position 6, model.layers.1.self_attn.attention\n"
            "  which element is not known: a trace has digests alone\n"
            "  the op before it, model.layers.1.self_attn.rotary.values, left the same bits\n"
            "  it also reads keys and values of 6 positions before, not compared here; a trace with --positions 0-6 "
            "compares them\n"
            "0 of 1 steps have the same bits.\n"
            "Every step chooses the same token.\n");
}

TEST(TraceCommand, WhatOneTraceAloneHasIsToldAndOtherTextsAreADifference) {
  const TemporaryFolder folder;
  const std::string one = folder.file("one"), three = folder.file("three"), begin = folder.file("begin");
  ASSERT_EQ(reprofuse("trace --digests-only --prompt 12+30= --out " + one).status, 0);
  ASSERT_EQ(reprofuse("trace --digests-only --out " + three + kText).status, 0);
  ASSERT_EQ(reprofuse("trace --digests-only --prompt 12+30= --positions 0-2 --out " + begin).status, 0);
  const Finished longer = reprofuse("diff " + three + " " + one);
  EXPECT_EQ(longer.status, 0) << longer.err;
  EXPECT_EQ(longer.out.substr(longer.out.find("Not compared")),
            "Not compared: 2 steps that A alone has, 0 steps that B alone has.\n1 step, every op the same bits\n");
  const Finished apart = reprofuse("diff " + one + " " + begin);
  EXPECT_EQ(apart.status, 2);
  EXPECT_TRUE(contains(apart.err, "no step in common: they are of other positions")) << apart.err;
  const Finished other = reprofuse("diff --json " + begin + " " + [&] {
    const std::string file = folder.file("other");
    EXPECT_EQ(reprofuse("trace --digests-only --prompt 12-99= --positions 0-2 --out " + file).status, 0);
    return file;
  }());
  EXPECT_EQ(other.status, 1) << "the texts differ";
  const auto json = nlohmann::json::parse(other.out);
  EXPECT_EQ(json.at("text_differs_at"), 3);
  EXPECT_EQ(json.at("steps"), 3);
  EXPECT_EQ(json.at("first"), nullptr);
}

// Of all positions: where only the keys of an earlier one differ, attention is the first op of a later one.
TEST(TraceCommand, TheFirstOpOfABaselineThatDiffersIsALinearLayer) {
  const Finished run = reprofuse("diff cpu/fma-1 cpu/layercast --json --positions 0-5,6" + kText);
  if (contains(run.err, "libopenblas")) GTEST_SKIP() << run.err;
  ASSERT_EQ(run.status, 1) << run.err;
  const auto first = nlohmann::json::parse(run.out).at("first");
  EXPECT_TRUE(first.at("op").get<std::string>().starts_with("model.layers.0.self_attn.")) << first;
  EXPECT_TRUE(first.at("op").get<std::string>().ends_with("_proj")) << first;
  EXPECT_NE(first.at("a"), first.at("b"));
  EXPECT_EQ(run.err, "") << "a difference is a result, not an error";
}

TEST(TraceCommand, ContractsDifferWhereTheyAreDefinedTo) {
  const Finished linear = reprofuse("diff cpu/fma-1 cpu/exact-1" + kText);
  EXPECT_EQ(linear.status, 1);
  EXPECT_TRUE(contains(linear.out, "First difference: position 6, model.layers.0.self_attn.q_proj")) << linear.out;
  const Finished cache = reprofuse("diff cpu/fma-1 cpu/fma-1-kv16" + kText);
  EXPECT_EQ(cache.status, 1);
  EXPECT_TRUE(contains(cache.out, "model.layers.0.self_attn.rotary.keys\n  128 elements of f32 in A, 128 of bf16 in B"))
      << cache.out;
}

TEST(TraceCommand, WhatMakesNoSenseIsUsage) {
  const TemporaryFolder folder;
  const std::string file = folder.file("trace.safetensors");
  ASSERT_EQ(reprofuse("trace --digests-only --out " + file + kText).status, 0);
  for (const std::string& arguments :
       {std::string("trace --prompt a"), std::string("trace --json"),
        std::string("trace --json --prompt a --prompt-tokens 1"), std::string("diff cpu/fma-1 cpu/fma-1"),
        std::string("diff cpu/none cpu --prompt a"), std::string("diff nowhere cpu --prompt a"),
        "diff " + file + " cpu --prompt a", "diff " + file + " " + file + " --model x", "diff " + file + " cpu --chat",
        "diff " + file + " cpu --max-tokens 9", "diff " + file + " cpu --positions 3",
        "diff " + file + " cpu --prefill-chunk 1"})
    EXPECT_EQ(reprofuse(arguments).status, 2) << arguments;
  write_file(file, "no trace");
  const Finished broken = reprofuse("diff " + file + " cpu");
  EXPECT_EQ(broken.status, 2);
  EXPECT_TRUE(contains(broken.err, "trace.safetensors: is no safetensors file")) << broken.err;
  EXPECT_EQ(reprofuse("diff cpu/fma-1 cuda:99 --prompt a").status, 2) << "nothing was compared";
}

}  // namespace
}  // namespace reprofuse
