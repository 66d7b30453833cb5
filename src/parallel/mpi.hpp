// Communicators over MPI. The code that calls MPI is a module of its own, loaded when it is asked for, so that neither
// the tool nor the library needs MPI where it runs alone.
#pragma once

#include <sched.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "parallel/communicator.hpp"

namespace reprofuse::parallel {

// What mpirun tells a process that it starts, in its environment.
struct MpiPlace {
  int rank = 0;
  int ranks = 1;
};
std::optional<MpiPlace> mpi_place();  // none: nobody has started this process as a rank

// All processes that mpirun has started. Once per process. A rank that does not answer for `timeout` counts as lost.
// Throws kUnsupported, with the reason, where the build has no module or the machine no MPI.
std::unique_ptr<Communicator> open_mpi(std::chrono::seconds timeout);

inline constexpr const char* kMpiLibrary = "libmpi.so.40";  // of Open MPI, as Debian has it
inline constexpr const char* kMpiModule = "libreprofuse_mpi.so";
inline constexpr const char* kMpiModuleEntry = "reprofuse_open_mpi";
using OpenMpiModule = Communicator*(int timeout_seconds);

// Which cores of a machine are whose, where several ranks run on it.

// A bit for each core that a process may run on.
using CoreSet = std::array<std::uint64_t, 16>;

inline CoreSet own_cores() {
  static_assert(sizeof(CoreSet) == sizeof(cpu_set_t));
  CoreSet cores = {};
  if (sched_getaffinity(0, sizeof(cores), reinterpret_cast<cpu_set_t*>(cores.data())) != 0) cores = {};
  return cores;
}

// How many cores one of the ranks of a machine takes, at least one: those of its set, each divided by the ranks that
// may run there. So ranks that share a socket, or all of a machine, have one thread per core together.
inline int cores_of_rank(std::span<const CoreSet> ranks, std::size_t own) {
  constexpr double kRounding = 1e-9;
  double cores = 0;
  for (std::size_t word = 0; word < CoreSet{}.size(); ++word)
    for (std::uint64_t left = ranks[own][word]; left != 0; left &= left - 1) {
      const std::uint64_t core = std::uint64_t{1} << std::countr_zero(left);
      const auto has_core = [&](const CoreSet& set) { return (set[word] & core) != 0; };
      cores += 1.0 / static_cast<double>(std::ranges::count_if(ranks, has_core));
    }
  return std::max(1, static_cast<int>(cores + kRounding));
}

}  // namespace reprofuse::parallel
