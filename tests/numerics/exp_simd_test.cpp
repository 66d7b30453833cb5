#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "numerics/exp.hpp"
#include "numerics/exp_targets.hpp"
#include "numerics/float_sets.hpp"

namespace reprofuse {
namespace {

std::vector<float> inputs() {
  std::vector<float> values = testing::floats_by_word(1021);
  for (const float x : testing::exp_edges()) values.push_back(x);
  values.resize(values.size() / 16 * 16);
  return values;
}

// A NaN has no bits of its own: any NaN will do.
bool same(float a, float b) {
  return float_bits(a) == float_bits(b) || (std::isnan(a) && std::isnan(b));
}

TEST(ExpSimd, EveryInstructionSetHasTheScalarBits) {
  const std::vector<float> x = inputs();
  std::vector<float> full(x.size()), nonpositive(x.size());
  int compared = 0;
  for (const Isa isa : supported_isas()) {
    const testing::ExpTarget* target = testing::exp_target(isa);
    if (target == nullptr) continue;
    target->exp(x.data(), x.size(), full.data());
    target->exp_nonpositive(x.data(), x.size(), nonpositive.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_TRUE(same(full[i], exp_f32(x[i]))) << isa_name(isa) << " " << x[i];
      if (x[i] > 0.0F) continue;
      ASSERT_TRUE(same(nonpositive[i], exp_nonpositive_f32(x[i]))) << isa_name(isa) << " " << x[i];
    }
    ++compared;
  }
  if (compared == 0) GTEST_SKIP() << "this machine has no vectors with a fused multiply-add";
}

}  // namespace
}  // namespace reprofuse
