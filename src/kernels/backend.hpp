// A backend: memory, streams, events, graphs and operations on one device. Everything above the kernels works through
// this, asks for capabilities, and never which device it is. kernels/backend.cpp lists the backends there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeindex>
#include <vector>

#include "base/thread_pool.hpp"
#include "kernels/op_calls.hpp"
#include "kernels/schemes.hpp"
#include "reprofuse/context.hpp"

namespace reprofuse::kernels {

struct Capabilities {
  bool shares_host_memory = false;   // its pointers are host pointers: nothing has to be copied
  bool asynchronous = false;         // work is enqueued, and non-finite results are recorded in the workspace
  bool graphs = false;               // work can be captured once and replayed
  bool allocates_in_driver = false;  // memory of the host, too, which nobody here can bound
};

// A queue of work. Handles are passed as void*, as the public interface has them; null is the default stream.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void* handle() const = 0;
  virtual void synchronize() const = 0;
};

// A moment in a stream.
class Event {
 public:
  virtual ~Event() = default;
  virtual void record(void* stream) = 0;
  virtual void synchronize() const = 0;
  virtual bool is_reached() const = 0;  // without waiting
  virtual double seconds_since(const Event& earlier) const = 0;
};

// Work recorded once and launched whole.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void replay(void* stream) const = 0;
};

// The operations of an elementwise scheme. A place that is returned is where a result is not finite; a backend whose
// work is asynchronous records it in the workspace instead.
class Elementwise {
 public:
  virtual ~Elementwise() = default;
  virtual void embedding(const OpSite& site, const EmbeddingCall& call) const = 0;
  virtual std::optional<NonFinite> rms_norm(const OpSite& site, const RmsNormCall& call) const = 0;
  virtual void silu_gate(const OpSite& site, const SiluGateCall& call) const = 0;
  virtual void gather_rows(const OpSite& site, const GatherRowsCall& call) const = 0;
  virtual void round_bf16(const OpSite& site, const RoundBf16Call& call) const = 0;
};

// The largest batch that a workspace is made for.
struct AttentionBounds {
  std::int32_t heads, kv_heads, head_dim;
  std::int32_t chunks, rows, max_keys;
};

// The operations of an attention scheme over one cache format.
class Attention {
 public:
  virtual ~Attention() = default;
  // Throws kUnsupported for heads that it does not take.
  virtual void require_shape(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim) const = 0;
  // For any batch within these bounds.
  virtual std::size_t workspace_bytes(const AttentionBounds& bounds) const = 0;
  virtual void rotary(const OpSite& site, const RotaryCall& call) const = 0;
  virtual std::optional<NonFinite> attention(const OpSite& site, const AttentionCall& call) const = 0;
  // Runs rotary and attention together and leaves q unrotated. Every position before those of the batch was stored by
  // an earlier pass. Returns false, and runs nothing, where they must run one after the other.
  virtual bool rotary_and_attention(const OpSite&, const RotaryCall&, const AttentionCall&) const { return false; }
  // Of a cache of integers, whose order is the backend's own: one of them, in a copy of its page on the host.
  virtual std::int32_t integer_in_page(const void* page, Cached which, const ElementInPage& at) const;
};

// The ids that a row's penalty is for. A SamplerBackend keeps sets of ids from run to run, and has numbers for them.
struct SeenIds {
  std::int32_t from = -1;                    // the set that it starts with; -1: the empty one
  std::int32_t to = -1;                      // the set that it becomes, which the row sees; -1: the row has no penalty
  std::span<const std::int32_t> added = {};  // ids of the vocabulary
};

// Memory for up to a number of rows at a time, and for twice as many sets of ids, which stay. One thread at a time.
class SamplerBackend {
 public:
  virtual ~SamplerBackend() = default;
  // The rows' logits are device memory. seen[i] says how to build the set of ids for row i; empty: no row has a
  // penalty. Rows run in any order, so no two write one set, and a row that reads a set which another row extends lists
  // those ids as its own, too. Waits for the stream. After an error the sets of `to` are not known.
  virtual void run(std::span<const SampleRow> rows, std::span<const SeenIds> seen, std::span<SampleResult> results,
                   void* stream) = 0;
};

class Backend {
 public:
  Backend() = default;
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  virtual std::string_view name() const = 0;  // "cpu": its row in backends()
  virtual int ordinal() const { return 0; }   // among the devices of that name
  virtual std::string description() const = 0;
  virtual Capabilities capabilities() const = 0;
  // Of a device with memory of its own, what tells it from the others of its machine, whoever counts them.
  virtual std::string device_id() const { return {}; }
  virtual Isa isa() const { return Isa::kScalar; }      // of a CPU's kernels
  virtual ThreadPool* pool() const { return nullptr; }  // host threads that compute; null: none do
  ThreadPool& required_pool() const;                    // throws kUnsupported where none do

  // Makes it the device of the calling thread, for libraries beside this one that go by that.
  virtual void make_current() const {}

  // Memory, aligned to kWorkspaceAlignment. Copies wait.
  virtual void* allocate(std::size_t bytes) const = 0;
  virtual void* allocate_workspace(std::size_t bytes) const = 0;  // with its record reset
  virtual void release(void* memory) const noexcept = 0;
  virtual void copy_to_device(void* to, const void* from, std::size_t bytes) const = 0;
  virtual void copy_to_host(void* to, const void* from, std::size_t bytes) const = 0;
  virtual std::int64_t free_bytes() const = 0;
  // Host memory that copies can use without a detour, for enqueue_copy_to_device().
  virtual void* allocate_staging(std::size_t bytes) const = 0;
  virtual void release_staging(void* memory) const noexcept = 0;
  virtual void enqueue_copy_to_device(void* to, const void* from, std::size_t bytes, void* stream) const = 0;

  virtual std::unique_ptr<Stream> make_stream() const = 0;
  virtual std::unique_ptr<Event> make_event() const = 0;
  // `work` enqueues on the stream it is given; nothing runs until replay(). Only with capabilities().graphs.
  virtual std::unique_ptr<Graph> capture(const std::function<void(void* stream)>& work) const = 0;

  // Non-finite results. Resetting is enqueued, taking waits for the stream and resets.
  virtual void reset_record(void* workspace, std::size_t bytes, void* stream) const = 0;
  virtual std::optional<OpNonFinite> take_record(void* workspace, void* stream) const = 0;

  // Operations. Each throws kUnsupported where the backend has no kernels for the scheme.
  std::unique_ptr<PreparedLinear> prepare_linear(const LinearScheme& scheme, const LayerOptions& layer,
                                                 std::span<const WeightView> weights) const;
  // "cuBLAS 13.0.2": the library that a baseline brings along for this backend; empty: none.
  std::string library_of(const LinearScheme& scheme) const;
  virtual std::unique_ptr<Elementwise> make_elementwise(const ElementwiseScheme& scheme) const = 0;
  virtual std::unique_ptr<Attention> make_attention(const AttentionScheme& scheme, const CacheFormat& cache) const = 0;
  virtual std::unique_ptr<SamplerBackend> make_sampler(std::int64_t vocabulary, std::int64_t max_rows) const = 0;

  // For benches: binary32 multiply-adds per second by clock and lanes, two operations each, in 10^9; 0: not known.
  virtual double peak_fma_gigaflops() const { return 0; }
  // Likewise: a plain read, the floor that they compare with; `sink` is one word, so that the reads are not dropped.
  // Throws kUnsupported where there is none.
  virtual void enqueue_read(const void* memory, std::size_t bytes, void* sink, void* stream) const;

  // What a library beside this one keeps for a backend: one T, made when first asked for.
  template <typename T>
  const T& attached() const {
    const std::lock_guard lock(attached_mutex_);
    std::shared_ptr<void>& slot = attached_[std::type_index(typeid(T))];
    if (!slot) slot = std::make_shared<T>();
    return *static_cast<const T*>(slot.get());
  }

 protected:
  // By the kernels that the backend lists for the scheme, after those that the scheme brings along.
  virtual std::unique_ptr<PreparedLinear> prepare_listed_linear(const LinearScheme& scheme, const LayerOptions& layer,
                                                                std::span<const WeightView> weights) const = 0;
  // "the cuda backend has no kernels for linear layers by 'x'"
  [[noreturn]] void fail_missing(std::string_view what, std::string_view scheme) const;

 private:
  mutable std::mutex attached_mutex_;
  mutable std::map<std::type_index, std::shared_ptr<void>> attached_;
};

struct BackendOptions {
  int ordinal = 0;         // of devices that are counted
  std::optional<Isa> isa;  // of a CPU: forced, or the best this machine has
  int threads = 0;         // of a CPU: 0 takes every core available to the process
};

struct BackendRow {
  std::string_view name;
  std::string_view description;
  bool has_ordinals;   // there may be several: "cuda:1"
  bool takes_threads;  // BackendOptions::isa and threads
  int (*count)();      // devices of this machine, also such as open() refuses; 0 where the build has no code for them
  // Throws kUnsupported, with the reason, where the build or the machine has no such device.
  std::shared_ptr<const Backend> (*open)(const BackendOptions& options);
  // As act_as_cuda() has it; null: its devices run as nothing but themselves.
  void (*act_as)(std::string_view architecture) = nullptr;
};

std::span<const BackendRow> backends();

// What the rows open, each in the folder of its name. In a build without CUDA kernels/no_cuda.cpp has the second: it
// throws.
std::shared_ptr<const Backend> open_cpu(const BackendOptions& options);
std::shared_ptr<const Backend> open_cuda(const BackendOptions& options);
int count_cuda() noexcept;  // 0 where there is no driver

// From now on GPUs run what an older one would: "sm_80", "sm_86" or "sm_89". For benches, before a device is opened.
// Throws kUnsupported for another name.
void act_as_cuda(std::string_view architecture);

}  // namespace reprofuse::kernels
