// How far the elementary functions are from the truth. Binary32 functions: every input in range, against binary64 ones
// whose own error MPFR bounds on a dense set. Prints one line per function. Minutes on two cores.
#include <fmt/format.h>

#include <cfloat>
#include <cmath>
#include <vector>

#include "base/thread_pool.hpp"
#include "numerics/double_math.hpp"
#include "numerics/exp_log.hpp"
#include "numerics/sampling.hpp"
#include "support/mpfr_value.hpp"

namespace reprofuse {
namespace {

struct Worst {
  double ulps = 0;
  double at = 0;
  std::uint64_t inputs = 0;

  void see(double found, double x) {
    ++inputs;
    if (found > ulps) *this = {found, x, inputs};
  }
  void merge(const Worst& other) {
    const std::uint64_t sum = inputs + other.inputs;
    if (other.ulps > ulps) *this = other;
    inputs = sum;
  }
};

void print(const char* function, const char* set, const Worst& worst) {
  fmt::print("{:<8} {:<34} {:>13} inputs, at most {:.4f} ulp, at {:a}\n", function, set, worst.inputs, worst.ulps,
             worst.at);
}

double ulps_f32(double exact, float got) {
  const int exponent = std::max(std::ilogb(exact), -126);
  return std::abs(static_cast<double>(got) - exact) / std::ldexp(1.0, exponent - 23);
}

// Every word of binary32 for which in_range holds.
template <class InRange, class Ours, class Exact>
Worst every_input(ThreadPool& pool, const InRange& in_range, const Ours& ours, const Exact& exact) {
  constexpr std::int64_t kChunk = std::int64_t{1} << 20;
  std::vector<Worst> parts(static_cast<std::size_t>(pool.threads()));
  pool.parallel_for((std::int64_t{1} << 32) / kChunk, [&](std::int64_t chunk, int worker) {
    Worst worst;
    for (std::int64_t word = chunk * kChunk; word < (chunk + 1) * kChunk; ++word) {
      const float x = float_from_bits(static_cast<std::uint32_t>(word));
      if (in_range(x)) worst.see(ulps_f32(exact(static_cast<double>(x)), ours(x)), static_cast<double>(x));
    }
    parts[static_cast<std::size_t>(worker)].merge(worst);
  });
  Worst worst;
  for (const Worst& part : parts) worst.merge(part);
  return worst;
}

// `count` inputs of input(i), against MPFR.
template <class Input, class Ours>
Worst against_mpfr(ThreadPool& pool, std::int64_t count, testing::Function function, const Input& input,
                   const Ours& ours) {
  constexpr std::int64_t kChunk = 10'000;
  std::vector<Worst> parts(static_cast<std::size_t>(pool.threads()));
  pool.parallel_for(count / kChunk, [&](std::int64_t chunk, int worker) {
    testing::Exact exact;
    Worst worst;
    for (std::int64_t i = chunk * kChunk; i < (chunk + 1) * kChunk; ++i) {
      const double x = input(static_cast<std::uint64_t>(i));
      testing::evaluate(function, x, exact);
      worst.see(exact.ulps_f64(ours(x)), x);
    }
    parts[static_cast<std::size_t>(worker)].merge(worst);
  });
  Worst worst;
  for (const Worst& part : parts) worst.merge(part);
  return worst;
}

double uniform(std::uint64_t i, std::uint64_t draw) {  // in [-1, 1)
  return static_cast<double>(static_cast<std::int64_t>(philox(1, i, draw))) * 0x1p-63;
}

void measure_double(ThreadPool& pool) {
  constexpr std::int64_t kCount = 4'000'000;
  const auto sin = [](double x) { return sincos_f64(x).sin; };
  const auto cos = [](double x) { return sincos_f64(x).cos; };
  const auto angle = [](std::uint64_t i) { return uniform(i, 0) * kSinCosLimit; };
  const auto float_angle = [](std::uint64_t i) {
    return static_cast<double>(static_cast<float>(std::abs(uniform(i, 1)) * 131'072));
  };
  const auto wide_log = [](std::uint64_t i) {
    return std::ldexp(1.5 + uniform(i, 2) / 2, static_cast<int>(i % 2098) - 1074);
  };
  print("exp_f64", "uniform in +-709",
        against_mpfr(
            pool, kCount, mpfr_exp, [](std::uint64_t i) { return uniform(i, 3) * 709; }, exp_f64));
  print("exp_f64", "uniform in +-0.5",
        against_mpfr(
            pool, kCount, mpfr_exp, [](std::uint64_t i) { return uniform(i, 4) / 2; }, exp_f64));
  print("log_f64", "every exponent", against_mpfr(pool, kCount, mpfr_log, wide_log, log_f64));
  print("log_f64", "uniform in [0.5, 1.5)",
        against_mpfr(
            pool, kCount, mpfr_log, [](std::uint64_t i) { return 1 + uniform(i, 5) / 2; }, log_f64));
  print("sin_f64", "uniform in +-2^20", against_mpfr(pool, kCount, mpfr_sin, angle, sin));
  print("cos_f64", "uniform in +-2^20", against_mpfr(pool, kCount, mpfr_cos, angle, cos));
  print("sin_f64", "binary32 below 131,072", against_mpfr(pool, kCount, mpfr_sin, float_angle, sin));
  print("cos_f64", "binary32 below 131,072", against_mpfr(pool, kCount, mpfr_cos, float_angle, cos));
}

void measure_float(ThreadPool& pool) {
  const auto in_exp_range = [](float x) { return x >= exp_constants::kMin && x <= exp_constants::kMax; };
  const auto in_log_range = [](float x) { return x > 0.0F && x <= FLT_MAX && x != 1.0F; };
  print("exp_f32", "every input in [-104, 88.7228]", every_input(pool, in_exp_range, exp_f32, exp_f64));
  print("log_f32", "every finite input above 0, not 1", every_input(pool, in_log_range, log_f32, log_f64));
}

}  // namespace
}  // namespace reprofuse

int main() {
  reprofuse::ThreadPool pool(reprofuse::available_cores());
  reprofuse::measure_double(pool);
  reprofuse::measure_float(pool);
  return 0;
}
