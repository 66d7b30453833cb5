// An autotuner of the usual kind: it times every candidate on the machine at hand and keeps the fastest.
#pragma once

#include <span>
#include <vector>

#include "study/ablation/machine.hpp"

namespace reprofuse::study {

ablation::Variant tune(LoadedCase& operands, std::span<const ablation::Variant> menu, std::int64_t m);

}  // namespace reprofuse::study
