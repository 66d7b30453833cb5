// What the ranks of a model tell each other of a forward pass: their columns of a row, the rows of their tokens, and
// where a value is not finite.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/config.hpp"
#include "model/team.hpp"
#include "ops/op_registry.hpp"
#include "ops/transformer_ops.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::model {

class Activations;

// What a rank has found that is not finite, its first.
using Failure = std::optional<NonFiniteError>;

// Columns of whole rows, as the ranks share them: `unit` of them for each of a range.
struct Columns {
  Range Share::*range;
  std::int64_t unit = 1;
};

class Exchange {
 public:
  Exchange(std::shared_ptr<Team> team, const checkpoint::ModelConfig& config);

  Team& team() const { return *team_; }
  const std::shared_ptr<Team>& shared_team() const { return team_; }
  const Share& own() const { return shares_[static_cast<std::size_t>(team_->rank())]; }
  int owner_of_token(std::int32_t token) const;

  // Every rank's columns of the rows. Where a rank has failed, all of them throw what agree() throws.
  void all_gather_columns(const OpScope& scope, const Activations& activations, Matrix whole, Columns columns,
                          const Failure& failure) const;
  void gather_to_first(const OpScope& scope, const Activations& activations, Matrix whole, Columns columns) const;
  // Whole rows of `width` that the ranks have, row_counts of each, back to back.
  void all_gather_rows(const OpScope& scope, float* all, std::span<const std::int64_t> row_counts,
                       std::int64_t width) const;

  // Waits for a pass whose gathers are on the stream; throws RankFailure where it cannot end. Else does nothing.
  void wait_for(const OpScope& scope) const;

  // At the end of a pass. Throws on all ranks what one rank alone would have thrown: the first failure, by op, row and
  // column. The ranks also learn each other's traffic.
  void agree(const Failure& failure) const;

 private:
  struct Output {
    std::int64_t columns;  // of all ranks together
    Columns shared;
  };
  struct Op {
    std::string name;
    OpKind kind;
    std::vector<Output> outputs;  // of a linear layer
  };

  template <typename Gather>
  void timed(const Gather& gather) const;
  kernels::NonFinite place_in_whole(const Op& op, kernels::NonFinite place) const;
  std::vector<std::int64_t> words_of_ranks(Columns columns, std::int64_t rows) const;
  void move(const OpScope& scope, float* all, std::span<const std::int64_t> words, bool to_first) const;
  void unpack(const OpScope& scope, const Activations& activations, Matrix whole, Columns columns) const;

  std::shared_ptr<Team> team_;
  std::vector<Share> shares_;
  std::vector<Op> ops_;  // that can fail, in the order of a pass
};

// The tokens by the ranks that own their rows of the embedding: TokenOwners (model.hpp), in host memory.
struct HostTokenOwners {
  HostTokenOwners(const Exchange& exchange, std::span<const std::int32_t> tokens);
  std::vector<std::int64_t> counts;
  std::vector<std::int32_t> own_tokens, places;
};

}  // namespace reprofuse::model
