// POST /v1/receipts/verify: is a receipt, or a saved reply, true of the model that is served?
#pragma once

#include <memory>

#include "receipt/replay.hpp"
#include "server/api/call.hpp"
#include "server/api/reply.hpp"

namespace reprofuse::server {

struct VerifyCall : Call {                      // requests: those of the replay; none: there is nothing to replay
  std::shared_ptr<receipt::Evidence> evidence;  // shared with the reply
  std::shared_ptr<receipt::Replay> replay;      // null: the report is complete
};

// Throws an ApiError, and nothing else, for an invalid body. What is no receipt is a verdict, not an error.
VerifyCall parse_verify(const RequestBody& body, const ServedFacts& facts, const engine::Engine& engine,
                        const Caller& caller = {});

// One JSON text; finished at once where there is nothing to replay.
std::unique_ptr<Reply> make_reply(const VerifyCall& call, const ServedFacts& facts);

}  // namespace reprofuse::server
