// Where ablations run: a product's operands on one machine, and every way there to compute it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/thread_pool.hpp"
#include "reprofuse/types.hpp"
#include "study/ablation/cases.hpp"
#include "study/ablation/kernels/variant.hpp"
#include "study/seeded/inputs.hpp"

namespace reprofuse::study {

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
