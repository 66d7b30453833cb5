// libFuzzer's entry for targets that read bytes.
#include <fmt/format.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "bytes_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (const auto outcome = reprofuse::fuzz::try_input({data, size}); outcome.violation) {
    fmt::print(stderr, "{}\n", *outcome.violation);
    std::abort();
  }
  return 0;
}
