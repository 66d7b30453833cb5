// A caller's rounding mode and flush-to-zero bits do not reach the results, and are given back as they were.
#include "base/fp_environment.hpp"

#include <cfenv>

#include "support/linear_cpu_case.hpp"

namespace reprofuse {
namespace {

// What a host process may have done to its thread, and how to tell that it is still so.
struct Disturbance {
  const char* name;
  std::uint64_t state;
  bool moves_bits = true;  // of a linear layer in binary32
};

#if defined(__x86_64__)
std::uint64_t read_state() {
  return __builtin_ia32_stmxcsr() & 0xffc0U;  // without the sticky flags
}
void write_state(std::uint64_t state) {
  __builtin_ia32_ldmxcsr(static_cast<unsigned>(state));
}
constexpr Disturbance kDisturbances[] = {{"round down", 0x3f80},
                                         {"round up", 0x5f80},
                                         {"round to zero", 0x7f80},
                                         {"flush results to zero", 0x9f80},
                                         {"subnormal operands are zero", 0x1fc0},
                                         {"all of them", 0xffc0}};
#elif defined(__aarch64__)
std::uint64_t read_state() {
  std::uint64_t state;
  asm volatile("mrs %0, fpcr" : "=r"(state));
  return state;
}
void write_state(std::uint64_t state) {
  asm volatile("msr fpcr, %0" : : "r"(state));
}
constexpr Disturbance kDisturbances[] = {{"round up", 0x400000},
                                         {"round to zero", 0xc00000},
                                         {"flush to zero", 0x1000000},
                                         {"flush binary16 to zero", 0x80000, false},
                                         {"flush inputs to zero", 0x1},
                                         {"alternate handling", 0x2, false},
                                         {"scalars keep the upper lanes", 0x4, false}};
#else
std::uint64_t read_state() {
  return static_cast<std::uint64_t>(std::fegetround());
}
void write_state(std::uint64_t state) {
  std::fesetround(static_cast<int>(state));
}
constexpr Disturbance kDisturbances[] = {{"round up", FE_UPWARD}, {"round to zero", FE_TOWARDZERO}};
#endif

// Puts the thread's own state back even when a test fails.
class Disturbed {
 public:
  explicit Disturbed(const Disturbance& disturbance) : saved_(read_state()) { write_state(disturbance.state); }
  ~Disturbed() { write_state(saved_); }

 private:
  std::uint64_t saved_;
};

// Those that this machine has: a bit of a feature it lacks reads as zero.
std::vector<Disturbance> disturbances() {
  std::vector<Disturbance> there;
  for (const Disturbance& disturbance : kDisturbances) {
    const Disturbed disturbed(disturbance);
    if (read_state() == disturbance.state) there.push_back(disturbance);
  }
  EXPECT_GE(there.size(), 2U) << "neither rounding mode can be set";
  return there;
}

std::vector<float> compute(const Context& context, const CaseData& data) {
  const LinearLayer layer = make_layer(context, data);
  return run_layer(context, layer, data, data.spec().m);
}

std::vector<float> reference_result(const CaseData& data) {
  std::vector<float> y(static_cast<std::size_t>(data.spec().m * data.spec().n));
  reference::linear_fma1(data.x(), data.weight(), data.bias(), {y.data(), data.spec().m, data.spec().n, data.spec().n});
  return y;
}

bool same_bits(const std::vector<float>& y, const CaseData& data) {
  const std::int64_t n = data.spec().n;
  return !study::first_difference({y.data(), data.spec().m, n, n}, data.expected(data.spec().m));
}

TEST(FpEnvironment, AThreadStartsPinned) {
  const FpEnvironment pinned;
  EXPECT_TRUE(pinned.was_pinned());
}

TEST(FpEnvironment, EveryDisturbanceIsNoticedUndoneAndGivenBack) {
  const std::uint64_t ordinary = read_state();
  for (const Disturbance& disturbance : disturbances()) {
    const Disturbed disturbed(disturbance);
    {
      const FpEnvironment pinned;
      EXPECT_FALSE(pinned.was_pinned()) << disturbance.name;
      EXPECT_EQ(read_state(), ordinary) << disturbance.name;
    }
    EXPECT_EQ(read_state(), disturbance.state) << disturbance.name;
  }
}

TEST(FpEnvironment, TheLinearLayerHasTheSameBitsUnderEveryDisturbanceAndGivesItBack) {
  for (const Operands operands : {Operands::kOrdinary, Operands::kSubnormal})
    for (const Isa isa : supported_isas()) {
      const CaseData data({.m = 14, .n = 40, .k = 700, .dtype = DType::kF16, .operands = operands, .bias = false});
      for (const Disturbance& disturbance : disturbances()) {
        const Disturbed disturbed(disturbance);
        const Context context = cpu_context(isa, 3);  // its threads are born under the disturbance
        const std::vector<float> y = compute(context, data);
        EXPECT_EQ(read_state(), disturbance.state) << disturbance.name;
        EXPECT_TRUE(same_bits(y, data)) << isa_name(isa) << " under: " << disturbance.name;
      }
    }
}

TEST(FpEnvironment, TheStateIsGivenBackWhenTheLayerThrows) {
  CaseData data({.m = 2, .n = 3, .k = 4, .dtype = DType::kF32, .operands = Operands::kHuge});
  const Context context = cpu_context(Isa::kScalar);
  const std::vector<float> huge(12, 0x1p100F);
  const WeightView weight{huge.data(), DType::kF32, 3, 4, 4};
  const LinearLayer layer(context, std::span(&weight, 1), "overflowing");
  const Disturbed disturbed(kDisturbances[0]);
  EXPECT_THROW(run_layer(context, layer, data, 2), Error);
  EXPECT_EQ(read_state(), kDisturbances[0].state);
}

// The control: without the guard, each disturbance of binary32 moves bits of one kind of operand or the other.
TEST(FpEnvironment, UnguardedLoopsMoveBitsUnderEveryDisturbance) {
  for (const Disturbance& disturbance : disturbances()) {
    if (!disturbance.moves_bits) continue;
    bool moved = false;
    for (const Operands operands : {Operands::kOrdinary, Operands::kSubnormal}) {
      const CaseData data({.m = 14, .n = 40, .k = 700, .dtype = DType::kF32, .operands = operands});
      const Disturbed disturbed(disturbance);
      moved = moved || !same_bits(reference_result(data), data);
    }
    EXPECT_TRUE(moved) << disturbance.name;
  }
}

}  // namespace
}  // namespace reprofuse
