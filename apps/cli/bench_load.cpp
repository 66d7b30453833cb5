#include "cli/bench_load.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <optional>

namespace reprofuse::cli {

void OtherLoadWarning::print() const {
  constexpr double kNoise = 0.2;  // cores: what an idle machine does for itself
  const std::optional<double> cores = others_.cores();
  if (!matters_ || !cores || *cores < kNoise) return;
  std::fflush(stdout);
  fmt::print(stderr,
             "reprofuse: other programs kept {:.1f} cores busy meanwhile, so these times are longer than the machine's "
             "own\n",
             *cores);
}

}  // namespace reprofuse::cli
