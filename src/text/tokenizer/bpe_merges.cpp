#include "text/tokenizer/bpe_merges.hpp"

#include <queue>

namespace reprofuse::text {
namespace {

constexpr std::int32_t kNone = -1;

// A token of the piece, in a list from which merging removes.
struct Symbol {
  std::int32_t id;  // kNone once merged into the symbol before it
  std::int32_t previous, next;
};

struct Candidate {
  std::uint32_t rank;
  std::int32_t position;  // of the left symbol
  std::int32_t left, right, merged;

  // For a queue that gives its largest first: the earliest merge, then the leftmost.
  bool operator<(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : position > other.position;
  }
};

class MergeQueue {
 public:
  MergeQueue(const MergeTable& merges, std::vector<Symbol>& symbols) : merges_(merges), symbols_(symbols) {
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) offer(static_cast<std::int32_t>(i));
  }

  void run() {
    while (!queue_.empty()) {
      const Candidate candidate = queue_.top();
      queue_.pop();
      if (still_there(candidate)) apply(candidate);
    }
  }

 private:
  void offer(std::int32_t position) {
    const Symbol& left = symbols_[position];
    if (left.next == kNone) return;
    const std::int32_t right = symbols_[left.next].id;
    if (const Merge* merge = merges_.find(left.id, right)) {
      queue_.push({merge->rank, position, left.id, right, merge->merged});
    }
  }

  bool still_there(const Candidate& candidate) const {
    const Symbol& left = symbols_[candidate.position];
    return left.id == candidate.left && left.next != kNone && symbols_[left.next].id == candidate.right;
  }

  void apply(const Candidate& candidate) {
    Symbol& left = symbols_[candidate.position];
    Symbol& right = symbols_[left.next];
    left.id = candidate.merged;
    left.next = right.next;
    right.id = kNone;
    if (left.next != kNone) symbols_[left.next].previous = candidate.position;
    if (left.previous != kNone) offer(left.previous);
    offer(candidate.position);
  }

  const MergeTable& merges_;
  std::vector<Symbol>& symbols_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

void MergeTable::reserve(std::size_t pairs) {
  std::size_t slots = 16;
  while (slots < pairs * 2) slots *= 2;
  slots_.assign(slots, {kEmpty, {}});
}

void MergeTable::add(std::int32_t left, std::int32_t right, Merge merge) {
  const std::uint64_t key = key_of(left, right);
  slots_[slot_of(key)] = {key, merge};
}

void append_merged(std::span<const std::int32_t> tokens, const MergeTable& merges, std::vector<std::int32_t>& ids) {
  if (tokens.empty()) return;
  std::vector<Symbol> symbols(tokens.size());
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(tokens.size()); ++i) symbols[i] = {tokens[i], i - 1, i + 1};
  symbols.back().next = kNone;
  MergeQueue(merges, symbols).run();
  for (std::int32_t i = 0; i != kNone; i = symbols[i].next) ids.push_back(symbols[i].id);
}

}  // namespace reprofuse::text
