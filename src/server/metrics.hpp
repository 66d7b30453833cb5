// What /metrics shows, under the names that dashboards for vLLM know, with "reprofuse:" in front.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/histogram.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/request.hpp"
#include "model/team.hpp"

namespace reprofuse::server {

// For any number of threads.
class Metrics {
 public:
  using Seconds = std::chrono::duration<double>;

  Metrics();

  void first_token(Seconds since_request) { time_to_first_token_.Observe(since_request.count()); }
  void next_tokens(Seconds since_last, std::size_t tokens);  // that came together
  void request_ended(Seconds since_request) { request_latency_.Observe(since_request.count()); }
  void answer_ended(engine::FinishReason reason);
  void answers_abandoned(std::size_t answers) { abandoned_.Increment(static_cast<double>(answers)); }
  void answers_failed(std::size_t answers) { failed_.Increment(static_cast<double>(answers)); }

  struct Gauges {
    std::string model;                          // its label on every line
    std::optional<engine::EngineStats> engine;  // none while there is no engine
    std::vector<model::RankTraffic> ranks;      // in their order; empty: one alone
    std::size_t connections = 0;
    std::uint64_t refused_connections = 0;
    std::uint64_t evicted_connections = 0;
    std::size_t reply_bytes = 0;
    std::uint64_t dropped_log_lines = 0;
  };
  std::string text(const Gauges& gauges) const;  // Prometheus' text format 0.0.4

 private:
  prometheus::Histogram time_to_first_token_;
  prometheus::Histogram inter_token_latency_;
  prometheus::Histogram request_latency_;
  prometheus::Counter stopped_, cut_, failed_, abandoned_;
};

inline constexpr const char* kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

// Measures the updates of one request as they come.
class RequestTimer {
 public:
  RequestTimer(Metrics& metrics, std::chrono::steady_clock::time_point begin, std::size_t prompts);
  ~RequestTimer();  // answers that have not ended by then count as abandoned; or as failed, if another one has
  RequestTimer(const RequestTimer&) = delete;
  RequestTimer& operator=(const RequestTimer&) = delete;

  void expect(std::size_t prompt, int choices);
  void add(std::size_t prompt, const engine::Update& update);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  Metrics& metrics_;
  TimePoint begin_;
  std::size_t unended_ = 0;
  bool has_failed_ = false;                                  // one of them, so that the others are not waited for
  std::vector<std::vector<std::optional<TimePoint>>> last_;  // [prompt][choice], when its last token came
};

}  // namespace reprofuse::server
