// Embedding, SiLU gate, gathering and rounding on the GPU: the reference's bits.
#include "numerics/float_ops.hpp"
#include "support/device_buffer.hpp"
#include "support/model_ops_cuda_case.hpp"

namespace reprofuse {
namespace {

class ElementwiseCuda : public ModelOpsCuda {
 protected:
  ThreadPool pool_{2};
};

TEST_F(ElementwiseCuda, EmbeddingHasTheReferenceBits) {
  const std::vector<std::int32_t> tokens = {0, 99, 5, 5, 42};
  const cuda::DeviceBuffer device_tokens = upload(tokens.data(), tokens.size() * sizeof(std::int32_t));
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32})
    for (const std::int64_t hidden : {1, 33, 1024, 1027, 3072}) {
      const study::Weights table = study::make_weights(7, dtype, 100, hidden, pool_);
      const cuda::DeviceBuffer device_table = upload(table.storage.data(), table.storage.size());
      Rows x(5, hidden, 1, 3), expected(5, hidden, 1, 3);
      const DeviceRows device_x(x);
      cuda::embedding(site(), {.table = {device_table.as<void>(), dtype, 100, hidden, hidden},
                               .tokens = device_tokens.as<std::int32_t>(),
                               .x = device_x.view()});
      synchronize();
      reference::embedding({.table = table.view(), .tokens = tokens.data(), .x = expected.view()});
      device_x.fetch(x);
      EXPECT_TRUE(same_bits(x, expected)) << dtype_name(dtype) << " hidden " << hidden;
    }
}

TEST_F(ElementwiseCuda, SiluGateHasTheReferenceBits) {
  for (const float scale : {1.0F, 30.0F, 1e-30F, 1e30F})
    for (const std::int64_t k : {1, 5, 1024, 1028, 3001, 8192})
      for (const std::int64_t padding : {0, 3, 4}) {
        const std::int64_t m = k == 8192 ? 3 : 7;
        Rows gate(m, k, 3, padding, scale), up(m, k, 4, padding), y(m, k, 5, padding), expected(m, k, 5, padding);
        const DeviceRows device_gate(gate), device_up(up), device_y(y);
        cuda::silu_gate(site(), {.gate = device_gate.const_view(), .up = device_up.const_view(), .y = device_y.view()});
        synchronize();
        reference::silu_gate({.gate = as_const(gate.view()), .up = as_const(up.view()), .y = expected.view()});
        device_y.fetch(y);
        EXPECT_TRUE(same_bits(y, expected)) << "scale " << scale << " k " << k << " padding " << padding;
      }
}

TEST_F(ElementwiseCuda, SiluGateCanReplaceItsOperand) {
  Rows gate(4, 2048, 3), up(4, 2048, 4), expected(4, 2048, 5);
  const DeviceRows device_gate(gate), device_up(up);
  cuda::silu_gate(site(), {.gate = device_gate.const_view(), .up = device_up.const_view(), .y = device_gate.view()});
  synchronize();
  reference::silu_gate({.gate = as_const(gate.view()), .up = as_const(up.view()), .y = expected.view()});
  device_gate.fetch(gate);
  EXPECT_TRUE(same_bits(gate, expected));
}

// Control: the C library's exponential is another function.
TEST_F(ElementwiseCuda, AnotherExponentialWouldBeCaught) {
  Rows gate(4, 2048, 3), up(4, 2048, 4), y(4, 2048, 5), altered(4, 2048, 5);
  const DeviceRows device_gate(gate), device_up(up), device_y(y);
  cuda::silu_gate(site(), {.gate = device_gate.const_view(), .up = device_up.const_view(), .y = device_y.view()});
  synchronize();
  device_y.fetch(y);
  for (std::int64_t m = 0; m < 4; ++m)
    for (std::int64_t i = 0; i < 2048; ++i)
      altered.at(m, i) = gate.at(m, i) / (1.0F + std::exp(-gate.at(m, i))) * up.at(m, i);
  EXPECT_FALSE(same_bits(y, altered));
}

TEST_F(ElementwiseCuda, GatheredRowsAreTheRowsThatWereNamed) {
  const std::vector<std::int32_t> rows = {8, 0, 3, 3};
  const cuda::DeviceBuffer device_rows = upload(rows.data(), rows.size() * sizeof(std::int32_t));
  for (const std::int64_t k : {1, 1000, 3072}) {
    Rows x(9, k, 6, 2), y(4, k, 1, 5), expected(4, k, 1, 5);
    const DeviceRows device_x(x), device_y(y);
    cuda::gather_rows(site(),
                      {.x = device_x.const_view(), .rows = device_rows.as<std::int32_t>(), .y = device_y.view()});
    synchronize();
    reference::gather_rows({.x = as_const(x.view()), .rows = rows.data(), .y = expected.view()});
    device_y.fetch(y);
    EXPECT_TRUE(same_bits(y, expected)) << "k " << k;
  }
}

TEST_F(ElementwiseCuda, RoundingGoesToTheNearestBf16AndTiesToEven) {
  Rows x(3, 1500, 8, 1);
  x.at(0, 0) = std::bit_cast<float>(0x3f808000U);  // a tie whose lower neighbour is even
  x.at(0, 1) = std::bit_cast<float>(0x3f818000U);  // and one whose upper neighbour is
  x.at(0, 2) = std::bit_cast<float>(0x00008001U);  // a subnormal
  x.at(0, 3) = -0.0F;
  x.at(0, 4) = std::numeric_limits<float>::max();
  Rows expected = x;
  const DeviceRows device_x(x);
  cuda::round_bf16(site(), {.x = device_x.view()});
  synchronize();
  reference::round_bf16({.x = expected.view()});
  device_x.fetch(x);
  EXPECT_TRUE(same_bits(x, expected));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(x.at(0, 0)), 0x3f800000U);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(x.at(0, 1)), 0x3f820000U);
}

}  // namespace
}  // namespace reprofuse
