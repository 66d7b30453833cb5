#include "cli/openblas_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "cli/own_process.hpp"
#include "kernels/vendor/libraries.hpp"

namespace reprofuse::cli {
namespace {

// Names that OpenBLAS knows, newest first. One that this machine cannot run falls back to another or ends its process.
constexpr const char* kCoreTypes[] = {"SkylakeX",   "Haswell",   "Sandybridge", "Nehalem",
                                      "NEOVERSEN1", "CORTEXA57", "ARMV8"};

std::string choice_of(const char* core_type) {
  return fmt::format("OPENBLAS_CORETYPE={}", core_type);
}

// "OpenBLAS 0.3.21 ..., Haswell kernels" is "Haswell kernels".
std::string kernels_of(const std::string& description) {
  const auto comma = description.rfind(", ");
  return description.substr(comma == std::string::npos ? 0 : comma + 2);
}

std::optional<study::VendorKernels> parse(const std::optional<std::string>& printed) {
  if (!printed) return std::nullopt;
  std::istringstream lines(*printed);
  study::VendorKernels kernels;
  std::getline(lines, kernels.name);
  for (std::string digest; std::getline(lines, digest);) kernels.digests.push_back(digest);
  if (kernels.digests.size() != study::ablation_cases().size()) return std::nullopt;
  return kernels;
}

}  // namespace

void print_openblas_digests() {
  const auto machine = study::make_cpu_ablation_machine();
  const std::string kernels = kernels_of(vendor::OpenBlas(1).description());
  const std::vector<std::string> digests = study::vendor_digests(*machine, {});
  fmt::print("{}\n", kernels);
  for (const std::string& digest : digests) fmt::print("{}\n", digest);
}

std::vector<study::VendorKernels> run_openblas_kernels() {
  std::vector<study::VendorKernels> found;
  for (const char* core_type : kCoreTypes) {
    auto kernels = parse(run_self({"ablate", "r1", "--openblas-digests"}, choice_of(core_type), OwnErrors::kHidden));
    const bool is_new = kernels && std::none_of(found.begin(), found.end(), [&](const study::VendorKernels& known) {
                          return known.name == kernels->name;
                        });
    if (is_new) found.push_back(std::move(*kernels));
  }
  return found;
}

void print_openblas_kernels() {
  fmt::print("{}\n", kernels_of(vendor::OpenBlas(1).description()));
}

std::vector<OpenBlasChoice> openblas_choices(const std::vector<std::string>& printing) {
  std::vector<OpenBlasChoice> found;
  for (const char* core_type : kCoreTypes) {
    const auto printed = run_self(printing, choice_of(core_type), OwnErrors::kHidden);
    if (!printed) continue;
    const std::string kernels = printed->substr(0, printed->find_first_of(" \n"));
    const bool is_new =
        std::none_of(found.begin(), found.end(), [&](const OpenBlasChoice& known) { return known.kernels == kernels; });
    if (is_new) found.push_back({choice_of(core_type), kernels});
  }
  return found;
}

}  // namespace reprofuse::cli
