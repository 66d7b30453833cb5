// Communicators over MPI. The code that calls MPI is a module of its own, loaded when it is asked for, so that neither
// the tool nor the library needs MPI where it runs alone.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

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

}  // namespace reprofuse::parallel
