#include "model/share.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace reprofuse::model {

Range part_of(std::int64_t total, int part, int parts) {
  const std::int64_t each = total / parts;
  const std::int64_t larger = total % parts;  // so many have one more
  return {part * each + std::min<std::int64_t>(part, larger), each + (part < larger ? 1 : 0)};
}

void require_ranks(const checkpoint::ModelConfig& config, int ranks) {
  const std::int64_t most = std::min({config.heads, config.hidden_size, config.intermediate_size, config.vocab_size});
  if (ranks < 1 || ranks > most)
    fail(ErrorCode::kUnsupported, "a model of {} heads cannot be split over {} ranks; 1 to {} are possible",
         config.heads, ranks, most);
}

// A rank's heads of queries are all that look at some heads of keys or, of one such head, some. Either way the number
// of queries per key is the same for all heads of a rank, which is what attention takes.
Share share_of(const checkpoint::ModelConfig& config, int rank, int ranks) {
  const std::int64_t group = config.heads / config.kv_heads;
  Share share{.ranks = ranks,
              .heads = {},
              .kv_heads = {},
              .hidden = part_of(config.hidden_size, rank, ranks),
              .intermediate = part_of(config.intermediate_size, rank, ranks),
              .vocabulary = part_of(config.vocab_size, rank, ranks)};
  if (ranks <= config.kv_heads) {
    share.kv_heads = part_of(config.kv_heads, rank, ranks);
    share.heads = share.kv_heads.times(group);
    return share;
  }
  for (std::int64_t head = 0; head < config.kv_heads; ++head) {
    const Range sharers = part_of(ranks, static_cast<int>(head), static_cast<int>(config.kv_heads));
    if (rank < sharers.first || rank >= sharers.end()) continue;
    share.kv_heads = {head, 1};
    share.heads = part_of(group, rank - static_cast<int>(sharers.first), static_cast<int>(sharers.count));
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

}  // namespace reprofuse::model
