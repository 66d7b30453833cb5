#include <gtest/gtest.h>

#include <cmath>

#include "numerics/float_ops.hpp"
#include "study/seeded/models.hpp"
#include "support/files.hpp"
#include "support/messages.hpp"

namespace reprofuse::study {
namespace {

using checkpoint::ExpectedTensor;
using checkpoint::TensorRole;

double root_mean_square(const std::vector<std::byte>& bytes, DType dtype) {
  double sum = 0;
  const auto count = static_cast<std::int64_t>(bytes.size() / dtype_bytes(dtype));
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = widen(dtype, load_weight(bytes.data(), dtype, i));
    sum += value * value;
  }
  return std::sqrt(sum / static_cast<double>(count));
}

TEST(RandomCheckpoint, MatricesKeepTheSizeOfWhatTheyMultiply) {
  ThreadPool pool(2);
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32})
    for (const std::int64_t inputs : {16, 100, 1000, 8192, 1 << 20}) {
      const ExpectedTensor matrix = {"m", {(1 << 20) / inputs, inputs}, TensorRole::kMatrix};
      const double scale = root_mean_square(random_tensor(matrix, dtype, 3, pool), dtype) * std::sqrt(inputs);
      EXPECT_GT(scale, 0.9) << inputs;
      EXPECT_LT(scale, 2.4) << inputs;
    }
}

TEST(RandomCheckpoint, NormWeightsAreNearOneAndNotAllAlike) {
  ThreadPool pool(2);
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    const auto bytes = random_tensor({"n", {1000}, TensorRole::kNorm}, dtype, 3, pool);
    int below = 0;
    for (std::int64_t i = 0; i < 1000; ++i) {
      const float value = widen(dtype, load_weight(bytes.data(), dtype, i));
      EXPECT_GE(value, 0.9375F);
      EXPECT_LT(value, 1.125F);
      below += value < 1 ? 1 : 0;
    }
    EXPECT_NEAR(below, 500, 80);
  }
}

TEST(RandomCheckpoint, TensorsDifferByNameAndSeedAndNotByThreads) {
  ThreadPool one(1);
  ThreadPool four(4);
  const ExpectedTensor a = {"a", {300, 500}, TensorRole::kMatrix};
  const ExpectedTensor b = {"b", {300, 500}, TensorRole::kMatrix};
  EXPECT_EQ(random_tensor(a, DType::kBF16, 1, one), random_tensor(a, DType::kBF16, 1, four));
  EXPECT_NE(random_tensor(a, DType::kBF16, 1, one), random_tensor(b, DType::kBF16, 1, one));
  EXPECT_NE(random_tensor(a, DType::kBF16, 1, one), random_tensor(a, DType::kBF16, 2, one));
}

TEST(RandomCheckpoint, RefusesWhatCannotBeWritten) {
  ThreadPool pool(1);
  RandomCheckpoint random;
  random.config = small_config(checkpoint::Architecture::kLlama);
  random.shards = 0;
  const TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { write_random_checkpoint(folder.path(), random, pool); }),
            folder.path() + ": 30 tensors cannot be put into 0 shards");
  random.shards = 1;
  random.config.head_dim = 3;
  EXPECT_EQ(error_of([&] { write_random_checkpoint(folder.path(), random, pool); }),
            folder.path() + ": head_dim 3 is odd, and rotary embedding turns pairs");
}

}  // namespace
}  // namespace reprofuse::study
