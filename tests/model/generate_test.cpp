// The oracle of engine tests gives the golden answer; and what it gives, tokens and the digest of all logits, is a
// function of the model, the prompt and the sampling alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/reference/reference.hpp"
#include "model/logits_digest.hpp"
#include "support/bundled_model.hpp"
#include "support/plain_generate.hpp"

namespace reprofuse::model {
namespace {

constexpr std::int64_t kShortAnswer = 16;

PlainOptions at_most(std::int64_t max_tokens, const SamplingParams& sampling = {}) {
  PlainOptions options;
  options.max_tokens = max_tokens;
  options.sampling = sampling;
  return options;
}

PlainOptions in_chunks(PlainOptions options, std::int64_t prefill_chunk, std::int32_t page_size = kDefaultPageSize) {
  options.prefill_chunk = prefill_chunk;
  options.page_size = page_size;
  return options;
}

// Settings whose answers differ from each other, so that a test over all of them sees every part of the sampler.
struct NamedSampling {
  const char* name;
  SamplingParams params;
};

std::vector<NamedSampling> samplings() {
  return {{"greedy", {}},
          {"temperature 0.8", {.temperature = 0.8F, .seed = 7}},
          {"temperature 4", {.temperature = 4.0F, .seed = 1}},
          {"temperature 4, another seed", {.temperature = 4.0F, .seed = 2}},
          {"temperature 4 with limits", {.temperature = 4.0F, .top_k = 40, .top_p = 0.9F, .min_p = 0.01F, .seed = 1}},
          {"penalty", {.repetition_penalty = 4.0F}}};
}

TEST(Generate, TheGoldenAnswerComesOutOfEveryInstructionSet) {
  for (const char* numerics : {"fma-1", "exact-1", "exact-2", "int16-1"})
    for (const Isa isa : supported_isas()) {
      SCOPED_TRACE(std::string(numerics) + " on " + std::string(isa_name(isa)));
      const GoldenAnswer golden = golden_answer(numerics);
      const auto model = bundled_model(Context::cpu(numerics, isa));
      PlainOptions options = at_most(200);
      options.stop_tokens = golden.stop_tokens;
      const PlainAnswer result = plain_generate(*model, golden.prompt, options);
      EXPECT_EQ(result.tokens, golden.tokens);
      EXPECT_EQ(result.digest, golden.digest);
      EXPECT_EQ(result.chain_digest, golden.chain_digest);
      EXPECT_TRUE(result.stopped);
    }
}

TEST(Generate, ThreadsMoveNoBit) {
  const GoldenAnswer golden = golden_answer();
  const PlainOptions options = at_most(4);
  const PlainAnswer expected =
      plain_generate(*bundled_model(Context::cpu("fma-1", std::nullopt, 1)), golden.prompt, options);
  for (const int threads : {2, 3, 16}) {
    const auto model = bundled_model(Context::cpu("fma-1", std::nullopt, threads));
    const PlainAnswer result = plain_generate(*model, golden.prompt, options);
    EXPECT_EQ(result.tokens, expected.tokens) << threads << " threads";
    EXPECT_EQ(result.digest, expected.digest) << threads << " threads";
  }
}

TEST(Generate, ChunksAndPagesMoveNoBitUnderAnySampling) {
  const std::vector<std::int32_t> prompt = read_json(REPROFUSE_TRANSFORMERS_DATA).at("greedy")[0].at("prompt");
  const auto model = bundled_model(Context::cpu());
  for (const NamedSampling& sampling : samplings()) {
    const PlainOptions options = at_most(kShortAnswer, sampling.params);
    const PlainAnswer expected = plain_generate(*model, prompt, options);
    for (const std::int64_t chunk : {1, 7, 64, 65})
      EXPECT_EQ(plain_generate(*model, prompt, in_chunks(options, chunk)).digest, expected.digest)
          << sampling.name << ", chunks of " << chunk;
    for (const std::int32_t page_size : {16, 32, 256}) {
      const PlainAnswer result = plain_generate(*model, prompt, in_chunks(options, 33, page_size));
      EXPECT_EQ(result.digest, expected.digest) << sampling.name << ", pages of " << page_size;
      EXPECT_EQ(result.tokens, expected.tokens) << sampling.name << ", pages of " << page_size;
    }
  }
}

// A prompt longer than the largest chunk, so that every chunk size really cuts it.
TEST(Generate, ALongPromptMayBeCutAnywhere) {
  const GoldenAnswer golden = golden_answer();
  std::vector<std::int32_t> prompt;
  while (prompt.size() <= 512) prompt.insert(prompt.end(), golden.prompt.begin(), golden.prompt.end());
  const auto model = bundled_model(Context::cpu(), 1024);
  const PlainAnswer expected = plain_generate(*model, prompt, in_chunks(at_most(4), 1000));
  for (const std::int64_t chunk : {1, 7, 64, 65, 512})
    EXPECT_EQ(plain_generate(*model, prompt, in_chunks(at_most(4), chunk)).digest, expected.digest)
        << "chunks of " << chunk;
}

// The negative control of the three tests above: what may change an answer does change it, and its digest.
TEST(Generate, AnotherSamplingPromptOrContractHasAnotherDigest) {
  const GoldenAnswer golden = golden_answer();
  const auto model = bundled_model(Context::cpu());
  std::vector<std::string> digests;
  std::vector<std::vector<std::int32_t>> answers;
  for (const NamedSampling& sampling : samplings()) {
    if (std::string(sampling.name) == "temperature 0.8") continue;  // this model is so sure that it may stay greedy
    const PlainAnswer result = plain_generate(*model, golden.prompt, at_most(kShortAnswer, sampling.params));
    digests.push_back(result.digest);
    answers.push_back(result.tokens);
  }
  std::vector<std::int32_t> other_prompt = golden.prompt;
  other_prompt.erase(other_prompt.begin() + 5);
  digests.push_back(plain_generate(*model, other_prompt, at_most(kShortAnswer)).digest);
  digests.push_back(plain_generate(*model, golden.prompt, at_most(kShortAnswer - 1)).digest);
  for (const char* numerics : {"fma-1-kv16", "exact-1", "exact-1-kv16", "exact-2", "int16-1"})
    digests.push_back(
        plain_generate(*bundled_model(Context::cpu(numerics)), golden.prompt, at_most(kShortAnswer)).digest);
  std::sort(digests.begin(), digests.end());
  EXPECT_EQ(std::adjacent_find(digests.begin(), digests.end()), digests.end());
  std::sort(answers.begin(), answers.end());
  EXPECT_EQ(std::adjacent_find(answers.begin(), answers.end()), answers.end());
}

// Made with Python: chain = bytes(32); for row in ([1.0, -2.5, 0.15625], [-0.0, 3.0e-39, 1e38]):
//   chain = hashlib.sha256(chain + struct.pack("<3f", *row)).digest()
TEST(LogitsDigest, OfTheKindChain1IsTheDocumentedChain) {
  LogitsDigest digest(DigestKind::kChain1);
  EXPECT_EQ(digest.text(), "") << "of no row";
  digest.add_row(std::vector<float>{1.0F, -2.5F, 0.15625F});
  EXPECT_EQ(digest.text(), "53fbd539af1c3294b362e51cf4998611f25f176c289e156c623fced81f2c90e9");
  digest.add_row(std::vector<float>{-0.0F, 3.0e-39F, 1e38F});
  EXPECT_EQ(digest.text(), "80f1932468b5c745c0f76fcd0a6339a4902507fd6df9ff990d3f0a38090b6cb7");
}

void add_row(LogitsDigest& digest, std::span<const float> row) {
  std::uint8_t root[32];
  std::ranges::copy(reference::logits_root(row), root);
  digest.add_root(root);
}

// Made with Python, by the definition of RFC 6962:
//   def root(leaves): k = 1 << (len(leaves) - 1).bit_length() - 1
//     return leaves[0] if len(leaves) == 1 else sha256(b"\1" + root(leaves[:k]) + root(leaves[k:]))
//   for n in (3, 256, 257, 1281): row = struct.pack(f"<{n}f", *(i / 8 - n for i in range(n)))
//     leaves = [sha256(b"\0" + row[i : i + 1024]) for i in range(0, len(row), 1024)]
//     chain = sha256(b"\2" + chain + root(leaves))
TEST(LogitsDigest, OfTheKindTree1ChainsTheDocumentedRoots) {
  LogitsDigest digest(DigestKind::kTree1);
  EXPECT_EQ(digest.text(), "") << "of no row";
  const std::pair<int, const char*> expected[] = {
      {3, "6157a6083c8f8b0608ae15bf446ecdbab0de1bbef778260e9164827d358dcb43"},
      {256, "88d945b941d41f6a7730d95cfdaeeba863037d7392d6327a4efbe2778a73672b"},
      {257, "0d5da396e4e124110c37eef1a6c376c7f68e7d973b4f7063af1c95d0927f769b"},
      {1281, "15b4e7313fe6be51dac13e6927775357985db4c3d76203305f7d631ff59671f3"}};
  for (const auto& [count, hex] : expected) {
    std::vector<float> row;
    for (int i = 0; i < count; ++i) row.push_back(static_cast<float>(i) / 8 - static_cast<float>(count));
    add_row(digest, row);
    EXPECT_EQ(digest.text(), std::string("tree-1:") + hex) << count;
  }
}

TEST(LogitsDigest, SeesTheSignOfZeroAndTheOrderOfRows) {
  const std::vector<float> zero = {0.0F};
  const std::vector<float> minus_zero = {-0.0F};
  for (const DigestKind kind : {DigestKind::kTree1, DigestKind::kChain1}) {
    const auto of = [&](const std::vector<float>& first, const std::vector<float>& second) {
      LogitsDigest digest(kind);
      for (const auto& row : {first, second}) kind == DigestKind::kTree1 ? add_row(digest, row) : digest.add_row(row);
      return digest.text();
    };
    EXPECT_NE(of(zero, minus_zero), of(minus_zero, zero));
    EXPECT_EQ(of(zero, minus_zero), of(zero, minus_zero));
  }
}

}  // namespace
}  // namespace reprofuse::model
