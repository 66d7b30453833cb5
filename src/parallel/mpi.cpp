#include <dlfcn.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "base/check.hpp"
#include "parallel/communicator.hpp"

namespace reprofuse::parallel {
namespace {

std::optional<int> number_in_environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  const std::string_view text = value;
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && number >= 0;
  return is_number ? std::optional(number) : std::nullopt;
}

// Beside an installed tool, or beside the libraries of a build.
std::filesystem::path module_path() {
  std::error_code ignored;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const std::string_view place : {REPROFUSE_INSTALLED_MODULES, "../lib"}) {
    auto path = (folder / place / kMpiModule).lexically_normal();
    if (std::filesystem::exists(path, ignored)) return path;
  }
  fail(ErrorCode::kUnsupported,
       "this build computes on one rank: its module for MPI, {}, is not there. On Debian: apt install libopenmpi-dev, "
       "and build anew",
       kMpiModule);
}

}  // namespace

std::optional<MpiRank> mpi_rank() {
  const auto rank = number_in_environment("OMPI_COMM_WORLD_RANK");
  const auto ranks = number_in_environment("OMPI_COMM_WORLD_SIZE");
  if (!rank || !ranks || *ranks < 1) return std::nullopt;
  return MpiRank{.rank = *rank, .ranks = *ranks};
}

// MPI's own plugins look for its symbols among the global ones, and so does the module, which names no library.
std::unique_ptr<Communicator> open_mpi(std::chrono::seconds timeout) {
  const std::filesystem::path path = module_path();
  if (dlopen(kMpiLibrary, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE) == nullptr)
    fail(ErrorCode::kUnsupported, "{} cannot be loaded ({}); on Debian: apt install openmpi-bin", kMpiLibrary,
         dlerror());
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (module == nullptr) fail(ErrorCode::kUnsupported, "{} cannot be loaded: {}", path.string(), dlerror());
  void* entry = dlsym(module, kMpiModuleEntry);
  if (entry == nullptr) fail(ErrorCode::kUnsupported, "{} has no {}", path.string(), kMpiModuleEntry);
  return std::unique_ptr<Communicator>(reinterpret_cast<OpenMpiModule*>(entry)(static_cast<int>(timeout.count())));
}

}  // namespace reprofuse::parallel
