// OpenBLAS with the kernels of other machines. It chooses them once per process, by the environment, so each choice
// runs in a process of its own: this tool, asked for digests alone.
#pragma once

#include <vector>

#include "study/ablation/ablate.hpp"

namespace reprofuse::cli {

// What `reprofuse ablate r1 --openblas-digests` prints: the kernels' name, then one digest per line.
void print_openblas_digests();

// One entry per choice that runs on this machine, each kind of kernels once; empty where OpenBLAS is missing.
std::vector<study::VendorKernels> run_openblas_kernels();

}  // namespace reprofuse::cli
