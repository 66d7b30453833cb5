#include "server/metrics.hpp"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <sstream>
#include <utility>

namespace reprofuse::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// vLLM's buckets, so that its dashboards fit.
prometheus::Histogram::BucketBoundaries first_token_buckets() {
  return {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
          1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
}

prometheus::Histogram::BucketBoundaries next_token_buckets() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,  0.15, 0.2,  0.3,
          0.4,   0.5,    0.75,  1.0,  2.5,   5.0,  7.5,   10.0, 20.0, 40.0, 80.0};
}

prometheus::Histogram::BucketBoundaries request_buckets() {
  return {0.01, 0.05, 0.1,  0.3,  0.5,  0.8,  1.0,   1.5,   2.0,   2.5,   5.0,    10.0,
          15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
}

// Families in the order in which they are printed, all with the model's name as a label.
class Families {
 public:
  explicit Families(std::string model) : model_{"model_name", std::move(model)} {}

  void gauge(const char* name, const char* help, double value) {
    ClientMetric metric;
    metric.gauge.value = value;
    add(name, help, MetricType::Gauge, {metric});
  }

  void counter(const char* name, const char* help, double value) {
    ClientMetric metric;
    metric.counter.value = value;
    add(name, help, MetricType::Counter, {metric});
  }

  void add(const char* name, const char* help, MetricType type, std::vector<ClientMetric> metrics) {
    for (ClientMetric& metric : metrics) metric.label.insert(metric.label.begin(), model_);
    families_.push_back({std::string("reprofuse:") + name, help, type, std::move(metrics)});
  }

  std::string text() const {
    std::ostringstream text;
    prometheus::TextSerializer().Serialize(text, families_);
    return text.str();
  }

 private:
  ClientMetric::Label model_;
  std::vector<MetricFamily> families_;
};

void add_engine(Families& families, const engine::EngineStats& stats) {
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  const double pages = number(stats.pages);
  families.gauge("num_requests_running", "Answers in the KV cache.", number(stats.running));
  families.gauge("num_requests_waiting", "Answers that wait for room in it.", number(stats.waiting));
  families.gauge("kv_cache_usage_perc", "Part of the KV cache's pages in use; 1 is all of them.",
                 pages > 0 ? number(stats.pages_in_use) / pages : 0);
  families.gauge("kv_cache_pages", "Pages of the KV cache.", pages);
  families.counter("prompt_tokens_total", "Tokens of prompts.", number(stats.prompt_tokens));
  families.counter("generation_tokens_total", "Tokens of answers.", number(stats.generated_tokens));
  families.counter("num_preemptions_total", "Answers that gave up their pages and were computed again.",
                   number(stats.preemptions));
  families.counter("prefix_cache_queries_total", "Tokens looked for in the prefix cache.",
                   number(stats.queried_prompt_tokens));
  families.counter("prefix_cache_hits_total", "Tokens found there.", number(stats.cached_prompt_tokens));
  families.counter("spec_decode_num_draft_tokens_total", "Tokens guessed ahead.", number(stats.guessed_tokens));
  families.counter("spec_decode_num_accepted_tokens_total", "Of them, those that were right.",
                   number(stats.accepted_tokens));
  families.counter("engine_passes_total", "Passes over the model.", number(stats.passes));
}

// One line for each rank. Those of other ranks than 0 are as of the last pass.
void add_ranks(Families& families, const std::vector<model::RankTraffic>& ranks) {
  families.gauge("num_ranks", "Processes that compute the model together.",
                 static_cast<double>(std::max<std::size_t>(1, ranks.size())));
  const auto add = [&](const char* name, const char* help, std::int64_t model::RankTraffic::*field, double unit) {
    std::vector<ClientMetric> metrics(ranks.size());
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      metrics[rank].label = {{"rank", std::to_string(rank)}};
      metrics[rank].counter.value = static_cast<double>(ranks[rank].*field) * unit;
    }
    if (!ranks.empty()) families.add(name, help, MetricType::Counter, std::move(metrics));
  };
  add("rank_passes_total", "Passes that a rank computed its share of.", &model::RankTraffic::passes, 1);
  add("rank_gathered_bytes_total", "Bytes of results that a rank got from the others.",
      &model::RankTraffic::gathered_bytes, 1);
  add("rank_wait_seconds_total", "Time that a rank spent in gathers, mostly waiting for the others.",
      &model::RankTraffic::waited_nanoseconds, 1e-9);
}

ClientMetric labelled(const prometheus::Counter& counter, const char* reason) {
  ClientMetric metric = counter.Collect();
  metric.label = {{"finished_reason", reason}};
  return metric;
}

}  // namespace

Metrics::Metrics()
    : time_to_first_token_(first_token_buckets()),
      inter_token_latency_(next_token_buckets()),
      request_latency_(request_buckets()) {}

void Metrics::next_tokens(Seconds since_last, std::size_t tokens) {
  const double each = since_last.count() / static_cast<double>(tokens);
  for (std::size_t i = 0; i < tokens; ++i) inter_token_latency_.Observe(each);
}

void Metrics::answer_ended(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kStop: return stopped_.Increment();
    case engine::FinishReason::kLength: return cut_.Increment();
    case engine::FinishReason::kError: return failed_.Increment();
    case engine::FinishReason::kCancelled: return;  // its request is counted as aborted
  }
}

std::string Metrics::text(const Gauges& gauges) const {
  Families families(gauges.model);
  if (gauges.engine) {
    add_engine(families, *gauges.engine);
    add_ranks(families, gauges.ranks);
  }
  families.add("request_success_total", "Answers that ended, by why they did.", MetricType::Counter,
               {labelled(stopped_, "stop"), labelled(cut_, "length"), labelled(failed_, "error"),
                labelled(abandoned_, "abort")});
  families.add("time_to_first_token_seconds", "From a request's arrival to the first token of an answer.",
               MetricType::Histogram, {time_to_first_token_.Collect()});
  families.add("inter_token_latency_seconds", "Between a token of an answer and the next.", MetricType::Histogram,
               {inter_token_latency_.Collect()});
  families.add("e2e_request_latency_seconds", "From a request's arrival to the end of its last answer.",
               MetricType::Histogram, {request_latency_.Collect()});
  families.gauge("num_connections", "Open connections.", static_cast<double>(gauges.connections));
  families.counter("refused_connections_total", "Connections that were served nothing because there were too many.",
                   static_cast<double>(gauges.refused_connections));
  families.counter("evicted_connections_total", "Idle or slow connections closed to make room for others.",
                   static_cast<double>(gauges.evicted_connections));
  families.gauge("reply_memory_bytes", "Memory of answers that clients have not taken yet.",
                 static_cast<double>(gauges.reply_bytes));
  families.counter("dropped_log_lines_total", "Lines of the log that could not be written.",
                   static_cast<double>(gauges.dropped_log_lines));
  return families.text();
}

RequestTimer::RequestTimer(Metrics& metrics, TimePoint begin, std::size_t prompts)
    : metrics_(metrics), begin_(begin), last_(prompts) {}

RequestTimer::~RequestTimer() {
  if (unended_ == 0) return;
  has_failed_ ? metrics_.answers_failed(unended_) : metrics_.answers_abandoned(unended_);
}

void RequestTimer::expect(std::size_t prompt, int choices) {
  last_[prompt].resize(static_cast<std::size_t>(choices));
  unended_ += static_cast<std::size_t>(choices);
}

void RequestTimer::add(std::size_t prompt, const engine::Update& update) {
  std::optional<TimePoint>& last = last_[prompt][static_cast<std::size_t>(update.choice)];
  if (!update.tokens.empty()) {
    if (last)
      metrics_.next_tokens(update.at - *last, update.tokens.size());
    else
      metrics_.first_token(update.at - begin_);
    last = update.at;
  }
  if (!update.end) return;
  metrics_.answer_ended(update.end->finish_reason);
  has_failed_ = has_failed_ || update.end->finish_reason == engine::FinishReason::kError;
  if (--unended_ == 0) metrics_.request_ended(update.at - begin_);
}

}  // namespace reprofuse::server
