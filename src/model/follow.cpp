#include "model/follow.hpp"

#include <cstddef>
#include <cstring>
#include <map>
#include <memory>

#include "base/check.hpp"
#include "model/exchange.hpp"
#include "model/kv_cache.hpp"
#include "model/model.hpp"

namespace reprofuse::model {
namespace {

template <typename Element>
void append(std::vector<std::int32_t>& words, const std::vector<Element>& elements) {
  static_assert(sizeof(Element) % sizeof(std::int32_t) == 0);
  const std::size_t before = words.size();
  words.resize(before + elements.size() * sizeof(Element) / sizeof(std::int32_t));
  if (!elements.empty()) std::memcpy(words.data() + before, elements.data(), elements.size() * sizeof(Element));
}

template <typename Element>
void take(std::span<const std::int32_t>& words, std::vector<Element>& elements, std::int32_t count) {
  elements.resize(static_cast<std::size_t>(count));
  const std::size_t taken = elements.size() * sizeof(Element) / sizeof(std::int32_t);
  invariant(taken <= words.size(), "a pass has fewer words than it says");
  if (taken > 0) std::memcpy(static_cast<void*>(elements.data()), words.data(), taken * sizeof(std::int32_t));
  words = words.subspan(taken);
}

constexpr std::size_t kSizes = 6;  // at the beginning of the words

// Which pages hold what is the leader's business: the cache is only memory here.
struct FollowersRunner {
  FollowersRunner(const Model& model, const std::vector<std::int32_t>& words)
      : cache(model.context(), model.own_config(), words[1], words[2]),
        runner(model, cache, {.rows = words[3], .sequences = words[4], .logit_rows = words[5]}) {}

  KvCache cache;
  Runner runner;
};

}  // namespace

std::vector<std::int32_t> to_words(const PassBatch& pass) {
  const auto count = [](const auto& elements) { return static_cast<std::int32_t>(elements.size()); };
  std::vector<std::int32_t> words{count(pass.tokens),  count(pass.chunks), count(pass.logit_rows),
                                  pass.max_chunk_rows, pass.max_keys,      pass.page_table_stride};
  invariant(words.size() == kSizes, "the sizes of a pass are as many as are read");
  for (const auto* rows : {&pass.tokens, &pass.positions, &pass.sequences, &pass.logit_rows, &pass.page_table})
    append(words, *rows);
  append(words, pass.chunks);
  return words;
}

PassBatch pass_from_words(std::span<const std::int32_t> words) {
  invariant(words.size() >= kSizes, "a pass has no sizes");
  PassBatch pass;
  const std::int32_t rows = words[0], chunk_count = words[1], logit_row_count = words[2];
  pass.max_chunk_rows = words[3];
  pass.max_keys = words[4];
  pass.page_table_stride = words[5];
  words = words.subspan(kSizes);
  for (auto* of_rows : {&pass.tokens, &pass.positions, &pass.sequences}) take(words, *of_rows, rows);
  take(words, pass.logit_rows, logit_row_count);
  take(words, pass.page_table, chunk_count * pass.page_table_stride);
  take(words, pass.chunks, chunk_count);
  return pass;
}

HostTokenOwners::HostTokenOwners(const Exchange& exchange, std::span<const std::int32_t> tokens)
    : counts(static_cast<std::size_t>(exchange.team().size())) {
  const int self = exchange.team().rank();
  for (const std::int32_t token : tokens) {
    const int owner = exchange.owner_of_token(token);
    places.push_back(static_cast<std::int32_t>(counts[static_cast<std::size_t>(owner)]++));  // among those of its owner
    if (owner == self) own_tokens.push_back(token - static_cast<std::int32_t>(exchange.own().vocabulary.first));
  }
  std::vector<std::int32_t> before(counts.size());  // tokens of the ranks before
  for (std::size_t rank = 1; rank < counts.size(); ++rank)
    before[rank] = before[rank - 1] + static_cast<std::int32_t>(counts[rank - 1]);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    places[i] += before[static_cast<std::size_t>(exchange.owner_of_token(tokens[i]))];
}

void follow(Team& team, const MakeModel& make_model) {
  std::map<std::int32_t, std::unique_ptr<Model>> models;
  std::map<std::int32_t, std::unique_ptr<FollowersRunner>> runners;
  while (true) {
    const Team::Message message = team.hear();
    switch (message.command) {
      case Command::kEnd: return;
      case Command::kMakeModel: models[message.number] = make_model(message.words.at(0)); break;
      case Command::kDropModel: models.erase(message.number); break;
      case Command::kMakeRunner: {
        const Model& model = *models.at(message.words.at(0));
        runners[message.number] = std::make_unique<FollowersRunner>(model, message.words);
        break;
      }
      case Command::kDropRunner: runners.erase(message.number); break;
      case Command::kPass: runners.at(message.number)->runner.follow(message.words); break;
    }
  }
}

}  // namespace reprofuse::model
