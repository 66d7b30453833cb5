// A backend for tests, by nothing but what kernels/backend.hpp asks for: reference loops on host memory that it keeps
// apart from everyone else's, work that is enqueued, graphs, and a record of non-finite results.
#pragma once

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/math.hpp"
#include "kernels/backend.hpp"
#include "kernels/reference/reference.hpp"
#include "support/host_queue.hpp"

namespace reprofuse::test {

class HostStream final : public kernels::Stream {
 public:
  void* handle() const override { return &queue_; }
  void synchronize() const override {}

 private:
  mutable HostQueue queue_;
};

// Work that is not recorded has run when its turn comes.
class HostEvent final : public kernels::Event {
 public:
  explicit HostEvent(bool is_late = false) : is_late_(is_late) {}
  void record(void*) override {}
  void synchronize() const override {}
  bool is_reached() const override { return !is_late_; }
  double seconds_since(const kernels::Event&) const override { return 0; }

 private:
  bool is_late_;
};

class HostGraph final : public kernels::Graph {
 public:
  HostGraph(Work work, int& replays) : work_(std::move(work)), replays_(replays) {}
  void replay(void*) const override {
    ++replays_;
    for (const auto& step : work_) step();
  }

 private:
  Work work_;
  int& replays_;
};

// The record at the start of a workspace.
struct HostRecord {
  std::uint64_t op, row, column;

  void add(unsigned at, kernels::NonFinite place) {
    const HostRecord other{at, static_cast<std::uint64_t>(place.row), static_cast<std::uint64_t>(place.column)};
    if (std::tie(other.op, other.row, other.column) < std::tie(op, row, column)) *this = other;
  }
};

class HostBackend final : public kernels::Backend {
 public:
  static constexpr std::string_view kName = "host";

  mutable int replays = 0;            // of graphs
  mutable std::int64_t seen_ids = 0;  // that samplers were given
  std::string device;                 // its id; empty: none
  bool is_stuck = false;              // what is enqueued never ends, as its events tell
  std::function<void(const kernels::GatherRowsCall&)> gather_rows = reference::gather_rows;

  std::string_view name() const override { return kName; }
  std::string description() const override { return "reference loops"; }
  std::string device_id() const override { return device; }
  kernels::Capabilities capabilities() const override { return {.asynchronous = true, .graphs = true}; }

  void* allocate(std::size_t bytes) const override {
    void* memory = std::aligned_alloc(kernels::kWorkspaceAlignment, round_up(bytes, kernels::kWorkspaceAlignment));
    const std::lock_guard lock(mutex_);
    sizes_[static_cast<std::byte*>(memory)] = bytes;
    return memory;
  }
  void* allocate_workspace(std::size_t bytes) const override {
    void* memory = allocate(bytes);
    reset_record(memory, bytes, nullptr);
    return memory;
  }
  void release(void* memory) const noexcept override {
    const std::lock_guard lock(mutex_);
    sizes_.erase(static_cast<std::byte*>(memory));
    std::free(memory);
  }
  void copy_to_device(void* to, const void* from, std::size_t bytes) const override {
    require_own(to);
    std::memcpy(to, from, bytes);
  }
  void copy_to_host(void* to, const void* from, std::size_t bytes) const override {
    require_own(from);
    std::memcpy(to, from, bytes);
  }
  std::int64_t free_bytes() const override { return std::int64_t{1} << 30; }
  void* allocate_staging(std::size_t bytes) const override { return std::malloc(bytes); }
  void release_staging(void* memory) const noexcept override { std::free(memory); }
  void enqueue_copy_to_device(void* to, const void* from, std::size_t bytes, void* stream) const override {
    enqueue(stream, [this, to, from, bytes] { copy_to_device(to, from, bytes); });
  }

  std::unique_ptr<kernels::Stream> make_stream() const override { return std::make_unique<HostStream>(); }
  std::unique_ptr<kernels::Event> make_event() const override { return std::make_unique<HostEvent>(is_stuck); }
  std::unique_ptr<kernels::Graph> capture(const std::function<void(void*)>& work) const override {
    Work recorded;
    HostQueue queue{&recorded};
    work(&queue);
    return std::make_unique<HostGraph>(std::move(recorded), replays);
  }

  void reset_record(void* workspace, std::size_t, void*) const override {
    std::memset(workspace, 0xff, sizeof(HostRecord));
  }
  std::optional<kernels::OpNonFinite> take_record(void* workspace, void*) const override {
    const auto record = *static_cast<HostRecord*>(workspace);
    if (record.op == ~std::uint64_t{0}) return std::nullopt;
    reset_record(workspace, sizeof(HostRecord), nullptr);
    return kernels::OpNonFinite{static_cast<unsigned>(record.op),
                                {static_cast<std::int64_t>(record.row), static_cast<std::int64_t>(record.column)}};
  }

  std::unique_ptr<kernels::Elementwise> make_elementwise(const kernels::ElementwiseScheme& scheme) const override;
  std::unique_ptr<kernels::Attention> make_attention(const kernels::AttentionScheme& scheme,
                                                     const kernels::CacheFormat& cache) const override;
  std::unique_ptr<kernels::SamplerBackend> make_sampler(std::int64_t vocabulary, std::int64_t) const override;

  // Work that reads what is not this backend's memory would not run on a device.
  void require_own(const void* memory) const {
    const std::lock_guard lock(mutex_);
    const auto* at = static_cast<const std::byte*>(memory);
    auto after = sizes_.upper_bound(const_cast<std::byte*>(at));
    invariant(after != sizes_.begin() && at < std::prev(after)->first + std::prev(after)->second,
              "memory that is not the backend's");
  }

 protected:
  std::unique_ptr<kernels::PreparedLinear> prepare_listed_linear(const kernels::LinearScheme& scheme,
                                                                 const kernels::LayerOptions& layer,
                                                                 std::span<const WeightView> weights) const override;

 private:
  mutable std::mutex mutex_;
  mutable std::map<std::byte*, std::size_t> sizes_;
};

class HostElementwise final : public kernels::Elementwise {
 public:
  HostElementwise(const HostBackend& backend, const kernels::ElementwiseScheme& scheme)
      : backend_(backend), scheme_(scheme) {}
  void embedding(const kernels::OpSite& site, const kernels::EmbeddingCall& call) const override {
    enqueue(site.stream, [this, call] {
      backend_.require_own(call.table.data);
      backend_.require_own(call.tokens);
      scheme_.embedding(call);
    });
  }
  std::optional<kernels::NonFinite> rms_norm(const kernels::OpSite& site,
                                             const kernels::RmsNormCall& call) const override {
    enqueue(site.stream, [this, call, site] {
      backend_.require_own(call.weight);
      if (const auto place = scheme_.rms_norm(call)) static_cast<HostRecord*>(site.workspace)->add(site.op, *place);
    });
    return std::nullopt;
  }
  void silu_gate(const kernels::OpSite& site, const kernels::SiluGateCall& call) const override {
    enqueue(site.stream, [this, call] { scheme_.silu_gate(call); });
  }
  void gather_rows(const kernels::OpSite& site, const kernels::GatherRowsCall& call) const override {
    enqueue(site.stream, [this, call] { backend_.gather_rows(call); });
  }
  void round_bf16(const kernels::OpSite& site, const kernels::RoundBf16Call& call) const override {
    enqueue(site.stream, [call] { reference::round_bf16(call); });
  }

 private:
  const HostBackend& backend_;
  const kernels::ElementwiseScheme& scheme_;
};

class HostAttention final : public kernels::Attention {
 public:
  HostAttention(const HostBackend& backend, const kernels::AttentionScheme& scheme, const kernels::CacheFormat& cache)
      : backend_(backend), scheme_(scheme), cache_(cache) {}
  void require_shape(std::int64_t, std::int64_t, std::int64_t) const override {}
  std::size_t workspace_bytes(const kernels::AttentionBounds&) const override { return sizeof(HostRecord); }
  void rotary(const kernels::OpSite& site, const kernels::RotaryCall& call) const override {
    enqueue(site.stream, [this, call] {
      backend_.require_own(call.cos);
      scheme_.rotary(call);
    });
  }
  std::optional<kernels::NonFinite> attention(const kernels::OpSite& site,
                                              const kernels::AttentionCall& call) const override {
    enqueue(site.stream, [this, call, site] {
      backend_.require_own(call.batch.page_table);
      if (const auto place = scheme_.attention(call)) static_cast<HostRecord*>(site.workspace)->add(site.op, *place);
    });
    return std::nullopt;
  }
  std::int32_t integer_in_page(const void* page, kernels::Cached which,
                               const kernels::ElementInPage& at) const override {
    return reference::integer_in_page(page, cache_.element_bytes, which, at);
  }

 private:
  const HostBackend& backend_;
  const kernels::AttentionScheme& scheme_;
  const kernels::CacheFormat& cache_;
};

class HostLinear final : public kernels::PreparedLinear {
 public:
  HostLinear(const kernels::LinearScheme& scheme, unsigned op, std::span<const WeightView> weights)
      : scheme_(scheme), op_(op), weights_(weights.begin(), weights.end()) {}
  std::size_t workspace_bytes(std::int64_t) const override { return sizeof(HostRecord); }
  std::string implementation() const override { return "reference"; }
  std::optional<kernels::NonFinite> run(const kernels::LinearCall& call) const override {
    const std::vector<LinearOutput> outputs(call.outputs.begin(), call.outputs.end());
    enqueue(call.stream, [this, outputs, x = call.x, workspace = call.workspace] {
      for (std::size_t i = 0; i < outputs.size(); ++i) scheme_.reference(x, weights_[i], outputs[i].bias, outputs[i].y);
      if (const auto place = first_non_finite(outputs)) static_cast<HostRecord*>(workspace)->add(op_, *place);
    });
    return std::nullopt;
  }

 private:
  static std::optional<kernels::NonFinite> first_non_finite(const std::vector<LinearOutput>& outputs) {
    for (std::int64_t row = 0; row < outputs[0].y.rows; ++row) {
      std::int64_t before = 0;  // columns of the outputs so far
      for (const LinearOutput& output : outputs) {
        for (std::int64_t column = 0; column < output.y.cols; ++column)
          if (!std::isfinite(output.y.data[row * output.y.stride + column]))
            return kernels::NonFinite{row, before + column};
        before += output.y.cols;
      }
    }
    return std::nullopt;
  }

  const kernels::LinearScheme& scheme_;
  unsigned op_;
  std::vector<WeightView> weights_;
};

class HostSampler final : public kernels::SamplerBackend {
 public:
  HostSampler(std::int64_t vocabulary, std::int64_t& seen_ids) : vocabulary_(vocabulary), seen_ids_(seen_ids) {}
  void run(std::span<const kernels::SampleRow> rows, std::span<const kernels::SeenIds> seen,
           std::span<kernels::SampleResult> results, void*) override {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      kernels::SampleRow row = rows[i];
      std::vector<std::uint32_t> words;
      if (!seen.empty() && seen[i].to >= 0) {
        std::set<std::int32_t> ids;
        if (seen[i].from >= 0) ids = sets_.at(seen[i].from);
        ids.insert(seen[i].added.begin(), seen[i].added.end());
        seen_ids_ += static_cast<std::int64_t>(seen[i].added.size());
        sets_[seen[i].to] = ids;
        words.resize(static_cast<std::size_t>((vocabulary_ + 31) / 32));
        for (const std::int32_t id : ids) words[static_cast<std::size_t>(id / 32)] |= 1U << (id % 32);
        row.seen = words.data();
      }
      results[i] = reference::sample(row, vocabulary_);
    }
  }

 private:
  std::int64_t vocabulary_;
  std::int64_t& seen_ids_;
  std::map<std::int32_t, std::set<std::int32_t>> sets_;
};

inline std::unique_ptr<kernels::Elementwise> HostBackend::make_elementwise(
    const kernels::ElementwiseScheme& scheme) const {
  return std::make_unique<HostElementwise>(*this, scheme);
}
inline std::unique_ptr<kernels::Attention> HostBackend::make_attention(const kernels::AttentionScheme& scheme,
                                                                       const kernels::CacheFormat& cache) const {
  return std::make_unique<HostAttention>(*this, scheme, cache);
}
inline std::unique_ptr<kernels::SamplerBackend> HostBackend::make_sampler(std::int64_t vocabulary, std::int64_t) const {
  return std::make_unique<HostSampler>(vocabulary, seen_ids);
}
inline std::unique_ptr<kernels::PreparedLinear> HostBackend::prepare_listed_linear(
    const kernels::LinearScheme& scheme, const kernels::LayerOptions& layer,
    std::span<const WeightView> weights) const {
  for (const WeightView& weight : weights) require_own(weight.data);
  return std::make_unique<HostLinear>(scheme, layer.op, weights);
}

}  // namespace reprofuse::test
