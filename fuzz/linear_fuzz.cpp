// libFuzzer's entry: every implementation of the linear layer must give the bits of its contract's reference.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "linear_case.hpp"
#include "linear_compare.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto comparison = reprofuse::fuzz::compare_implementations(reprofuse::fuzz::draw_case({data, size}));
  for (const std::string& difference : comparison.differences) fmt::print(stderr, "{}\n", difference);
  if (!comparison.differences.empty()) std::abort();
  return 0;
}
