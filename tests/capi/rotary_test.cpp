// Tables of the rotary embedding through the C ABI, against the C++ API.
#include "capi/support.hpp"

namespace reprofuse::capi {
namespace {

TEST(RotaryApi, TheCAbiMakesTheTablesOfTheCppApi) {
  reprofuse_rotary rotary;
  const auto made = [&] {
    std::vector<float> table(2 * 50 * 16);
    EXPECT_EQ(reprofuse_rotary_table(&rotary, 32, 50, table.data(), table.data() + 50 * 16), REPROFUSE_OK)
        << reprofuse_last_error();
    return table;
  };
  const auto expected = [](const RotaryConfig& config) {
    const RotaryTable table = rotary_table(config, 32, 50);
    std::vector<float> all = table.cos;
    all.insert(all.end(), table.sin.begin(), table.sin.end());
    return all;
  };
  const auto init = [&](std::int32_t kind) {
    EXPECT_EQ(reprofuse_rotary_init(&rotary, sizeof rotary), REPROFUSE_OK);
    rotary.kind = kind;
  };
  init(REPROFUSE_ROTARY_PLAIN);
  const std::vector<float> plain = made();
  EXPECT_EQ(plain, expected({}));
  rotary.theta = 5e5;
  EXPECT_EQ(made(), expected({.theta = 5e5}));
  EXPECT_NE(made(), plain);
  init(REPROFUSE_ROTARY_LINEAR);
  rotary.factor = 4;
  EXPECT_EQ(made(), expected({.kind = RotaryKind::kLinear, .factor = 4}));
  init(REPROFUSE_ROTARY_LLAMA3);
  rotary.factor = 8;
  rotary.original_max_positions = 20;
  rotary.high_freq_factor = 4;
  EXPECT_EQ(made(), expected({.kind = RotaryKind::kLlama3,
                              .factor = 8,
                              .original_max_positions = 20,
                              .low_freq_factor = 1,
                              .high_freq_factor = 4}));
  init(REPROFUSE_ROTARY_YARN);
  rotary.factor = 8;
  rotary.original_max_positions = 20;
  RotaryConfig yarn = {.kind = RotaryKind::kYarn, .factor = 8, .original_max_positions = 20};
  EXPECT_EQ(made(), expected(yarn));
  rotary.truncate = 0;
  rotary.beta_fast = 16;
  rotary.beta_slow = 2;
  rotary.mscale = 0.7;
  rotary.mscale_all_dim = 1.5;
  yarn.truncate = false;
  yarn.beta_fast = 16;
  yarn.beta_slow = 2;
  yarn.mscale = 0.7;
  yarn.mscale_all_dim = 1.5;
  EXPECT_EQ(made(), expected(yarn));
  rotary.attention_factor = 1.25;
  EXPECT_NE(made(), expected(yarn));
  yarn.attention_factor = 1.25;
  EXPECT_EQ(made(), expected(yarn));
  float one = 0;
  rotary.kind = 4;
  EXPECT_NE(error_text(reprofuse_rotary_table(&rotary, 2, 1, &one, &one), REPROFUSE_INVALID_ARGUMENT).find("kind = 4"),
            std::string::npos);
  EXPECT_EQ(reprofuse_rotary_table(nullptr, 2, 1, nullptr, &one), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_rotary_table(nullptr, 3, 1, &one, &one), REPROFUSE_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace reprofuse::capi
