// A host process may have changed the rounding mode or flush subnormals. No bit of a model may follow it.
#include <gtest/gtest.h>

#include <cfenv>
#include <string>

#include "study/seeded/models.hpp"

namespace reprofuse::study {
namespace {

// The rounding mode for a while, as a careless library might leave it.
class RoundingMode {
 public:
  explicit RoundingMode(int mode) : before_(std::fegetround()) { std::fesetround(mode); }
  ~RoundingMode() { std::fesetround(before_); }
  RoundingMode(const RoundingMode&) = delete;
  RoundingMode& operator=(const RoundingMode&) = delete;

 private:
  int before_;
};

// An eps that is not a binary32 number and is large enough to show.
ModelCase sensitive_case() {
  ModelCase spec = model_cases()[1];  // FP16 weights
  spec.config.rms_norm_eps = 0.3;
  return spec;
}

TEST(FpState, LoadingAndComputingAModelIgnoresTheRoundingMode) {
  const ModelCase spec = sensitive_case();
  const std::string expected = logits_digest(*make_model(Context::cpu(), spec), spec, {});
  for (const int mode : {FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO}) {
    const RoundingMode careless(mode);
    EXPECT_EQ(logits_digest(*make_model(Context::cpu(), spec), spec, {}), expected) << mode;
    EXPECT_EQ(std::fegetround(), mode) << "the caller's mode was not given back";
  }
}

// Control: the same conversion outside the library does follow the mode.
TEST(FpState, TheRoundingModeWouldShow) {
  const volatile double eps = 0.3;
  const float nearest = static_cast<float>(eps);
  const RoundingMode careless(FE_DOWNWARD);
  EXPECT_NE(static_cast<float>(eps), nearest);
}

}  // namespace
}  // namespace reprofuse::study
