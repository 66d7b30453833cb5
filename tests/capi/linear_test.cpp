// The C ABI against the C++ API, and what it does with arguments that make no sense.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "capi/support.hpp"

namespace reprofuse::capi {
namespace {

constexpr std::int64_t kM = 5, kK = 1100, kStride = kK + 3;
constexpr std::int64_t kN[] = {33, 7};

class CApi : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(make_context("cpu", nullptr, nullptr, 2, &context_), REPROFUSE_OK) << reprofuse_last_error();
  }
  void TearDown() override {
    reprofuse_linear_destroy(linear_);
    reprofuse_context_destroy(context_);
  }

  reprofuse_weight weight(std::size_t i) const { return {weights_[i].data(), REPROFUSE_F32, kN[i], kK, kStride}; }
  void make_pair() {
    const reprofuse_weight list[] = {weight(0), weight(1)};
    reprofuse_linear_options options;
    ASSERT_EQ(reprofuse_linear_options_init(&options, sizeof options), REPROFUSE_OK);
    options.name = "pair";
    options.weight_use = REPROFUSE_WEIGHTS_TAKE;  // which a CPU packs all the same
    ASSERT_EQ(reprofuse_linear_create(context_, list, 2, &options, &linear_), REPROFUSE_OK) << reprofuse_last_error();
  }
  // Runs the pair on x_ and returns the status; the results are in y0_ and y1_.
  reprofuse_status run_pair() {
    size_t bytes = 0;
    EXPECT_EQ(reprofuse_linear_workspace_bytes(linear_, kM, &bytes), REPROFUSE_OK);
    const reprofuse::Workspace workspace(reprofuse::Context::cpu(), bytes);
    const reprofuse_output outputs[] = {{y0_.data(), kN[0], bias_.data()}, {y1_.data(), kN[1], nullptr}};
    return reprofuse_linear_run(linear_, x_.data(), kM, kStride, outputs, 2, workspace.data(), workspace.bytes(),
                                nullptr);
  }

  std::vector<float> x_ = operand(1, kM* kStride);
  std::vector<float> weights_[2] = {operand(2, kN[0] * kStride), operand(3, kN[1] * kStride)};
  std::vector<float> bias_ = operand(4, kN[0]);
  std::vector<float> y0_ = std::vector<float>(kM * kN[0]), y1_ = std::vector<float>(kM * kN[1]);
  reprofuse_context* context_ = nullptr;
  reprofuse_linear* linear_ = nullptr;
};

TEST_F(CApi, BitsEqualTheCppApi) {
  make_pair();
  ASSERT_EQ(run_pair(), REPROFUSE_OK) << reprofuse_last_error();

  const auto context = reprofuse::Context::cpu("fma-1", reprofuse::Isa::kScalar, 1);
  for (std::size_t i = 0; i < 2; ++i) {
    const reprofuse::WeightView view{weights_[i].data(), reprofuse::DType::kF32, kN[i], kK, kStride};
    const reprofuse::LinearLayer layer(context, {&view, 1});
    const reprofuse::Workspace workspace(context, layer.workspace_bytes(kM));
    std::vector<float> expected(static_cast<std::size_t>(kM * kN[i]));
    const reprofuse::LinearOutput output{{expected.data(), kM, kN[i], kN[i]}, i == 0 ? bias_.data() : nullptr};
    layer.run({x_.data(), kM, kK, kStride}, {&output, 1}, workspace);
    const std::vector<float>& actual = i == 0 ? y0_ : y1_;
    for (std::size_t j = 0; j < expected.size(); ++j)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(actual[j]), std::bit_cast<std::uint32_t>(expected[j]))
          << "output " << i << " element " << j;
  }
}

TEST_F(CApi, NonFiniteResultIsAStatusThatNamesThePlace) {
  make_pair();
  x_[2 * kStride + 4] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(run_pair(), REPROFUSE_NON_FINITE);
  EXPECT_NE(std::string(reprofuse_last_error()).find("'pair'"), std::string::npos) << reprofuse_last_error();
  EXPECT_NE(std::string(reprofuse_last_error()).find("row 2"), std::string::npos) << reprofuse_last_error();
}

TEST_F(CApi, DescriptionsNameTheDeviceAndTheKernels) {
  make_pair();
  EXPECT_EQ(std::string(reprofuse_context_description(context_)).substr(0, 4), "cpu ");
  EXPECT_NE(std::string(reprofuse_linear_implementation(linear_)), "");
}

TEST_F(CApi, LayerOutlivesItsContext) {
  make_pair();
  reprofuse_context_destroy(context_);
  context_ = nullptr;
  EXPECT_EQ(run_pair(), REPROFUSE_OK) << reprofuse_last_error();
}

TEST_F(CApi, NullArgumentsAreErrors) {
  make_pair();
  const reprofuse_weight one = weight(0);
  reprofuse_linear* made = nullptr;
  size_t bytes = 0;
  EXPECT_EQ(reprofuse_context_create(nullptr, nullptr), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_linear_create(nullptr, &one, 1, nullptr, &made), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_linear_create(context_, nullptr, 1, nullptr, &made), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_linear_create(context_, nullptr, 0, nullptr, &made), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_linear_create(context_, &one, 1, nullptr, nullptr), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(made, nullptr);
  EXPECT_EQ(reprofuse_linear_workspace_bytes(nullptr, 1, &bytes), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_linear_workspace_bytes(linear_, 1, nullptr), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_linear_run(nullptr, x_.data(), 1, kStride, nullptr, 0, nullptr, 0, nullptr),
            REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_linear_run(linear_, x_.data(), 1, kStride, nullptr, 2, nullptr, 0, nullptr),
            REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_workspace_reset(nullptr, nullptr, 0, nullptr), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_workspace_check(nullptr, nullptr, nullptr), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_context_description(nullptr), nullptr);
  EXPECT_EQ(reprofuse_linear_implementation(nullptr), nullptr);
  reprofuse_context_destroy(nullptr);
  reprofuse_linear_destroy(nullptr);
}

TEST_F(CApi, WrongArgumentsAreNamed) {
  reprofuse_context* context = nullptr;
  EXPECT_EQ(make_context("cpu", "fma-9", nullptr, 1, &context), REPROFUSE_UNSUPPORTED);
  EXPECT_NE(std::string(reprofuse_last_error()).find("fma-9"), std::string::npos) << reprofuse_last_error();
  EXPECT_EQ(make_context("cpu", nullptr, "mmx", 1, &context), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(reprofuse_last_error()).find("mmx"), std::string::npos) << reprofuse_last_error();
  for (const char* device : {"tpu", "cuda:", "cuda:x", "cuda:-1", "cpu:0", ""}) {
    EXPECT_NE(make_context(device, nullptr, nullptr, 0, &context), REPROFUSE_OK) << device;
    EXPECT_NE(std::string(reprofuse_last_error()).find("cpu"), std::string::npos) << reprofuse_last_error();
  }
  EXPECT_EQ(context, nullptr);
  reprofuse_weight wrong = weight(0);
  for (const int dtype : {-1, 3, 7}) {
    wrong.dtype = dtype;
    EXPECT_EQ(reprofuse_linear_create(context_, &wrong, 1, nullptr, &linear_), REPROFUSE_INVALID_ARGUMENT);
    EXPECT_EQ(std::string(reprofuse_last_error()), "dtype " + std::to_string(dtype) + " does not exist");
  }
}

TEST_F(CApi, AUseOfWeightsThatThereIsNotIsNamed) {
  const reprofuse_weight one = weight(0);
  reprofuse_linear_options options;
  ASSERT_EQ(reprofuse_linear_options_init(&options, sizeof options), REPROFUSE_OK);
  options.weight_use = 2;
  EXPECT_NE(error_text(reprofuse_linear_create(context_, &one, 1, &options, &linear_), REPROFUSE_INVALID_ARGUMENT)
                .find("weight_use = 2"),
            std::string::npos);
  options.weight_use = REPROFUSE_WEIGHTS_READ;
  ASSERT_EQ(reprofuse_linear_create(context_, &one, 1, &options, &linear_), REPROFUSE_OK) << reprofuse_last_error();
  reprofuse_linear_destroy(linear_);
  options.struct_version = 0;
  EXPECT_EQ(reprofuse_linear_create(context_, &one, 1, &options, &linear_), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(linear_, nullptr);
}

TEST_F(CApi, CountOfOutputsMustMatchTheWeights) {
  make_pair();
  const reprofuse_output output = {y0_.data(), kN[0], nullptr};
  EXPECT_EQ(reprofuse_linear_run(linear_, x_.data(), kM, kStride, &output, 1, nullptr, 0, nullptr),
            REPROFUSE_INVALID_ARGUMENT);
}

TEST(CApiErrors, LastErrorBelongsToItsThread) {
  reprofuse_context* context = nullptr;
  ASSERT_EQ(make_context("cpu", "fma-9", nullptr, 1, &context), REPROFUSE_UNSUPPORTED);
  std::string seen_elsewhere = "not read";
  std::thread([&] { seen_elsewhere = reprofuse_last_error(); }).join();
  EXPECT_EQ(seen_elsewhere, "");
  EXPECT_NE(std::string(reprofuse_last_error()), "");
}

TEST(CApiErrors, CudaContextWorksOrSaysWhyNot) {
  reprofuse_context* context = nullptr;
  const reprofuse_status status = make_context("cuda:0", nullptr, nullptr, 0, &context);
  if (status == REPROFUSE_OK) {
    EXPECT_EQ(std::string(reprofuse_context_description(context)).substr(0, 6), "cuda:0");
  } else {
    EXPECT_EQ(status, REPROFUSE_UNSUPPORTED);
    EXPECT_NE(std::string(reprofuse_last_error()), "");
  }
  reprofuse_context_destroy(context);
}

TEST(CApiNames, AContextTellsWhatItWasOpenedWith) {
  reprofuse_context* context = nullptr;
  ASSERT_EQ(make_context(nullptr, "exact-1", "scalar", 3, &context), REPROFUSE_OK) << reprofuse_last_error();
  EXPECT_STREQ(reprofuse_context_device(context), "cpu");
  EXPECT_STREQ(reprofuse_context_numerics(context), "exact-1");
  EXPECT_STREQ(reprofuse_context_isa(context), "scalar");
  EXPECT_EQ(reprofuse_context_threads(context), 3);
  reprofuse_context_destroy(context);
  ASSERT_EQ(reprofuse_context_create(nullptr, &context), REPROFUSE_OK);
  EXPECT_EQ(reprofuse_context_numerics(context), kDefaultNumerics);
  EXPECT_EQ(reprofuse_context_isa(context), isa_name(supported_isas().back()));
  EXPECT_EQ(reprofuse_context_threads(context), Context::cpu().threads());
  reprofuse_context_destroy(context);
  EXPECT_EQ(reprofuse_context_device(nullptr), nullptr);
  EXPECT_EQ(reprofuse_context_numerics(nullptr), nullptr);
  EXPECT_EQ(reprofuse_context_isa(nullptr), nullptr);
  EXPECT_EQ(reprofuse_context_threads(nullptr), 0);
}

TEST(CApiNames, DefaultsFollowTheDevice) {
  const char* numerics = nullptr;
  for (const char* device : {"cpu", "cuda", "cuda:1"}) {
    ASSERT_EQ(reprofuse_default_numerics(device, &numerics), REPROFUSE_OK) << reprofuse_last_error();
    EXPECT_EQ(numerics, default_numerics(device)) << device;
  }
  const std::string of_a_gpu = numerics;
  ASSERT_EQ(reprofuse_default_numerics("cpu", &numerics), REPROFUSE_OK);
  EXPECT_NE(numerics, of_a_gpu);
  EXPECT_NE(error_text(reprofuse_default_numerics("tpu", &numerics), REPROFUSE_UNSUPPORTED).find("tpu"),
            std::string::npos);
  EXPECT_EQ(reprofuse_default_numerics(nullptr, &numerics), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_default_numerics("cpu", nullptr), REPROFUSE_INVALID_ARGUMENT);
}

TEST(CApiNames, ListsEndWithNull) {
  EXPECT_STREQ(reprofuse_numerics_name(0), "fma-1");
  EXPECT_STREQ(reprofuse_numerics_name(2), "exact-1");
  EXPECT_EQ(reprofuse_numerics_name(reprofuse::numerics_names().size()), nullptr);
  EXPECT_STREQ(reprofuse_isa_name(0), "scalar");
  EXPECT_EQ(reprofuse_isa_name(reprofuse::supported_isas().size()), nullptr);
  EXPECT_STREQ(reprofuse_device_name(0), "cpu");
  const std::vector<Device> devices = reprofuse::devices();
  EXPECT_EQ(devices[0].name, "cpu");
  EXPECT_EQ(devices[0].description, Context::cpu().description());
  EXPECT_EQ(Context::cpu().device(), "cpu");
  std::size_t usable = 0;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    EXPECT_EQ(reprofuse_device_name(i), devices[i].name);
    EXPECT_EQ(reprofuse_device_problem(i), devices[i].problem);
    usable += devices[i].problem.empty() ? 1 : 0;
  }
  EXPECT_EQ(usable, available_devices().size());
  EXPECT_EQ(reprofuse_device_name(devices.size()), nullptr);
  EXPECT_EQ(reprofuse_device_problem(devices.size()), nullptr);
}

}  // namespace
}  // namespace reprofuse::capi
