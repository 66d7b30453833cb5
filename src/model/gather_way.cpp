#include "model/gather_way.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "kernels/backend.hpp"
#include "model/team.hpp"
#include "parallel/nccl.hpp"

namespace reprofuse::model {
namespace {

// What a rank tells the others: its device, and the version of NCCL or why there is none.
struct Told {
  std::string device, version, problem;

  std::string text() const { return fmt::format("{}\n{}\n{}", device, version, problem); }
  static Told from(const std::string& text) {
    const std::size_t first = text.find('\n'), second = text.find('\n', first + 1);
    return {text.substr(0, first), text.substr(first + 1, second - first - 1), text.substr(second + 1)};
  }
};

std::string host_of(const parallel::Communicator& communicator, int rank) {
  constexpr std::string_view kBefore = " on ";
  const std::string name = communicator.name_of(rank);
  return name.substr(name.find(kBefore) + kBefore.size());
}

// Why not on the stream; empty: nothing speaks against it. Fills in how many ranks share a device.
std::string problem_of(const parallel::Communicator& communicator, const std::vector<Told>& told,
                       int& ranks_of_device) {
  std::map<std::pair<std::string, std::string>, int> owners;  // of devices, the first of each
  std::map<std::pair<std::string, std::string>, int> users;
  std::string problem;
  const auto note = [&](std::string found) {
    if (problem.empty()) problem = std::move(found);
  };
  for (int rank = 0; rank < communicator.size(); ++rank) {
    const Told& one = told[static_cast<std::size_t>(rank)];
    if (one.device.empty()) {
      note(fmt::format("{} has no device with memory of its own", communicator.name_of(rank)));
      continue;
    }
    const std::pair place(host_of(communicator, rank), one.device);
    const auto [owner, is_first] = owners.emplace(place, rank);
    ranks_of_device = std::max(ranks_of_device, ++users[place]);
    if (!is_first) note(fmt::format("ranks {} and {} share the device {}", owner->second, rank, one.device));
    if (!one.problem.empty()) note(fmt::format("{}: {}", communicator.name_of(rank), one.problem));
    if (one.version != told[0].version)
      note(fmt::format("{} has NCCL {}, and rank 0 has {}", communicator.name_of(rank), one.version, told[0].version));
  }
  return problem;
}

}  // namespace

void choose_gather_way(Team& team, const kernels::Backend& backend) {
  Told own{.device = backend.device_id(), .version = {}, .problem = {}};
  std::shared_ptr<const parallel::NcclLibrary> library;
  if (!own.device.empty()) try {
      library = std::make_shared<const parallel::NcclLibrary>();
      own.version = library->version_text();
    } catch (const Error& error) {
      own.problem = error.what();
    }
  std::vector<Told> told;
  std::string devices;
  for (const std::string& text : team.exchange(own.text())) {
    told.push_back(Told::from(text));
    devices += text + '\n';
  }
  if (team.gather_way().devices == devices) return;
  GatherWay way{.on_stream = nullptr, .description = {}, .ranks_of_device = 1, .devices = std::move(devices)};
  const std::string problem = problem_of(team.communicator(), told, way.ranks_of_device);
  if (problem.empty()) {
    backend.make_current();
    way.on_stream = parallel::open_nccl(library, team.communicator());
    way.description = fmt::format("by {}, on the stream", way.on_stream->description());
  } else {
    const bool is_of_host = std::ranges::all_of(told, [](const Told& one) { return one.device.empty(); });
    way.description = is_of_host ? "by MPI" : fmt::format("by MPI, through host memory: {}", problem);
  }
  team.set_gather_way(std::move(way));
}

}  // namespace reprofuse::model
