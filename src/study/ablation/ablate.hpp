// The paper's ablations of rules R1 to R4: each rule a switch, everything else fixed, and the variant with every rule
// on checked bit for bit against the shipped layer in the same run.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "study/ablation/machine.hpp"
#include "study/ablation/report.hpp"

namespace reprofuse::study {

// What OpenBLAS gives for each CPU case when it is made to choose the kernels of another machine.
struct VendorKernels {
  std::string name;                  // of the kernels that really ran
  std::vector<std::string> digests;  // one per case
};

struct AblationOptions {
  std::function<void(std::string_view)> progress = [](std::string_view) {};
  // OpenBLAS chooses its kernels once per process, so the caller runs others in processes of their own.
  std::function<std::vector<VendorKernels>()> vendor_kernels = nullptr;
  std::vector<AblationCase> cases = ablation_cases();
  int runs = 50;  // of a race, to count its outcomes
};

Experiment ablate_r1(AblationMachine& machine, const AblationOptions& options);
Experiment ablate_r2(AblationMachine& machine, const AblationOptions& options);
Experiment ablate_r3(AblationMachine& machine, const AblationOptions& options);
Experiment ablate_r4(AblationMachine& machine, const AblationOptions& options);

// The digests that VendorKernels holds, by the library of this process.
std::vector<std::string> vendor_digests(AblationMachine& machine, const AblationOptions& options);

}  // namespace reprofuse::study
