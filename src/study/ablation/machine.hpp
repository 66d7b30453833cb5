// Where ablations run: a product's operands on one machine, and every way there to compute it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/thread_pool.hpp"
#include "reprofuse/types.hpp"
#include "study/ablation/kernels/variant.hpp"
#include "study/seeded/inputs.hpp"

namespace reprofuse::study {

// What the ablations run over: the paper's nine products, its batch sizes, and the rules that it switches.
enum class CaseKind { kDecode, kPrefill, kRagged };

struct AblationCase {
  std::string name;
  CaseKind kind;
  std::int64_t m, n, k;
};

// Six projections at a batch of 32, two prefills and one awkward shape.
const std::vector<AblationCase>& ablation_cases();
std::vector<AblationCase> decode_cases();

inline constexpr std::int64_t kDecodeBatches[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};
inline constexpr int kTunedSplits[] = {1, 2, 4, 8};
inline constexpr int kSweptSplits[] = {1, 2, 4, 8, 16};
inline constexpr int kMultiprocessorCounts[] = {108, 114, 132, 142};  // A100, H100 PCIe, H100 SXM and H200, L40S

// The split that leaves the fewest multiprocessors idle in the last wave, of kSweptSplits; the smallest of equals.
// This is how a performance-first GEMM sizes its split: the device's size and the batch decide the bits.
int wave_sized_splits(std::int64_t m, std::int64_t n, const ablation::Tile& tile, int multiprocessors);

// What a tuner tries of its tiles for m rows: all of them for a decode batch, the tallest alone beyond, where the
// others are slow beyond hope.
std::vector<ablation::Tile> for_batch(std::vector<ablation::Tile> tiles, std::int64_t m);

// Every tile with every split.
std::vector<ablation::Variant> candidates(std::span<const ablation::Tile> tiles, std::span<const int> splits);

std::string to_string(const ablation::Variant& variant);  // "(32,128,32) S=8"

// Ways to compute a product. An ablation::Variant is the layer with rules as switches.
struct Shipped {};  // the contract's layer, as every other command runs it
struct ShippedSchedule {
  std::size_t index;  // of LoadedCase::schedules()
};
struct Vendor {
  std::string name;  // of AblationMachine::vendors()
};
struct LaneSum {
  int lanes;  // a CPU's: one chain of K per lane of a register
};
using Method = std::variant<Shipped, ShippedSchedule, Vendor, LaneSum, ablation::Variant>;

// Several lambdas as one function object, for std::visit.
template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;  // clang 14 does not find it by itself

// One product. Columns that a machine leaves out change no tree: each result is a function of its own row and column.
class LoadedCase {
 public:
  explicit LoadedCase(AblationCase shape) : shape_(std::move(shape)) {}
  virtual ~LoadedCase() = default;

  const AblationCase& shape() const { return shape_; }
  virtual std::int64_t rows() const = 0;     // the m of the case, or what the machine takes of it
  virtual std::int64_t columns() const = 0;  // likewise of n
  virtual ConstMatrix x() const = 0;         // on the host, every row that was asked for
  virtual WeightView weight() const = 0;     // on the host, columns() rows of it

  virtual std::vector<float> run(const Method& method, std::int64_t m) = 0;  // [m, columns()]
  virtual double seconds(const Method& method, std::int64_t m) = 0;
  // One run after one to warm up: as much as a tuner looks at each of its candidates.
  virtual double glance(const Method& method, std::int64_t m) = 0;
  // By what does not run on this machine: the reference loop for the CPU, the CPU for a GPU.
  virtual std::vector<float> reference(std::int64_t m) = 0;
  virtual std::vector<std::string> schedules(std::int64_t m) = 0;  // of the shipped layer, all that can run m rows

 private:
  AblationCase shape_;
};

class AblationMachine {
 public:
  virtual ~AblationMachine() = default;
  virtual std::string description() const = 0;
  virtual bool is_gpu() const = 0;
  virtual std::string reference_name() const = 0;
  virtual int multiprocessors() const = 0;                              // that an occupancy-sized split is sized for
  virtual std::vector<ablation::Tile> tiles(std::int64_t m) const = 0;  // that a tuner tries for m rows
  virtual std::vector<std::string> vendors() const = 0;                 // libraries found here, by numerics
  virtual std::vector<std::int64_t> batches_beyond_decode() const = 0;
  // Operands for up to max_m rows; 0: for the rows of the case.
  virtual std::unique_ptr<LoadedCase> load(const AblationCase& shape, std::int64_t max_m = 0) = 0;
};

// Vendors' names.
inline constexpr const char* kVendorSgemm = "sgemm";
inline constexpr const char* kVendorTf32 = "tf32";
inline constexpr const char* kVendorBf16 = "bf16";

struct CpuAblationSetup {
  std::int64_t columns = 128;  // of every case that are computed
  std::int64_t prefill_rows = 128;
  std::int64_t max_batch = 512;
  int threads = 0;  // of the shipped layer, the ablated one and the library; 0 takes every core
};
std::unique_ptr<AblationMachine> make_cpu_ablation_machine(const CpuAblationSetup& setup = {});
std::unique_ptr<AblationMachine> make_cuda_ablation_machine(const std::string& device = "cuda");

inline constexpr std::uint64_t kActivationSeed = 7;
// A prefill has the weights of its decode, and every other product its own.
inline std::uint64_t weight_seed(const AblationCase& shape) {
  return static_cast<std::uint64_t>(shape.n);
}

}  // namespace reprofuse::study
