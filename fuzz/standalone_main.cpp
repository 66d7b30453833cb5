// Feeds seeded random inputs to the comparison, for compilers without libFuzzer.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "linear_case.hpp"
#include "linear_compare.hpp"

namespace reprofuse::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

// The longest header draw_case() reads, and the most it takes after it for planted values.
constexpr std::size_t kHeader = 58;
constexpr std::size_t kPlanted = 200;

std::vector<std::uint8_t> random_input(std::mt19937_64& random) {
  std::vector<std::uint8_t> input(kHeader + (random() % 2 == 0 ? 0 : random() % kPlanted));
  for (std::uint8_t& byte : input) byte = static_cast<std::uint8_t>(random());
  return input;
}

int run_for(double seconds, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  std::uint64_t inputs = 0;
  std::uint64_t results = 0;  // of one implementation each
  std::uint64_t refused = 0;
  for (double next_report = 10; elapsed() < seconds; ++inputs) {
    const Comparison comparison = compare_implementations(draw_case(random_input(random)));
    for (const std::string& difference : comparison.differences)
      fmt::print(stderr, "input {} of --seed {}: {}\n", inputs, seed, difference);
    if (!comparison.differences.empty()) return 1;
    results += comparison.implementations;
    refused += comparison.non_finite ? 1 : 0;
    if (elapsed() < next_report) continue;
    fmt::print(stderr, "{:.0f} s: {} inputs, no difference\n", elapsed(), inputs + 1);
    next_report += 10;
  }
  fmt::print("{} inputs in {:.0f} s from seed {}, {} results, no difference; {} inputs overflowed and were refused\n",
             inputs, elapsed(), seed, results, refused);
  return 0;
}

// The comparison must see nothing in honest results, and a single flipped bit in those of each implementation.
int self_test(std::uint64_t seed) {
  constexpr int kInputs = 100;
  std::mt19937_64 random(seed);
  std::size_t seen = 0;
  for (int i = 0; i < kInputs; ++i) {
    const LinearCase drawn = draw_case(random_input(random));
    const Comparison honest = compare_implementations(drawn);
    for (const std::string& difference : honest.differences)
      fmt::print(stderr, "self-test: a difference without sabotage: {}\n", difference);
    if (!honest.differences.empty()) return 1;
    const Comparison sabotaged = compare_implementations(drawn, Sabotage::kFlipBit);
    if (sabotaged.differences.size() != sabotaged.implementations) {
      fmt::print(stderr, "self-test: a flipped bit was seen in {} of {} results: {}\n", sabotaged.differences.size(),
                 sabotaged.implementations, drawn.description());
      return 1;
    }
    seen += sabotaged.differences.size();
  }
  fmt::print("self-test: {} inputs, a flipped bit was seen in each of {} results\n", kInputs, seen);
  return 0;
}

}  // namespace
}  // namespace reprofuse::fuzz

int main(int argc, char** argv) {
  double seconds = 15;
  std::uint64_t seed = 1;
  bool self_test = false;
  CLI::App app("Compares every implementation of the linear layer with the reference on random inputs", "linear_fuzz");
  app.add_option("--seconds", seconds, "How long to run")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--seed", seed, "Of the inputs; the same seed gives the same inputs")->capture_default_str();
  app.add_flag("--self-test", self_test, "Check that a flipped bit is noticed, and stop");
  CLI11_PARSE(app, argc, argv);
  return self_test ? reprofuse::fuzz::self_test(seed) : reprofuse::fuzz::run_for(seconds, seed);
}
