// OpenBLAS with the kernels of other machines. It chooses them once per process, by the environment, so each choice
// runs in a process of its own: this tool, asked for digests alone.
#pragma once

#include <string>
#include <vector>

#include "study/ablation/ablate.hpp"

namespace reprofuse::cli {

// What `reprofuse ablate r1 --openblas-digests` prints: the kernels' name, then one digest per line.
void print_openblas_digests();

// One entry per choice that runs on this machine, each kind of kernels once; empty where OpenBLAS is missing.
std::vector<study::VendorKernels> run_openblas_kernels();

void print_openblas_kernels();  // "Haswell kernels"

struct OpenBlasChoice {
  std::string assignment;  // in the environment: "OPENBLAS_CORETYPE=Haswell"
  std::string kernels;     // what it chooses here: "Haswell"
};
// Likewise, by a command of this tool that does nothing but print_openblas_kernels().
std::vector<OpenBlasChoice> openblas_choices(const std::vector<std::string>& printing);

}  // namespace reprofuse::cli
