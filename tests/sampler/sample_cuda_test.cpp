// The sampler on the GPU gives the reference's tokens and log-probabilities, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "kernels/backend.hpp"
#include "kernels/cuda/runtime/device.hpp"
#include "kernels/cuda/sampler/sample.hpp"
#include "kernels/reference/reference.hpp"
#include "reprofuse/error.hpp"
#include "reprofuse/sampler.hpp"
#include "sampler/sample_case.hpp"
#include "support/device_buffer.hpp"

namespace reprofuse {
namespace {

using cuda::DeviceBuffer;
using kernels::SampleRow;

template <class T>
DeviceBuffer upload(const std::vector<T>& values) {
  DeviceBuffer buffer(0, values.size() * sizeof(T));
  cuda::copy_to_device(buffer.as<void>(), values.data(), values.size() * sizeof(T));
  return buffer;
}

class SampleCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      context_ = Context::cuda();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  std::optional<Context> context_;
};

// Rows [requests, vocabulary], one for every kind of request.
struct Batch {
  explicit Batch(std::int64_t size)
      : vocabulary(size), words(testing::seeded_seen(3, size)), ids(testing::ids_of(words, size)) {
    for (const SamplingParams& request : testing::all_params())
      for (const int logprobs : {-1, 0, static_cast<int>(std::min<std::int64_t>(size, 20))}) {
        const std::uint64_t seed = params.size();
        const auto row = seed % 2 == 0 ? testing::seeded_logits(seed, size) : testing::rough_logits(seed, size);
        logits.insert(logits.end(), row.begin(), row.end());
        params.push_back(request);
        counts.push_back(logprobs);
      }
  }
  std::vector<SampleRow> rows(const float* data) const {
    std::vector<SampleRow> all;
    for (std::size_t i = 0; i < params.size(); ++i)
      all.push_back({.logits = data + static_cast<std::int64_t>(i) * vocabulary,
                     .seen = params[i].repetition_penalty != 1 ? words.data() : nullptr,
                     .params = params[i],
                     .position = i,
                     .given = i % 5 == 4 ? static_cast<std::int32_t>(static_cast<std::int64_t>(i) % vocabulary) : -1,
                     .logprobs = counts[i],
                     .logits_root = i % 3 != 1});
    return all;
  }
  std::vector<kernels::SeenIds> seen() const {
    std::vector<kernels::SeenIds> all(params.size());
    for (std::size_t i = 0; i < params.size(); ++i)
      if (params[i].repetition_penalty != 1) all[i] = {.to = static_cast<std::int32_t>(i), .added = ids};
    return all;
  }
  std::int64_t vocabulary;
  std::vector<std::uint32_t> words;
  std::vector<std::int32_t> ids;
  std::vector<float> logits;
  std::vector<SamplingParams> params;
  std::vector<int> counts;
};

TEST_F(SampleCuda, EveryRequestGivesTheReference) {
  for (const std::int64_t vocabulary : {1, 2, 31, 33, 1000, 1025, 32'000, 128'256}) {
    const Batch batch(vocabulary);
    const DeviceBuffer logits = upload(batch.logits);
    std::vector<SampleResult> results(batch.params.size());
    const auto count = static_cast<std::int64_t>(results.size());
    cuda::make_sampler(0, vocabulary, count)->run(batch.rows(logits.as<float>()), batch.seen(), results, nullptr);
    const std::vector<SampleRow> host = batch.rows(batch.logits.data());
    for (std::size_t i = 0; i < host.size(); ++i)
      ASSERT_TRUE(testing::equal(results[i], reference::sample(host[i], vocabulary))) << vocabulary << " case " << i;
  }
}

TEST_F(SampleCuda, ARowIsTheSameAloneAndInABatch) {
  const Batch batch(32'000);
  const DeviceBuffer logits = upload(batch.logits);
  const std::vector<SampleRow> rows = batch.rows(logits.as<float>());
  std::vector<SampleResult> together(rows.size()), again(rows.size());
  const auto sampler = cuda::make_sampler(0, batch.vocabulary, static_cast<std::int64_t>(rows.size()));
  const std::vector<kernels::SeenIds> seen = batch.seen();
  sampler->run(rows, seen, together, nullptr);
  sampler->run(rows, seen, again, nullptr);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    SampleResult alone;
    sampler->run({&rows[i], 1}, {&seen[i], 1}, {&alone, 1}, nullptr);
    EXPECT_TRUE(testing::equal(alone, together[i])) << i;
    EXPECT_TRUE(testing::equal(again[i], together[i])) << i;
  }
}

TEST_F(SampleCuda, SlotsMoveNoToken) {
  for (const std::int64_t vocabulary : {33, 5000}) testing::expect_that_slots_move_no_token(*context_, vocabulary, 200);
  testing::expect_that_slots_move_no_token(*context_, 128'256, 6);
}

TEST_F(SampleCuda, ALogitThatIsNotFiniteIsAnErrorWithItsPlace) {
  constexpr std::int64_t kVocabulary = 5000;
  const std::vector<SampleInput> inputs(2);
  const Sampler sampler(*context_, kVocabulary, 2);
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    std::vector<float> values(2 * kVocabulary);
    values[kVocabulary + 77] = values[kVocabulary + 4000] = bad;
    const DeviceBuffer logits = upload(values);
    try {
      sampler.run({logits.as<float>(), 2, kVocabulary, kVocabulary}, inputs);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kNonFinite);
      EXPECT_STREQ(error.what(), "sampler: row 1: the logit of id 77 is not finite");
    }
  }
}

TEST_F(SampleCuda, RootsOfRowsAreTheReferencesAndSeeEveryBit) {
  for (const std::int64_t vocabulary : testing::kLeafEdges) {
    const auto logits = testing::rows_with_other_roots(vocabulary);
    std::vector<DeviceBuffer> uploaded;
    std::vector<SampleRow> rows;
    for (const std::vector<float>& row : logits) {
      uploaded.push_back(upload(row));
      rows.push_back({.logits = uploaded.back().as<float>(), .params = {}, .logits_root = true});
    }
    std::vector<SampleResult> results(rows.size());
    cuda::make_sampler(0, vocabulary, static_cast<std::int64_t>(rows.size()))->run(rows, {}, results, nullptr);
    std::set<std::string> roots;
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_TRUE(std::ranges::equal(results[i].logits_root, reference::logits_root(logits[i])))
          << vocabulary << " " << i;
      roots.emplace(std::begin(results[i].logits_root), std::end(results[i].logits_root));
    }
    EXPECT_EQ(roots.size(), logits.size()) << vocabulary;
  }
}

TEST_F(SampleCuda, AnotherSeedIsSeen) {
  const std::vector<float> flat(1000);
  const DeviceBuffer logits = upload(flat);
  const Sampler sampler(*context_, 1000, 1);
  SampleInput input;
  input.params.temperature = 1;
  const ConstMatrix row{logits.as<float>(), 1, 1000, 1000};
  const std::int32_t first = sampler.run(row, {&input, 1})[0].token;
  EXPECT_EQ(first, sample(Context::cpu(), flat, input.params, {}, 0));
  input.params.seed = 1;
  EXPECT_NE(sampler.run(row, {&input, 1})[0].token, first);
}

}  // namespace
}  // namespace reprofuse
