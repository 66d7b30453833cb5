#include "model/exchange.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>

#include "base/check.hpp"
#include "checkpoint/config.hpp"
#include "model/activations.hpp"
#include "model/weights.hpp"
#include "ops/buffer.hpp"
#include "ops/context_state.hpp"

namespace reprofuse::model {

using parallel::Wait;

Exchange::Exchange(std::shared_ptr<Team> team, const checkpoint::ModelConfig& config)
    : team_(std::move(team)), shares_(shares_of(config, team_->size())) {
  const Output q{config.q_size(), {&Share::heads, config.head_dim}};
  const Output kv{config.kv_size(), {&Share::kv_heads, config.head_dim}};
  const Output hidden{config.hidden_size, {&Share::hidden}};
  const Output intermediate{config.intermediate_size, {&Share::intermediate}};
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const auto name = [&](std::string_view ending) { return checkpoint::layer_tensor_name(i, ending); };
    ops_.push_back({name("input_layernorm.weight"), OpKind::kNorm, {}});
    ops_.push_back({name("self_attn.qkv"), OpKind::kLinear, {q, kv, kv}});
    ops_.push_back({name("self_attn"), OpKind::kAttention, {}});
    ops_.push_back({name("self_attn.o_proj"), OpKind::kLinear, {hidden}});
    ops_.push_back({name("post_attention_layernorm.weight"), OpKind::kNorm, {}});
    ops_.push_back({name("mlp.gate_up"), OpKind::kLinear, {intermediate, intermediate}});
    ops_.push_back({name("mlp.down_proj"), OpKind::kLinear, {hidden}});
  }
  ops_.push_back({std::string(checkpoint::kFinalNormName), OpKind::kNorm, {}});
  ops_.push_back({kHeadOp, OpKind::kLinear, {{config.vocab_size, {&Share::vocabulary}}}});
}

int Exchange::owner_of_token(std::int32_t token) const {
  const auto after = std::upper_bound(shares_.begin(), shares_.end(), token,
                                      [](std::int32_t id, const Share& share) { return id < share.vocabulary.first; });
  return static_cast<int>(after - shares_.begin()) - 1;
}

std::vector<std::int64_t> Exchange::words_of_ranks(Columns columns, std::int64_t rows) const {
  std::vector<std::int64_t> words;
  for (const Share& share : shares_) words.push_back(rows * (share.*columns.range).count * columns.unit);
  return words;
}

template <typename Gather>
void Exchange::timed(const Gather& gather) const {
  const auto begin = std::chrono::steady_clock::now();
  gather();
  const auto waited = std::chrono::steady_clock::now() - begin;
  team_->own_traffic().waited_nanoseconds += std::chrono::duration_cast<std::chrono::nanoseconds>(waited).count();
}

// A device with memory of its own takes the way through the host's.
void Exchange::move(const OpScope& scope, float* all, std::span<const std::int64_t> words, bool to_first) const {
  parallel::Communicator& communicator = team_->communicator();
  const auto gather = [&](float* memory) {
    timed([&] {
      if (to_first)
        communicator.gather_to_first(memory, words);
      else
        communicator.all_gather(memory, words, Wait::kBounded);
    });
  };
  const kernels::Backend& backend = *scope.context.state().backend;
  const auto own = static_cast<std::size_t>(team_->rank());
  const std::int64_t whole = std::accumulate(words.begin(), words.end(), std::int64_t{0});
  if (!to_first || team_->leads())
    team_->own_traffic().gathered_bytes += (whole - words[own]) * static_cast<std::int64_t>(sizeof(float));
  if (parallel::StreamCommunicator* gathers = team_->on_stream())
    return to_first ? gathers->gather_to_first(all, words, scope.stream)
                    : gathers->all_gather(all, words, scope.stream);
  if (backend.capabilities().shares_host_memory) return gather(all);
  const std::int64_t before = std::accumulate(words.begin(), words.begin() + team_->rank(), std::int64_t{0});
  std::vector<float> host(static_cast<std::size_t>(whole));
  const auto computed = backend.make_event();
  computed->record(scope.stream);
  computed->synchronize();
  copy_to_host(scope.context, host.data() + before, all + before, static_cast<std::size_t>(words[own]) * sizeof(float));
  gather(host.data());
  if (!to_first || team_->leads()) copy_to_device(scope.context, all, host.data(), host.size() * sizeof(float));
}

// A rank that is lost lets what the others have enqueued wait for ever. Where nobody is known to have ended, those that
// are there meet by the host, which finds out who does not come.
void Exchange::wait_for(const OpScope& scope) const {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds kSpin{200}, kSleep{20};
  constexpr std::chrono::milliseconds kBetweenLooks{100};
  parallel::StreamCommunicator* gathers = team_->on_stream();
  if (gathers == nullptr) return;
  parallel::Communicator& communicator = team_->communicator();
  const auto computed = scope.context.state().backend->make_event();
  computed->record(scope.stream);
  const auto begin = Clock::now();
  for (auto next_look = begin; !computed->is_reached();) {
    const auto now = Clock::now();
    if (now >= next_look) {
      next_look = now + kBetweenLooks;
      gathers->check();
      const std::string lost = communicator.lost_rank();
      const bool is_late = now - begin > communicator.timeout();
      if (!lost.empty() || is_late) gathers->abort();
      if (!lost.empty()) throw parallel::RankFailure(lost);
      if (is_late) {
        communicator.barrier();
        throw parallel::RankFailure(
            fmt::format("a pass has not ended within {} s on any rank", communicator.timeout().count()));
      }
    }
    if (now - begin > kSpin) std::this_thread::sleep_for(kSleep);
  }
  gathers->check();
}

void Exchange::unpack(const OpScope& scope, const Activations& activations, Matrix whole, Columns columns) const {
  if (whole.rows == 1) return;
  for (const Share& share : shares_) {
    const Range range = (share.*columns.range).times(columns.unit);
    gather_rows(
        scope,
        {.x = read_only(activations.own_columns(whole, range)),
         .rows = activations.every_row(),
         .y = {.data = whole.data + range.first, .rows = whole.rows, .cols = range.count, .stride = whole.stride}});
  }
}

// Where ops return their failures, a rank that has one says so by a NaN, which no result of a contract is. Of a
// baseline, which looks for none, it may be a result; then nobody has failed, and the pass goes on.
void Exchange::all_gather_columns(const OpScope& scope, const Activations& activations, Matrix whole, Columns columns,
                                  const Failure& failure) const {
  const auto first_value = [&](const Share& share) -> float& {
    return *activations.own_columns(whole, (share.*columns.range).times(columns.unit)).data;
  };
  const bool tells_at_once = !scope.context.state().backend->capabilities().asynchronous;
  if (tells_at_once && failure) first_value(own()) = std::numeric_limits<float>::quiet_NaN();
  move(scope, activations.own_columns(whole, {}).data, words_of_ranks(columns, whole.rows), false);
  if (tells_at_once && std::ranges::any_of(shares_, [&](const Share& share) { return std::isnan(first_value(share)); }))
    agree(failure);
  unpack(scope, activations, whole, columns);
}

void Exchange::gather_to_first(const OpScope& scope, const Activations& activations, Matrix whole,
                               Columns columns) const {
  move(scope, activations.own_columns(whole, {}).data, words_of_ranks(columns, whole.rows), true);
  if (team_->leads()) unpack(scope, activations, whole, columns);
}

void Exchange::all_gather_rows(const OpScope& scope, float* all, std::span<const std::int64_t> row_counts,
                               std::int64_t width) const {
  std::vector<std::int64_t> words;
  for (const std::int64_t rows : row_counts) words.push_back(rows * width);
  move(scope, all, words, false);
}

// Columns and heads are counted over all ranks.
kernels::NonFinite Exchange::place_in_whole(const Op& op, kernels::NonFinite place) const {
  if (op.kind == OpKind::kAttention) return {place.row, place.column + own().heads.first};
  std::int64_t before = 0;  // columns of the outputs before, of all ranks
  for (const Output& output : op.outputs) {
    const Range range = (own().*output.shared.range).times(output.shared.unit);
    if (place.column < range.count) return {place.row, before + range.first + place.column};
    place.column -= range.count;
    before += output.columns;
  }
  return place;
}

void Exchange::agree(const Failure& failure) const {
  struct Record {
    std::array<std::int64_t, 3> place;  // op, row and column
    RankTraffic traffic;
  };
  static_assert(sizeof(Record) % sizeof(std::uint32_t) == 0);
  const auto none = static_cast<std::int64_t>(ops_.size());
  std::vector<Record> records(shares_.size(), Record{{none, 0, 0}, team_->own_traffic()});
  if (failure) {
    const auto op = std::ranges::find(ops_, failure->op(), &Op::name);
    invariant(op != ops_.end(), "an op that is not finite has no place in the pass");
    const kernels::NonFinite place = place_in_whole(*op, failure->place());
    records[static_cast<std::size_t>(team_->rank())].place = {op - ops_.begin(), place.row, place.column};
  }
  const std::vector<std::int64_t> words(shares_.size(), sizeof(Record) / sizeof(std::uint32_t));
  timed([&] { team_->communicator().all_gather(records.data(), words, Wait::kBounded); });
  std::vector<RankTraffic> traffic;
  traffic.reserve(records.size());
  for (const Record& record : records) traffic.push_back(record.traffic);
  team_->keep_traffic(traffic);
  const auto [op, row, column] = std::ranges::min_element(records, {}, &Record::place)->place;
  if (op == none) return;
  const Op& failed = ops_[static_cast<std::size_t>(op)];
  std::vector<std::int64_t> columns;
  for (const Output& output : failed.outputs) columns.push_back(output.columns);
  fail_non_finite(failed.name, columns, {row, column}, failed.kind);
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
