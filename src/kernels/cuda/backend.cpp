#include "kernels/backend.hpp"

#include <array>

#include "kernels/cuda/attention/attention.hpp"
#include "kernels/cuda/attention/integer/attention.hpp"
#include "kernels/cuda/elementwise/elementwise.hpp"
#include "kernels/cuda/linear/exact1/params.hpp"
#include "kernels/cuda/linear/fma1/linear.hpp"
#include "kernels/cuda/linear/int16/params.hpp"
#include "kernels/cuda/linear/integer/linear.hpp"
#include "kernels/cuda/runtime/check.hpp"
#include "kernels/cuda/runtime/device.hpp"
#include "kernels/cuda/runtime/stream.hpp"
#include "kernels/cuda/sampler/sample.hpp"
#include "kernels/reference/reference.hpp"

namespace reprofuse::cuda {
namespace {

using kernels::NonFinite;
using kernels::OpSite;

class ElementwiseFma1 final : public kernels::Elementwise {
 public:
  explicit ElementwiseFma1(int ordinal) : ordinal_(ordinal) {}

  void embedding(const OpSite& site, const kernels::EmbeddingCall& call) const override {
    cuda::embedding({site, ordinal_}, call);
  }
  std::optional<NonFinite> rms_norm(const OpSite& site, const kernels::RmsNormCall& call) const override {
    cuda::rms_norm({site, ordinal_}, call);
    return std::nullopt;
  }
  void silu_gate(const OpSite& site, const kernels::SiluGateCall& call) const override {
    cuda::silu_gate({site, ordinal_}, call);
  }
  void gather_rows(const OpSite& site, const kernels::GatherRowsCall& call) const override {
    cuda::gather_rows({site, ordinal_}, call);
  }
  void round_bf16(const OpSite& site, const kernels::RoundBf16Call& call) const override {
    cuda::round_bf16({site, ordinal_}, call);
  }

 private:
  int ordinal_;
};

class AttentionFma1 final : public kernels::Attention {
 public:
  explicit AttentionFma1(int ordinal) : ordinal_(ordinal) {}

  void require_shape(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim) const override {
    require_attention_shape(heads, kv_heads, head_dim);
  }
  std::size_t workspace_bytes(const kernels::AttentionBounds& sizes) const override {
    return attention_workspace_bytes(sizes.heads, sizes.head_dim, sizes.chunks, sizes.rows, sizes.max_keys);
  }
  void rotary(const OpSite& site, const kernels::RotaryCall& call) const override {
    cuda::rotary({site, ordinal_}, call);
  }
  std::optional<NonFinite> attention(const OpSite& site, const kernels::AttentionCall& call) const override {
    cuda::attention({site, ordinal_}, call);
    return std::nullopt;
  }

 private:
  int ordinal_;
};

// Attention in integers: by int16-1 with two digits, by exact-2 with three.
class IntegerAttention final : public kernels::Attention {
 public:
  IntegerAttention(int ordinal, int digits) : ordinal_(ordinal), digits_(digits) {}

  void require_shape(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim) const override {
    require_attention_shape(heads, kv_heads, head_dim);
  }
  std::size_t workspace_bytes(const kernels::AttentionBounds& sizes) const override {
    return integer_attention::workspace_bytes(sizes.heads, sizes.head_dim, sizes.chunks, sizes.rows, sizes.max_keys);
  }
  void rotary(const OpSite& site, const kernels::RotaryCall& call) const override {
    integer_attention::rotary({site, ordinal_}, call, digits_);
  }
  std::optional<NonFinite> attention(const OpSite& site, const kernels::AttentionCall& call) const override {
    integer_attention::attention({site, ordinal_}, call, digits_);
    return std::nullopt;
  }
  bool rotary_and_attention(const OpSite& site, const kernels::RotaryCall& rotary,
                            const kernels::AttentionCall& call) const override {
    return integer_attention::rotary_and_attention({site, ordinal_}, rotary, call, digits_);
  }
  std::int32_t integer_in_page(const void* page, kernels::Cached which,
                               const kernels::ElementInPage& at) const override {
    return integer_attention::integer_in_page(page, digits_, which, at);
  }

 private:
  int ordinal_;
  int digits_;
};

// The kernels there are for each scheme.
template <typename Make>
struct Row {
  std::string_view scheme;
  Make make;
};

constexpr Row<decltype(&fma1::prepare_linear)> kLinear[] = {
    {reference::kLinearFma1.name, fma1::prepare_linear},
    {reference::kLinearExact1.name, integer::prepare_linear<exact1::contract_kernels>},
    {reference::kLinearInt16.name, integer::prepare_linear<int16::contract_kernels>},
};

using MakeElementwise = std::unique_ptr<kernels::Elementwise> (*)(int ordinal);
constexpr Row<MakeElementwise> kElementwise[] = {
    {reference::kElementwiseFma1.name,
     [](int ordinal) -> std::unique_ptr<kernels::Elementwise> { return std::make_unique<ElementwiseFma1>(ordinal); }},
};

using MakeAttention = std::unique_ptr<kernels::Attention> (*)(int ordinal);
constexpr Row<MakeAttention> kAttention[] = {
    {reference::kAttentionFma1.name,
     [](int ordinal) -> std::unique_ptr<kernels::Attention> { return std::make_unique<AttentionFma1>(ordinal); }},
    {reference::kAttentionInt16.name,
     [](int ordinal) -> std::unique_ptr<kernels::Attention> { return std::make_unique<IntegerAttention>(ordinal, 2); }},
    {reference::kAttentionExact2.name,
     [](int ordinal) -> std::unique_ptr<kernels::Attention> { return std::make_unique<IntegerAttention>(ordinal, 3); }},
};

class Backend final : public kernels::Backend {
 public:
  explicit Backend(int ordinal) : ordinal_(ordinal) {}

  std::string_view name() const override { return "cuda"; }
  int ordinal() const override { return ordinal_; }
  std::string device_id() const override {
    std::array<char, 32> id = {};
    check(cudaDeviceGetPCIBusId(id.data(), static_cast<int>(id.size()), ordinal_), "cudaDeviceGetPCIBusId");
    return id.data();
  }
  std::string description() const override { return fmt::format("cuda:{} {}", ordinal_, device_description(ordinal_)); }
  kernels::Capabilities capabilities() const override {
    return {.asynchronous = true, .graphs = true, .allocates_in_driver = true};
  }

  void make_current() const override { check(cudaSetDevice(ordinal_), "cudaSetDevice"); }

  void* allocate(std::size_t bytes) const override { return cuda::allocate(ordinal_, bytes); }
  void* allocate_workspace(std::size_t bytes) const override { return cuda::allocate_workspace(ordinal_, bytes); }
  void release(void* memory) const noexcept override { cuda::release(memory); }
  void copy_to_device(void* to, const void* from, std::size_t bytes) const override {
    const DeviceScope device(ordinal_);
    cuda::copy_to_device(to, from, bytes);
  }
  void copy_to_host(void* to, const void* from, std::size_t bytes) const override {
    const DeviceScope device(ordinal_);
    cuda::copy_to_host(to, from, bytes);
  }
  std::int64_t free_bytes() const override { return cuda::free_bytes(ordinal_); }
  void* allocate_staging(std::size_t bytes) const override {
    const DeviceScope device(ordinal_);
    void* memory = nullptr;
    check(cudaMallocHost(&memory, bytes), "cudaMallocHost");
    return memory;
  }
  void release_staging(void* memory) const noexcept override { cudaFreeHost(memory); }
  void enqueue_copy_to_device(void* to, const void* from, std::size_t bytes, void* stream) const override {
    const DeviceScope device(ordinal_);
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, static_cast<cudaStream_t>(stream)),
          "cudaMemcpyAsync");
  }

  std::unique_ptr<kernels::Stream> make_stream() const override { return std::make_unique<Stream>(ordinal_); }
  std::unique_ptr<kernels::Event> make_event() const override { return std::make_unique<Event>(ordinal_); }
  std::unique_ptr<kernels::Graph> capture(const std::function<void(void*)>& work) const override {
    return std::make_unique<Graph>(ordinal_, work);
  }

  void reset_record(void* workspace, std::size_t bytes, void* stream) const override {
    require(bytes >= kWorkspaceHead, "a workspace of {} bytes is too small; {} are the least", bytes, kWorkspaceHead);
    cuda::reset_record(ordinal_, workspace, stream);
  }
  std::optional<kernels::OpNonFinite> take_record(void* workspace, void* stream) const override {
    return cuda::take_record(ordinal_, workspace, stream);
  }

  std::unique_ptr<kernels::Elementwise> make_elementwise(const kernels::ElementwiseScheme& scheme) const override {
    for (const auto& row : kElementwise)
      if (row.scheme == scheme.name) return row.make(ordinal_);
    fail_missing("elementwise ops", scheme.name);
  }
  std::unique_ptr<kernels::Attention> make_attention(const kernels::AttentionScheme& scheme,
                                                     const kernels::CacheFormat&) const override {
    for (const auto& row : kAttention)
      if (row.scheme == scheme.name) return row.make(ordinal_);
    fail_missing("attention", scheme.name);
  }
  std::unique_ptr<kernels::SamplerBackend> make_sampler(std::int64_t vocabulary, std::int64_t max_rows) const override {
    return cuda::make_sampler(ordinal_, vocabulary, max_rows);
  }

  double peak_fma_gigaflops() const override { return cuda::peak_fma_gigaflops(ordinal_); }
  void enqueue_read(const void* memory, std::size_t bytes, void* sink, void* stream) const override {
    const DeviceScope device(ordinal_);
    const int sm_count = device_attribute(ordinal_, cudaDevAttrMultiProcessorCount);
    check(launch_read(memory, bytes, sink, sm_count, static_cast<cudaStream_t>(stream)), "read_memory");
  }

 protected:
  std::unique_ptr<kernels::PreparedLinear> prepare_listed_linear(const kernels::LinearScheme& scheme,
                                                                 const kernels::LayerOptions& layer,
                                                                 std::span<const WeightView> weights) const override {
    for (const auto& row : kLinear)
      if (row.scheme == scheme.name) return row.make({layer, ordinal_}, weights);
    fail_missing("linear layers", scheme.name);
  }

 private:
  int ordinal_;
};

}  // namespace

}  // namespace reprofuse::cuda

namespace reprofuse::kernels {

int count_cuda() noexcept {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::shared_ptr<const Backend> open_cuda(const BackendOptions& options) {
  cuda::require_device(options.ordinal);
  return std::make_shared<cuda::Backend>(options.ordinal);
}

}  // namespace reprofuse::kernels
