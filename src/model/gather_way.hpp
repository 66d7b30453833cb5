// How the parts of ranks reach each other: on the stream of their devices, or through the memory of the host.
#pragma once

#include <memory>
#include <string>

#include "parallel/communicator.hpp"

namespace reprofuse::kernels {
class Backend;
}

namespace reprofuse::model {

class Team;

struct GatherWay {
  std::unique_ptr<parallel::StreamCommunicator> on_stream;  // null: through host memory
  std::string description;                                  // "by NCCL 2.28.3, on the stream"
  int ranks_of_device = 1;                                  // the most that share one device
  std::string devices;                                      // of all ranks, that it was chosen for
};

// All ranks together. By NCCL where each of them has a device of its own and the same NCCL, and through the host where
// several share a device, which NCCL does not allow, or one has none.
void choose_gather_way(Team& team, const kernels::Backend& backend);

}  // namespace reprofuse::model
