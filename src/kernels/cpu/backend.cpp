#include "kernels/backend.hpp"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <vector>

#include "base/check.hpp"
#include "base/math.hpp"
#include "base/memory.hpp"
#include "base/thread_pool.hpp"
#include "kernels/cpu/attention/attention.hpp"
#include "kernels/cpu/elementwise/elementwise.hpp"
#include "kernels/cpu/linear/exact1/kernels.hpp"
#include "kernels/cpu/linear/fma1/kernels.hpp"
#include "kernels/cpu/linear/int16/kernels.hpp"
#include "kernels/cpu/linear/tables.hpp"
#include "kernels/cpu/machine.hpp"
#include "kernels/cpu/sampler/sample.hpp"
#include "kernels/reference/reference.hpp"

namespace reprofuse::cpu {
namespace {

using kernels::NonFinite;
using kernels::OpSite;

// Work is done when a call returns: there is nothing to wait for.
class Stream final : public kernels::Stream {
 public:
  void* handle() const override { return nullptr; }
  void synchronize() const override {}
};

class Event final : public kernels::Event {
 public:
  void record(void*) override { at_ = std::chrono::steady_clock::now(); }
  void synchronize() const override {}
  bool is_reached() const override { return true; }
  double seconds_since(const kernels::Event& earlier) const override {
    return std::chrono::duration<double>(at_ - static_cast<const Event&>(earlier).at_).count();
  }

 private:
  std::chrono::steady_clock::time_point at_;
};

class ElementwiseFma1 final : public kernels::Elementwise {
 public:
  explicit ElementwiseFma1(const CpuDevice& device) : device_(device) {}

  void embedding(const OpSite&, const kernels::EmbeddingCall& call) const override { cpu::embedding(device_, call); }
  std::optional<NonFinite> rms_norm(const OpSite&, const kernels::RmsNormCall& call) const override {
    return cpu::rms_norm(device_, call);
  }
  void silu_gate(const OpSite&, const kernels::SiluGateCall& call) const override { cpu::silu_gate(device_, call); }
  void gather_rows(const OpSite&, const kernels::GatherRowsCall& call) const override {
    cpu::gather_rows(device_, call);
  }
  void round_bf16(const OpSite&, const kernels::RoundBf16Call& call) const override { cpu::round_bf16(device_, call); }

 private:
  CpuDevice device_;
};

kernels::AttentionCall largest_call(const kernels::AttentionBounds& bounds) {
  kernels::AttentionCall call;
  call.heads = bounds.heads;
  call.kv.kv_heads = bounds.kv_heads;
  call.kv.head_dim = bounds.head_dim;
  call.batch.rows = bounds.rows;
  call.batch.chunk_count = bounds.chunks;
  call.batch.max_keys = bounds.max_keys;
  return call;
}

class AttentionFma1 final : public kernels::Attention {
 public:
  explicit AttentionFma1(const CpuDevice& device) : device_(device) {}

  void require_shape(std::int64_t, std::int64_t, std::int64_t) const override {}
  std::size_t workspace_bytes(const kernels::AttentionBounds& bounds) const override {
    return attention_workspace_bytes(largest_call(bounds));
  }
  void rotary(const OpSite&, const kernels::RotaryCall& call) const override { cpu::rotary(device_, call); }
  std::optional<NonFinite> attention(const OpSite& site, const kernels::AttentionCall& call) const override {
    return cpu::attention(device_, call, site.workspace);
  }

 private:
  CpuDevice device_;
};

// Attention in integers: by int16-1 with two digits, by exact-2 with three.
template <int kDigits, auto kRotary, auto kAttend>
class IntegerAttention final : public kernels::Attention {
 public:
  explicit IntegerAttention(const CpuDevice& device) : device_(device) {}

  void require_shape(std::int64_t, std::int64_t, std::int64_t head_dim) const override {
    if (head_dim > int16::kMaxScoreTerms)
      fail(ErrorCode::kUnsupported, "heads of {} elements; attention in integers takes at most {}", head_dim,
           int16::kMaxScoreTerms);
  }
  std::size_t workspace_bytes(const kernels::AttentionBounds& bounds) const override {
    return attention_integer_workspace_bytes(largest_call(bounds));
  }
  void rotary(const OpSite&, const kernels::RotaryCall& call) const override { kRotary(device_, call); }
  std::optional<NonFinite> attention(const OpSite& site, const kernels::AttentionCall& call) const override {
    return kAttend(device_, call, site.workspace);
  }
  std::int32_t integer_in_page(const void* page, kernels::Cached which,
                               const kernels::ElementInPage& at) const override {
    return reference::integer_in_page(page, kDigits, which, at);  // the order of pages is the reference's
  }

 private:
  CpuDevice device_;
};

class CpuSampler final : public kernels::SamplerBackend {
 public:
  CpuSampler(const CpuDevice& device, std::int64_t vocabulary) : device_(device), vocabulary_(vocabulary) {}

  void run(std::span<const kernels::SampleRow> rows, std::span<const kernels::SeenIds> seen,
           std::span<kernels::SampleResult> results, void*) override {
    std::vector<kernels::SampleRow> with_sets(rows.begin(), rows.end());
    for (std::size_t i = 0; i < seen.size(); ++i)
      if (seen[i].to >= 0) with_sets[i].seen = updated_set(seen[i]).data();
    sample(with_sets, vocabulary_, device_.isa, *device_.pool, results);
  }

 private:
  using Words = std::vector<std::uint32_t>;  // bit v of the words: id v is in the set

  const Words& updated_set(const kernels::SeenIds& seen) {
    Words& words = sets_[seen.to];
    if (seen.from < 0)
      words.assign(static_cast<std::size_t>(ceil_div<std::int64_t>(vocabulary_, 32)), 0);
    else if (seen.from != seen.to)
      words = sets_.at(seen.from);
    for (const std::int32_t id : seen.added) words[static_cast<std::size_t>(id / 32)] |= 1U << (id % 32);
    return words;
  }

  CpuDevice device_;
  std::int64_t vocabulary_;
  std::map<std::int32_t, Words> sets_;  // those that were used
};

// The kernels there are for each scheme.
template <typename Make>
struct Row {
  std::string_view scheme;
  Make make;
};

template <auto kTables, auto kPrepare>
constexpr LinearTables linear_tables(std::string_view scheme) {
  return {
      .scheme = scheme,
      .count = [](Isa isa) { return kTables(isa).size(); },
      .prepare =
          [](std::size_t table, const CpuDevice& device, std::string_view layer, std::span<const WeightView> weights) {
            return kPrepare(*kTables(device.isa)[table], device, layer, weights);
          }};
}

constexpr LinearTables kLinear[] = {
    linear_tables<linear_fma1_tables, prepare_linear_fma1>(reference::kLinearFma1.name),
    linear_tables<linear_exact1_tables, prepare_linear_exact1>(reference::kLinearExact1.name),
    linear_tables<linear_int16_tables, prepare_linear_int16>(reference::kLinearInt16.name),
};

using MakeElementwise = std::unique_ptr<kernels::Elementwise> (*)(const CpuDevice&);
constexpr Row<MakeElementwise> kElementwise[] = {
    {reference::kElementwiseFma1.name,
     [](const CpuDevice& device) -> std::unique_ptr<kernels::Elementwise> {
       return std::make_unique<ElementwiseFma1>(device);
     }},
};

using MakeAttention = std::unique_ptr<kernels::Attention> (*)(const CpuDevice&);
constexpr Row<MakeAttention> kAttention[] = {
    {reference::kAttentionFma1.name,
     [](const CpuDevice& device) -> std::unique_ptr<kernels::Attention> {
       return std::make_unique<AttentionFma1>(device);
     }},
    {reference::kAttentionInt16.name,
     [](const CpuDevice& device) -> std::unique_ptr<kernels::Attention> {
       return std::make_unique<IntegerAttention<2, rotary_int16, attention_int16>>(device);
     }},
    {reference::kAttentionExact2.name,
     [](const CpuDevice& device) -> std::unique_ptr<kernels::Attention> {
       return std::make_unique<IntegerAttention<3, rotary_exact2, attention_exact2>>(device);
     }},
};

class Backend final : public kernels::Backend {
 public:
  Backend(Isa isa, int threads) : isa_(isa), pool_(threads) {}

  std::string_view name() const override { return "cpu"; }
  std::string description() const override {
    return fmt::format("cpu {}, {} thread{}", isa_name(isa_), pool_.threads(), pool_.threads() == 1 ? "" : "s");
  }
  kernels::Capabilities capabilities() const override { return {.shares_host_memory = true}; }
  Isa isa() const override { return isa_; }
  ThreadPool* pool() const override { return &pool_; }

  void* allocate(std::size_t bytes) const override {
    void* memory = std::aligned_alloc(kernels::kWorkspaceAlignment, round_up(bytes, kernels::kWorkspaceAlignment));
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }
  void* allocate_workspace(std::size_t bytes) const override { return allocate(bytes); }
  void release(void* memory) const noexcept override { std::free(memory); }
  void copy_to_device(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
  void copy_to_host(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
  std::int64_t free_bytes() const override { return available_memory(); }
  void* allocate_staging(std::size_t bytes) const override { return allocate(bytes); }
  void release_staging(void* memory) const noexcept override { release(memory); }
  void enqueue_copy_to_device(void* to, const void* from, std::size_t bytes, void*) const override {
    std::memcpy(to, from, bytes);
  }

  std::unique_ptr<kernels::Stream> make_stream() const override { return std::make_unique<Stream>(); }
  std::unique_ptr<kernels::Event> make_event() const override { return std::make_unique<Event>(); }
  std::unique_ptr<kernels::Graph> capture(const std::function<void(void*)>&) const override {
    fail(ErrorCode::kUnsupported, "the cpu backend captures no graphs");
  }

  void reset_record(void*, std::size_t, void*) const override {}
  std::optional<kernels::OpNonFinite> take_record(void*, void*) const override { return std::nullopt; }

  std::unique_ptr<kernels::Elementwise> make_elementwise(const kernels::ElementwiseScheme& scheme) const override {
    for (const auto& row : kElementwise)
      if (row.scheme == scheme.name) return row.make(device());
    fail_missing("elementwise ops", scheme.name);
  }
  std::unique_ptr<kernels::Attention> make_attention(const kernels::AttentionScheme& scheme,
                                                     const kernels::CacheFormat&) const override {
    for (const auto& row : kAttention)
      if (row.scheme == scheme.name) return row.make(device());
    fail_missing("attention", scheme.name);
  }
  std::unique_ptr<kernels::SamplerBackend> make_sampler(std::int64_t vocabulary, std::int64_t) const override {
    return std::make_unique<CpuSampler>(device(), vocabulary);
  }

 protected:
  std::unique_ptr<kernels::PreparedLinear> prepare_listed_linear(const kernels::LinearScheme& scheme,
                                                                 const kernels::LayerOptions& layer,
                                                                 std::span<const WeightView> weights) const override {
    const LinearTables* tables = find_linear_tables(scheme);
    if (tables == nullptr) fail_missing("linear layers", scheme.name);
    return tables->prepare(tables->count(isa_) - 1, device(), layer.name, weights);
  }

 private:
  CpuDevice device() const { return {.isa = isa_, .pool = &pool_}; }

  Isa isa_;
  mutable ThreadPool pool_;  // const operations run on it, too
};

}  // namespace

const LinearTables* find_linear_tables(const kernels::LinearScheme& scheme) {
  for (const LinearTables& tables : kLinear)
    if (tables.scheme == scheme.name) return &tables;
  return nullptr;
}

}  // namespace reprofuse::cpu

namespace reprofuse::kernels {

std::shared_ptr<const Backend> open_cpu(const BackendOptions& options) {
  require(options.threads >= 0 && options.threads <= kMaxThreads, "threads = {} is outside 0 to {}", options.threads,
          kMaxThreads);
  const std::vector<Isa> isas = supported_isas();
  if (options.isa && !cpu::is_supported(*options.isa)) {
    std::string have;
    for (const Isa isa : isas) have += fmt::format("{}{}", have.empty() ? "" : ", ", isa_name(isa));
    fail(ErrorCode::kUnsupported, "this machine or build has no {} kernels; it has {}", isa_name(*options.isa), have);
  }
  return std::make_shared<cpu::Backend>(options.isa.value_or(isas.back()),
                                        options.threads == 0 ? available_cores() : options.threads);
}

}  // namespace reprofuse::kernels
