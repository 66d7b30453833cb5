#include "study/ablation/tuner.hpp"

#include "base/check.hpp"

namespace reprofuse::study {

ablation::Variant tune(LoadedCase& operands, std::span<const ablation::Variant> menu, std::int64_t m) {
  require(!menu.empty(), "ablation '{}': a tuner without candidates", operands.shape().name);
  const ablation::Variant* best = nullptr;
  double least = 0;
  for (const ablation::Variant& candidate : menu) {
    const double seconds = operands.glance(candidate, m);
    if (best != nullptr && seconds >= least) continue;
    best = &candidate;
    least = seconds;
  }
  return *best;
}

}  // namespace reprofuse::study
