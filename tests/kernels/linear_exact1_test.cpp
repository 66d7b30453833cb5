// What exact-1 promises beyond equal bits, of every implementation: no order and no split of K can be told from a
// result, up to the largest K. fma-1, which has an order, is the control.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/fp_environment.hpp"
#include "kernels/reference/reference.hpp"
#include "numerics/exact1.hpp"
#include "numerics/float_ops.hpp"
#include "ops/contract.hpp"
#include "reprofuse/reprofuse.hpp"
#include "study/probe/probe.hpp"
#include "study/seeded/inputs.hpp"

namespace reprofuse {
namespace {

constexpr DType kDTypes[] = {DType::kBF16, DType::kF16, DType::kF32};

struct Problem {
  std::int64_t m;
  std::vector<float> x;  // [m, k]
  study::Weights weight;

  ConstMatrix rows() const { return {x.data(), m, weight.k, weight.k}; }
};

Problem make_problem(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype) {
  ThreadPool pool(1);
  return {m, study::make_activations(71, m, k), study::make_weights(72, dtype, n, k, pool)};
}

// Term i becomes what term order[i] was, in both operands.
Problem permuted(const Problem& from, const std::vector<std::int64_t>& order) {
  Problem to = from;
  const std::int64_t k = from.weight.k;
  for (std::int64_t i = 0; i < k; ++i) {
    const std::int64_t source = order[static_cast<std::size_t>(i)];
    for (std::int64_t m = 0; m < from.m; ++m)
      to.x[static_cast<std::size_t>(m * k + i)] = from.x[static_cast<std::size_t>(m * k + source)];
    for (std::int64_t n = 0; n < from.weight.n; ++n)
      store_weight(to.weight.storage.data(), to.weight.dtype, n * k + i,
                   load_weight(from.weight.storage.data(), from.weight.dtype, n * k + source));
  }
  return to;
}

// Backwards, rotated by one, and at random.
std::vector<std::vector<std::int64_t>> orders(std::int64_t k) {
  std::vector<std::int64_t> ascending(static_cast<std::size_t>(k));
  std::iota(ascending.begin(), ascending.end(), 0);
  std::vector<std::vector<std::int64_t>> all(5, ascending);
  std::reverse(all[0].begin(), all[0].end());
  std::rotate(all[1].begin(), all[1].begin() + 1, all[1].end());
  std::mt19937 random(73);
  for (std::size_t i = 2; i < all.size(); ++i) std::shuffle(all[i].begin(), all[i].end(), random);
  return all;
}

struct Implementation {
  std::string name;
  study::PrepareLinear prepare;
};

// The reference, every instruction set, and the GPU of a machine that has one.
std::vector<Implementation> implementations(std::string_view numerics, ThreadPool& pool) {
  std::vector<Implementation> list = {{"reference", study::reference_of(find_contract(numerics), pool)}};
  for (const Isa isa : supported_isas())
    list.push_back({std::string(isa_name(isa)), study::kernels_of(Context::cpu(numerics, isa, 2))});
  try {
    list.push_back({"cuda", study::kernels_of(Context::cuda(numerics))});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << error.what();
  }
  return list;
}

std::vector<float> computed(const study::PrepareLinear& prepare, const Problem& problem) {
  std::vector<float> y(static_cast<std::size_t>(problem.m * problem.weight.n));
  prepare(problem.weight.view(), problem.m)
      ->run(problem.rows(), nullptr, {y.data(), problem.m, problem.weight.n, problem.weight.n});
  return y;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float left, float right) {
    return std::bit_cast<std::uint32_t>(left) == std::bit_cast<std::uint32_t>(right);
  });
}

TEST(LinearExact1, PermutingKOfBothOperandsMovesNoBit) {
  ThreadPool pool(2);
  for (const DType dtype : kDTypes) {
    const Problem problem = make_problem(5, 37, 1100, dtype);
    const std::vector<float> expected = computed(study::reference_of(find_contract("exact-1"), pool), problem);
    for (const Implementation& implementation : implementations("exact-1", pool)) {
      EXPECT_TRUE(same_bits(computed(implementation.prepare, problem), expected)) << implementation.name;
      for (const auto& order : orders(problem.weight.k))
        EXPECT_TRUE(same_bits(computed(implementation.prepare, permuted(problem, order)), expected))
            << implementation.name << " " << dtype_name(dtype);
    }
  }
}

// The control: the same permutations of the same operands show in every implementation of a contract with an order.
TEST(LinearExact1, PermutingKMovesBitsUnderFma1) {
  ThreadPool pool(2);
  for (const DType dtype : kDTypes) {
    const Problem problem = make_problem(5, 37, 1100, dtype);
    for (const Implementation& implementation : implementations("fma-1", pool)) {
      const std::vector<float> expected = computed(implementation.prepare, problem);
      for (const auto& order : orders(problem.weight.k))
        EXPECT_FALSE(same_bits(computed(implementation.prepare, permuted(problem, order)), expected))
            << implementation.name << " " << dtype_name(dtype);
    }
  }
}

// K cut into parts as machines would own them: integers of whole rows' exponents, added in any order.
class CutProblem {
 public:
  CutProblem() {
    for (std::int64_t m = 0; m < problem_.m; ++m)
      x_.push_back(reference::snap_activations(problem_.x.data() + m * problem_.weight.k, problem_.weight.k));
    for (std::int64_t n = 0; n < problem_.weight.n; ++n)
      w_.push_back(reference::snap_weights(problem_.weight.view(), n));
  }

  const Problem& problem() const { return problem_; }

  // Up to nine parts, some of them perhaps empty, in random order.
  std::vector<std::pair<std::int64_t, std::int64_t>> random_parts() {
    std::vector<std::int64_t> cuts = {0, problem_.weight.k};
    for (std::uint32_t i = random_() % 9; i > 0; --i)
      cuts.push_back(static_cast<std::int64_t>(random_() % static_cast<std::uint32_t>(problem_.weight.k + 1)));
    std::sort(cuts.begin(), cuts.end());
    std::vector<std::pair<std::int64_t, std::int64_t>> parts;
    for (std::size_t i = 1; i < cuts.size(); ++i) parts.emplace_back(cuts[i - 1], cuts[i]);
    std::shuffle(parts.begin(), parts.end(), random_);
    return parts;
  }

  // One result per output; `combine` makes it of the sums of the parts.
  template <typename Combine>
  std::vector<float> results(const Combine& combine) {
    std::vector<float> y;
    for (const reference::SnappedRow& x : x_)
      for (const reference::SnappedRow& w : w_) {
        std::vector<std::int64_t> sums;
        for (const auto& [begin, end] : random_parts()) sums.push_back(reference::sum_terms(x, w, begin, end));
        y.push_back(combine(sums, x.exponent, w.exponent));
      }
    return y;
  }

 private:
  Problem problem_ = make_problem(6, 40, 2051, DType::kBF16);
  std::vector<reference::SnappedRow> x_, w_;
  std::mt19937 random_{74};
};

TEST(LinearExact1, SumsOverAnyPartsOfKAddUpToTheResultInAnyOrder) {
  const FpEnvironment pinned;
  CutProblem cut;
  const auto added_as_integers = [](const std::vector<std::int64_t>& sums, int x, int w) {
    return exact1::result(std::accumulate(sums.begin(), sums.end(), std::int64_t{0}), x, w);
  };
  const std::vector<float> expected = computed(study::kernels_of(Context::cpu("exact-1")), cut.problem());
  for (int round = 0; round < 20; ++round) EXPECT_TRUE(same_bits(cut.results(added_as_integers), expected));
}

// The control: a part rounded to binary32 before it is added is no longer exact.
TEST(LinearExact1, PartsAddedAsFloatsDoNot) {
  const FpEnvironment pinned;
  CutProblem cut;
  const auto added_as_floats = [](const std::vector<std::int64_t>& sums, int x, int w) {
    float total = 0.0F;
    for (const std::int64_t sum : sums) total = total + exact1::result(sum, x, w);
    return total;
  };
  EXPECT_FALSE(
      same_bits(cut.results(added_as_floats), computed(study::kernels_of(Context::cpu("exact-1")), cut.problem())));
}

// Every term of a row the same, with digits at their ends: 127, -127 and -128 of an activation, 0 and 255 of a weight.
struct Extremes {
  static constexpr std::int32_t kX[] = {127 * 65793, -127 * 65793, -126 * 65536 - 128 * 257};
  static constexpr std::int32_t kW[] = {1 << 22, -(1 << 22), (1 << 22) - 1, 255 - (1 << 22)};
  static constexpr std::int64_t kM = 3, kN = 4;

  explicit Extremes(std::int64_t terms) : k(terms) {
    for (const std::int32_t integer : kX)
      x.insert(x.end(), static_cast<std::size_t>(k), static_cast<float>(integer) * 0x1p-23F);
    for (const std::int32_t integer : kW) {
      // 2^22 itself is what the largest number below 1 rounds to.
      const float value = std::clamp(static_cast<float>(integer) * 0x1p-22F, -0x1.fffffep-1F, 0x1.fffffep-1F);
      w.insert(w.end(), static_cast<std::size_t>(k), value);
    }
  }
  WeightView weight() const { return {w.data(), DType::kF32, kN, k, k}; }
  ConstMatrix rows() const { return {x.data(), kM, k, k}; }

  std::int64_t k;
  std::vector<float> x, w;
};

TEST(LinearExact1, TheLargestKWithEveryDigitAtItsEndDoesNotOverflow) {
  ThreadPool pool(2);
  const Extremes extremes(exact1::kMaxTerms);
  for (std::int64_t m = 0; m < Extremes::kM; ++m)
    EXPECT_EQ(reference::snap_activations(extremes.x.data() + m * extremes.k, extremes.k).values.back(),
              Extremes::kX[m]);
  for (std::int64_t n = 0; n < Extremes::kN; ++n)
    EXPECT_EQ(reference::snap_weights(extremes.weight(), n).values.back(), Extremes::kW[n]);
  for (const Implementation& implementation : implementations("exact-1", pool)) {
    std::vector<float> y(Extremes::kM * Extremes::kN);
    implementation.prepare(extremes.weight(), Extremes::kM)
        ->run(extremes.rows(), nullptr, {y.data(), Extremes::kM, Extremes::kN, Extremes::kN});
    for (std::size_t i = 0; i < y.size(); ++i) {
      // 2^17 equal terms: the sum is the term with another exponent.
      const std::int64_t term = exact1::term(Extremes::kX[i / Extremes::kN], Extremes::kW[i % Extremes::kN]);
      EXPECT_EQ(y[i], static_cast<float>(term) * 0x1p-28F) << implementation.name << " output " << i;
    }
  }
}

TEST(LinearExact1, OneTermMoreIsRefusedWhereFma1TakesIt) {
  const std::vector<float> ones(static_cast<std::size_t>(exact1::kMaxTerms + 1), 1.0F);
  const auto layer = [&](std::string_view numerics, Isa isa, std::int64_t k) {
    const WeightView weight{ones.data(), DType::kF32, 1, k, k};
    try {
      LinearLayer(Context::cpu(numerics, isa, 1), std::span(&weight, 1), "long");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  for (const Isa isa : supported_isas()) {
    EXPECT_EQ(layer("exact-1", isa, exact1::kMaxTerms), "no error") << isa_name(isa);
    EXPECT_EQ(layer("exact-1", isa, exact1::kMaxTerms + 1),
              "linear 'long': k = 131073 is more than the 131072 terms whose sum contract exact-1 can hold")
        << isa_name(isa);
    EXPECT_EQ(layer("fma-1", isa, exact1::kMaxTerms + 1), "no error") << isa_name(isa);
  }
}

}  // namespace
}  // namespace reprofuse
