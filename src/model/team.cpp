#include "model/team.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/math.hpp"
#include "kernels/backend.hpp"
#include "parallel/communicator.hpp"

namespace reprofuse::model {

Range range_of(std::int64_t total, int rank, int ranks) {
  const std::int64_t each = total / ranks;
  const std::int64_t larger = total % ranks;  // so many have one more
  return {rank * each + std::min<std::int64_t>(rank, larger), each + (rank < larger ? 1 : 0)};
}

void require_ranks(const checkpoint::ModelConfig& config, int ranks) {
  const std::int64_t max_ranks =
      std::min({config.heads, config.hidden_size, config.intermediate_size, config.vocab_size});
  if (ranks < 1 || ranks > max_ranks)
    fail(ErrorCode::kUnsupported, "a model of {} heads cannot be split over {} ranks; 1 to {} are possible",
         config.heads, ranks, max_ranks);
}

// A rank's heads of queries are all that look at some heads of keys or, of one such head, some. Either way the number
// of queries per key is the same for all heads of a rank, which is what attention takes.
Share share_of(const checkpoint::ModelConfig& config, int rank, int ranks) {
  const std::int64_t group = config.heads / config.kv_heads;
  Share share{.ranks = ranks,
              .heads = {},
              .kv_heads = {},
              .hidden = range_of(config.hidden_size, rank, ranks),
              .intermediate = range_of(config.intermediate_size, rank, ranks),
              .vocabulary = range_of(config.vocab_size, rank, ranks)};
  if (ranks <= config.kv_heads) {
    share.kv_heads = range_of(config.kv_heads, rank, ranks);
    share.heads = share.kv_heads.times(group);
    return share;
  }
  for (std::int64_t head = 0; head < config.kv_heads; ++head) {
    const Range ranks_of_head = range_of(ranks, static_cast<int>(head), static_cast<int>(config.kv_heads));
    if (rank < ranks_of_head.first || rank >= ranks_of_head.end()) continue;
    share.kv_heads = {head, 1};
    share.heads = range_of(group, rank - static_cast<int>(ranks_of_head.first), static_cast<int>(ranks_of_head.count));
    share.heads.first += head * group;
  }
  return share;
}

std::vector<Share> shares_of(const checkpoint::ModelConfig& config, int ranks) {
  require_ranks(config, ranks);
  std::vector<Share> shares;
  shares.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) shares.push_back(share_of(config, rank, ranks));
  return shares;
}

namespace {

using parallel::Wait;

constexpr std::int64_t kFirstWords = 256;  // of a message, sent at once; the rest follows if there is any
constexpr std::size_t kHeaderWords = 3;    // command, number, words

// "numerics fma-1" to its name.
std::string_view name_of_line(std::string_view line) {
  return line.substr(0, line.find(' '));
}

std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

// What differs first between the lines of rank 0 and those of another.
std::string difference(std::string_view first, std::string_view other, const std::string& where) {
  while (!first.empty() || !other.empty()) {
    const std::string_view a = take_line(first), b = take_line(other);
    if (a != b)
      return fmt::format("{} differs from rank 0 in the {}: '{}', and '{}' on rank 0", where,
                         name_of_line(a.empty() ? b : a), b, a);
  }
  return {};
}

}  // namespace

Team::~Team() {
  if (on_stream() != nullptr && communicator_->is_broken()) on_stream()->abort();
  if (!leads()) return;
  try {
    tell({});
  } catch (...) {  // they are lost, and end by themselves
    communicator_->break_off();
  }
}

void Team::tell(const Message& message) {
  if (communicator_->is_broken()) throw parallel::RankFailure("the ranks are out of step");
  std::vector<std::int32_t> words{static_cast<std::int32_t>(message.command), message.number,
                                  static_cast<std::int32_t>(message.words.size())};
  words.insert(words.end(), message.words.begin(), message.words.end());
  const auto all = static_cast<std::int64_t>(words.size());
  words.resize(static_cast<std::size_t>(std::max(all, kFirstWords)));
  communicator_->broadcast(words.data(), kFirstWords, Wait::kEndless);
  if (all > kFirstWords) communicator_->broadcast(words.data() + kFirstWords, all - kFirstWords, Wait::kBounded);
}

Team::Message Team::hear() {
  std::vector<std::int32_t> words(static_cast<std::size_t>(kFirstWords));
  communicator_->broadcast(words.data(), kFirstWords, Wait::kEndless);
  Message message{static_cast<Command>(words[0]), words[1], {}};
  const auto all = static_cast<std::int64_t>(kHeaderWords) + words[2];
  words.resize(static_cast<std::size_t>(std::max(all, kFirstWords)));
  if (all > kFirstWords) communicator_->broadcast(words.data() + kFirstWords, all - kFirstWords, Wait::kBounded);
  message.words.assign(words.begin() + kHeaderWords, words.begin() + all);
  return message;
}

std::vector<std::string> Team::exchange(const std::string& own) {
  const auto ranks = static_cast<std::size_t>(size()), self = static_cast<std::size_t>(rank());
  std::vector<std::uint32_t> bytes(ranks);
  bytes[self] = static_cast<std::uint32_t>(own.size());
  communicator_->all_gather(bytes.data(), std::vector<std::int64_t>(ranks, 1), Wait::kEndless);
  std::vector<std::int64_t> words;
  std::vector<std::size_t> offsets{0};
  for (const std::uint32_t size : bytes) {
    words.push_back(ceil_div<std::int64_t>(size, sizeof(std::uint32_t)));
    offsets.push_back(offsets.back() + static_cast<std::size_t>(words.back()));
  }
  std::vector<std::uint32_t> all(std::max<std::size_t>(offsets.back(), 1));
  std::memcpy(all.data() + offsets[self], own.data(), own.size());
  communicator_->all_gather(all.data(), words, Wait::kEndless);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < ranks; ++i)
    texts.emplace_back(reinterpret_cast<const char*>(all.data() + offsets[i]), bytes[i]);
  return texts;
}

void Team::require_same(const std::string& lines) {
  const std::vector<std::string> texts = exchange(lines);
  for (int other = 1; other < size(); ++other) {
    const std::string& text = texts[static_cast<std::size_t>(other)];
    if (text != texts[0])
      throw AgreedError(ErrorCode::kInvalidArgument, difference(texts[0], text, communicator_->name_of(other)));
  }
}

void Team::require_of_leader(const std::string& problem) {
  const std::string found = exchange(leads() ? problem : "").front();
  if (!found.empty()) throw AgreedError(ErrorCode::kInvalidArgument, found);
}

void Team::keep_traffic(const std::vector<RankTraffic>& of_all) {
  const std::lock_guard lock(traffic_mutex_);
  traffic_ = of_all;
}

std::vector<RankTraffic> Team::traffic() const {
  const std::lock_guard lock(traffic_mutex_);
  return traffic_.empty() ? std::vector<RankTraffic>(static_cast<std::size_t>(size())) : traffic_;
}

MirroredObject::~MirroredObject() {
  try {
    team_->tell({drop_, number_, {}});
  } catch (...) {  // the team is lost, and says so elsewhere
    team_->communicator().break_off();
  }
}

namespace {

// What a rank tells the others: its device, and the version of NCCL or why there is none.
struct RankDevice {
  std::string device, version, problem;

  std::string text() const { return fmt::format("{}\n{}\n{}", device, version, problem); }
  static RankDevice from(const std::string& text) {
    const std::size_t first = text.find('\n'), second = text.find('\n', first + 1);
    return {text.substr(0, first), text.substr(first + 1, second - first - 1), text.substr(second + 1)};
  }
};

std::string host_of(const parallel::Communicator& communicator, int rank) {
  constexpr std::string_view kBefore = " on ";
  const std::string name = communicator.name_of(rank);
  return name.substr(name.find(kBefore) + kBefore.size());
}

// Why not on the stream; empty: there is no reason. Fills in how many ranks share a device.
std::string problem_of(const parallel::Communicator& communicator, const std::vector<RankDevice>& of_ranks,
                       int& ranks_of_device) {
  std::map<std::pair<std::string, std::string>, int> owners;  // of devices, the first of each
  std::map<std::pair<std::string, std::string>, int> users;
  std::string problem;
  const auto note = [&](std::string found) {
    if (problem.empty()) problem = std::move(found);
  };
  for (int rank = 0; rank < communicator.size(); ++rank) {
    const RankDevice& one = of_ranks[static_cast<std::size_t>(rank)];
    if (one.device.empty()) {
      note(fmt::format("{} has no device with memory of its own", communicator.name_of(rank)));
      continue;
    }
    const std::pair place(host_of(communicator, rank), one.device);
    const auto [owner, is_first] = owners.emplace(place, rank);
    ranks_of_device = std::max(ranks_of_device, ++users[place]);
    if (!is_first) note(fmt::format("ranks {} and {} share the device {}", owner->second, rank, one.device));
    if (!one.problem.empty()) note(fmt::format("{}: {}", communicator.name_of(rank), one.problem));
    if (one.version != of_ranks[0].version)
      note(fmt::format("{} has NCCL {}, and rank 0 has {}", communicator.name_of(rank), one.version,
                       of_ranks[0].version));
  }
  return problem;
}

}  // namespace

void choose_gather_transport(Team& team, const kernels::Backend& backend) {
  RankDevice own{.device = backend.device_id(), .version = {}, .problem = {}};
  std::shared_ptr<const parallel::NcclLibrary> library;
  if (!own.device.empty()) try {
      library = std::make_shared<const parallel::NcclLibrary>();
      own.version = library->version_text();
    } catch (const Error& error) {
      own.problem = error.what();
    }
  std::vector<RankDevice> of_ranks;
  std::string devices;
  for (const std::string& text : team.exchange(own.text())) {
    of_ranks.push_back(RankDevice::from(text));
    devices += text + '\n';
  }
  if (team.gather_transport().devices == devices) return;
  GatherTransport transport{
      .on_stream = nullptr, .description = {}, .ranks_of_device = 1, .devices = std::move(devices)};
  const std::string problem = problem_of(team.communicator(), of_ranks, transport.ranks_of_device);
  if (problem.empty()) {
    backend.make_current();
    transport.on_stream = parallel::open_nccl(library, team.communicator());
    transport.description = fmt::format("by {}, on the stream", transport.on_stream->description());
  } else {
    const bool is_of_host = std::ranges::all_of(of_ranks, [](const RankDevice& one) { return one.device.empty(); });
    transport.description = is_of_host ? "by MPI" : fmt::format("by MPI, through host memory: {}", problem);
  }
  team.set_gather_transport(std::move(transport));
}

}  // namespace reprofuse::model
