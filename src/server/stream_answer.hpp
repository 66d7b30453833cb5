// From a call to the answer of HTTP: the engine's news, gathered into one body or sent on as events.
#pragma once

#include <chrono>
#include <memory>

#include "engine/service.hpp"
#include "server/api/call.hpp"
#include "server/api/reply.hpp"
#include "server/http/message.hpp"
#include "server/metrics.hpp"
#include "server/server_model.hpp"

namespace reprofuse::server {

struct AnswerScene {
  std::shared_ptr<ServedModel> model;
  Metrics& metrics;
  const Client& client;
  RequestRecord& record;
};

// Computes the answer, or starts to: a stream goes on when it is called. A client that has gone is noticed either way,
// and its answers are given up. The scene's references must outlive the stream. Throws what
// Service::submit_all throws, a refusal as an ApiError.
HttpResponse answer_call(Call& call, std::unique_ptr<Reply> reply, const AnswerScene& scene);

}  // namespace reprofuse::server
