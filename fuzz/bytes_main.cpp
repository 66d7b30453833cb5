// Feeds mutated inputs to a target that reads bytes, for compilers without libFuzzer.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>

#include "bytes_target.hpp"
#include "mutate.hpp"

namespace reprofuse::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kMaxMegabytes = 1024;  // inputs are at most 64 KiB; a sanitizer keeps up to 256 MB of freed memory

double peak_megabytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

std::string shown(const Bytes& input) {
  std::string text;
  for (const std::uint8_t byte : input)
    text += byte >= 0x20 && byte < 0x7f && byte != '\\' ? std::string(1, static_cast<char>(byte))
                                                        : fmt::format("\\x{:02x}", byte);
  return text;
}

int run_for(double seconds, std::uint64_t seed) {
  InputSource source(seed);
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  std::uint64_t inputs = 0;
  std::uint64_t accepted = 0;
  for (double next_report = 10; elapsed() < seconds; ++inputs) {
    const Bytes input = source.next();
    const Outcome outcome = try_input(input);
    accepted += outcome.accepted ? 1 : 0;
    if (outcome.violation || peak_megabytes() > kMaxMegabytes) {
      fmt::print(stderr, "input {} of --seed {}: {}\n{}\n", inputs, seed,
                 outcome.violation.value_or(fmt::format("{:.0f} MB of memory", peak_megabytes())), shown(input));
      return 1;
    }
    if (elapsed() < next_report) continue;
    fmt::print(stderr, "{:.0f} s: {} inputs, no violation\n", elapsed(), inputs + 1);
    next_report += 10;
  }
  fmt::print("{} inputs in {:.0f} s from seed {}, no violation; {} accepted, the others refused; at most {:.0f} MB\n",
             inputs, elapsed(), seed, accepted, peak_megabytes());
  // Else the mutations no longer reach one side of the readers.
  return accepted > 0 && (accepted < inputs || takes_every_input()) ? 0 : 1;
}

// Valid inputs must pass, and an altered result must be seen in each of them.
int self_test() {
  int inputs = 0;
  for (const Bytes& input : valid_inputs()) {
    const Outcome honest = try_input(input);
    if (!honest.accepted || honest.violation) {
      fmt::print(stderr, "self-test: valid input {}: {}\n", inputs, honest.violation.value_or("is refused"));
      return 1;
    }
    if (!try_input(input, Sabotage::kAlterResult).violation) {
      fmt::print(stderr, "self-test: valid input {}: an altered result went unseen\n", inputs);
      return 1;
    }
    ++inputs;
  }
  fmt::print("self-test: an altered result was seen for each of {} valid inputs\n", inputs);
  return 0;
}

}  // namespace
}  // namespace reprofuse::fuzz

int main(int argc, char** argv) {
  double seconds = 15;
  std::uint64_t seed = 1;
  bool self_test = false;
  CLI::App app("Feeds mutated and random files to a reader");
  app.add_option("--seconds", seconds, "How long to run")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--seed", seed, "Of the inputs; the same seed gives the same inputs")->capture_default_str();
  app.add_flag("--self-test", self_test, "Check that an altered result is noticed, and stop");
  CLI11_PARSE(app, argc, argv);
  return self_test ? reprofuse::fuzz::self_test() : reprofuse::fuzz::run_for(seconds, seed);
}
