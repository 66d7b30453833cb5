#include "model/team.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "base/math.hpp"

namespace reprofuse::model {
namespace {

using parallel::Patience;

constexpr std::int64_t kFirstWords = 256;  // of a message, sent at once; the rest follows if there is any
constexpr std::size_t kHeaderWords = 3;    // order, number, words

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
  std::vector<std::int32_t> words{static_cast<std::int32_t>(message.order), message.number,
                                  static_cast<std::int32_t>(message.words.size())};
  words.insert(words.end(), message.words.begin(), message.words.end());
  const auto all = static_cast<std::int64_t>(words.size());
  words.resize(static_cast<std::size_t>(std::max(all, kFirstWords)));
  communicator_->broadcast(words.data(), kFirstWords, Patience::kEndless);
  if (all > kFirstWords) communicator_->broadcast(words.data() + kFirstWords, all - kFirstWords, Patience::kBounded);
}

Team::Message Team::hear() {
  std::vector<std::int32_t> words(static_cast<std::size_t>(kFirstWords));
  communicator_->broadcast(words.data(), kFirstWords, Patience::kEndless);
  Message message{static_cast<Order>(words[0]), words[1], {}};
  const auto all = static_cast<std::int64_t>(kHeaderWords) + words[2];
  words.resize(static_cast<std::size_t>(std::max(all, kFirstWords)));
  if (all > kFirstWords) communicator_->broadcast(words.data() + kFirstWords, all - kFirstWords, Patience::kBounded);
  message.words.assign(words.begin() + kHeaderWords, words.begin() + all);
  return message;
}

std::vector<std::string> Team::exchange(const std::string& own) {
  const auto ranks = static_cast<std::size_t>(size()), self = static_cast<std::size_t>(rank());
  std::vector<std::uint32_t> bytes(ranks);
  bytes[self] = static_cast<std::uint32_t>(own.size());
  communicator_->all_gather(bytes.data(), std::vector<std::int64_t>(ranks, 1), Patience::kEndless);
  std::vector<std::int64_t> words;
  std::vector<std::size_t> offsets{0};
  for (const std::uint32_t size : bytes) {
    words.push_back(ceil_div<std::int64_t>(size, sizeof(std::uint32_t)));
    offsets.push_back(offsets.back() + static_cast<std::size_t>(words.back()));
  }
  std::vector<std::uint32_t> all(std::max<std::size_t>(offsets.back(), 1));
  std::memcpy(all.data() + offsets[self], own.data(), own.size());
  communicator_->all_gather(all.data(), words, Patience::kEndless);
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

Followed::~Followed() {
  try {
    team_->tell({drop_, number_, {}});
  } catch (...) {  // the team is lost, and says so elsewhere
    team_->communicator().break_off();
  }
}

}  // namespace reprofuse::model
