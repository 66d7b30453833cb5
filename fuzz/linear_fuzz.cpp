// libFuzzer's entry: every implementation of the linear layer must give the reference's bits.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "linear_case.hpp"
#include "linear_compare.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto comparison = reprofuse::fuzz::compare_implementations(reprofuse::fuzz::draw_case({data, size}));
  if (comparison.difference) {
    fmt::print(stderr, "{}\n", *comparison.difference);
    std::abort();
  }
  return 0;
}
