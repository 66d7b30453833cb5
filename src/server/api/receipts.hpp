// POST /v1/receipts/verify: is a receipt, or a saved reply, true of the model that is served?
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "receipt/replay.hpp"
#include "server/api/call.hpp"
#include "server/api/reply.hpp"

namespace reprofuse::server {

// A receipt, or a choice of a reply.
struct Verified {
  receipt::Evidence evidence;
  std::optional<receipt::Replay> replay;  // of its claim; none: the report is complete
  bool is_replayed = false;
};

struct VerifyCall : Call {                             // requests: those of the replays
  std::vector<std::shared_ptr<Verified>> choices;      // shared with the reply
  std::vector<std::shared_ptr<Verified>> of_requests;  // those to replay, in the order of the requests
};

// Throws an ApiError, and nothing else, for an invalid body. What is no receipt is a verdict, not an error.
VerifyCall parse_verify(const RequestBody& body, const ServedFacts& facts, const engine::Engine& engine,
                        const Caller& caller = {});

// One JSON text; finished at once where there is nothing to replay.
std::unique_ptr<Reply> make_reply(const VerifyCall& call, const ServedFacts& facts);

}  // namespace reprofuse::server
