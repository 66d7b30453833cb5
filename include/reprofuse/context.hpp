// Where to compute and by which contract. A Context is a cheap handle and may be shared by threads.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprofuse/export.hpp"

namespace reprofuse {

enum class Isa { kScalar, kAvx2, kAvx512, kNeon };

REPROFUSE_API std::string_view isa_name(Isa isa);              // "scalar", "avx2", "avx512", "neon"
REPROFUSE_API std::optional<Isa> parse_isa(std::string_view);  // nullopt: no such name
REPROFUSE_API std::vector<Isa> supported_isas();               // on this machine, slowest first

// What a context can compute by. Contracts pin every bit: "fma-1", chains of fused multiply-adds in a fixed order;
// "exact-1", "exact-2" and "int16-1", integer sums that have no order, the last in 16 bits; "fma-1-kv16" and
// "exact-1-kv16" keep a model's keys and values in BF16. The tool has baselines beside them, which pin none and look
// for no NaN: "layercast", "bf16", "sgemm".
REPROFUSE_API std::vector<std::string_view> numerics_names();

// What the library computes by on any device, unless told otherwise: the bits of a program do not depend on the device.
inline constexpr std::string_view kDefaultNumerics = "fma-1";
// What measurements favour on this device ("cpu", "cuda:1"), and the tool takes when nobody names a contract: "int16-1"
// on a GPU, "fma-1" on a CPU. Throws kUnsupported for a name that is no device's.
REPROFUSE_API std::string_view default_numerics(std::string_view device);

struct Device {
  std::string name;         // as Context::open() takes it: "cpu", "cuda:0", "cuda:1"
  std::string description;  // of its context; empty where it cannot be opened
  std::string problem;      // why it cannot be opened; empty where it can
};

// Every device of this machine that this build has code for, also those that cannot be opened.
REPROFUSE_API std::vector<Device> devices();
// The names of those that can.
REPROFUSE_API std::vector<std::string> available_devices();

struct ContextState;

class REPROFUSE_API Context {
 public:
  // device: "cpu", "cuda" or, of several GPUs, "cuda:1". isa and threads: of a CPU, as below.
  // Throws kUnsupported, with the reason, for a device, numerics or an ISA that this build or machine lacks.
  static Context open(std::string_view device, std::string_view numerics = kDefaultNumerics,
                      std::optional<Isa> isa = std::nullopt, int threads = 0);

  // isa: forced, or the best this machine has. threads: 0 takes every core available to the process.
  // Throws kUnsupported for numerics that do not exist or an ISA that the machine lacks.
  static Context cpu(std::string_view numerics = kDefaultNumerics, std::optional<Isa> isa = std::nullopt,
                     int threads = 0);

  // Throws kUnsupported when the build has no CUDA backend or the machine no such device.
  static Context cuda(std::string_view numerics = kDefaultNumerics, int ordinal = 0);

  std::string device() const;  // as open() takes it: "cpu", "cuda:0"
  std::string_view numerics() const;
  Isa isa() const;                  // of a CPU's kernels; kScalar on CUDA, where it says nothing
  int threads() const;              // of the host that compute; 0 on CUDA
  std::string description() const;  // "cpu avx512, 2 threads" or "cuda:0 NVIDIA H200 (sm_90)"

  // For the library itself: the state is no part of the interface.
  explicit Context(std::shared_ptr<const ContextState> state) : state_(std::move(state)) {}
  const ContextState& state() const { return *state_; }

 private:
  std::shared_ptr<const ContextState> state_;
};

// Scratch memory on the context's device. One workspace serves any number of layers, one call at a time.
// On CUDA its head records the first non-finite result, so that a launch never has to synchronise.
class REPROFUSE_API Workspace {
 public:
  Workspace(const Context& context, std::size_t bytes);
  ~Workspace();
  Workspace(Workspace&& other) noexcept;
  Workspace& operator=(Workspace&& other) noexcept;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<const Context> context_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// A Workspace, or memory of the caller's that reset_workspace() has prepared: what every operation takes.
struct WorkspaceView {
  WorkspaceView(const Workspace& workspace) : data(workspace.data()), bytes(workspace.bytes()) {}
  WorkspaceView(void* memory, std::size_t size) : data(memory), bytes(size) {}
  void* data;
  std::size_t bytes;
};

// Prepares caller-allocated memory for use as a workspace; Workspace does this by itself.
// CUDA: enqueued on `stream`. The memory must be aligned to 256 bytes.
REPROFUSE_API void reset_workspace(const Context& context, void* workspace, std::size_t bytes, void* stream);

// CUDA: waits for `stream`, then throws kNonFinite if any launch since the last reset met a NaN or an infinity,
// naming the op, its first row and there the first column; of several ops, the one made first, unless it took
// the index of a layer destroyed before. The record is cleared. CPU: returns at once, since run() itself throws.
REPROFUSE_API void check_workspace(const Context& context, void* workspace, void* stream);

}  // namespace reprofuse
