#include "model/pass_batch.hpp"

#include <cstring>

#include "base/check.hpp"

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

}  // namespace

std::vector<std::int32_t> PassBatch::to_words() const {
  const auto count = [](const auto& elements) { return static_cast<std::int32_t>(elements.size()); };
  std::vector<std::int32_t> words{count(tokens),  count(chunks), count(logit_rows),
                                  max_chunk_rows, max_keys,      page_table_stride};
  invariant(words.size() == kSizes, "the sizes of a pass are as many as are read");
  for (const auto* rows : {&tokens, &positions, &sequences, &logit_rows, &page_table}) append(words, *rows);
  append(words, chunks);
  return words;
}

PassBatch PassBatch::from_words(std::span<const std::int32_t> words) {
  invariant(words.size() >= kSizes, "a pass has no sizes");
  PassBatch batch;
  const std::int32_t rows = words[0], chunk_count = words[1], logit_row_count = words[2];
  batch.max_chunk_rows = words[3];
  batch.max_keys = words[4];
  batch.page_table_stride = words[5];
  words = words.subspan(kSizes);
  for (auto* of_rows : {&batch.tokens, &batch.positions, &batch.sequences}) take(words, *of_rows, rows);
  take(words, batch.logit_rows, logit_row_count);
  take(words, batch.page_table, chunk_count * batch.page_table_stride);
  take(words, batch.chunks, chunk_count);
  return batch;
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

}  // namespace reprofuse::model
