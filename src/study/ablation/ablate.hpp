// The paper's ablations of rules R1 to R4: each rule a switch, everything else fixed, and the variant with every rule
// on checked bit for bit against the shipped layer in the same run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/thread_pool.hpp"
#include "reprofuse/types.hpp"
#include "study/ablation/kernels/linear.hpp"
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

// One product on one machine, and every way there to compute it. Columns that a machine leaves out change no tree: each
// result is a function of its own row and column.
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
  // What the ablations ask for; none of them asks which device it is.
  virtual bool has_tensor_cores() const = 0;      // else operands are rounded as they do, and summed in IEEE arithmetic
  virtual bool has_instruction_sets() const = 0;  // several, with registers of as many lanes, to choose from
  virtual bool computes_whole_cases() const = 0;  // else the first rows and columns of each
  virtual std::string reference_name() const = 0;
  virtual int multiprocessors() const = 0;                              // that an occupancy-sized split is sized for
  virtual std::vector<ablation::Tile> tiles(std::int64_t m) const = 0;  // that a tuner tries for m rows
  virtual std::string vendor_library() const = 0;                       // "cuBLAS"
  virtual std::vector<std::string> vendors() const = 0;                 // its numerics; none: it was not found
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
// Of any device. Throws kUnsupported where there are no ablated kernels for its backend.
std::unique_ptr<AblationMachine> make_ablation_machine(const std::string& device);

inline constexpr std::uint64_t kActivationSeed = 7;
// A prefill has the weights of its decode, and every other product its own.
inline std::uint64_t weight_seed(const AblationCase& shape) {
  return static_cast<std::uint64_t>(shape.n);
}

// What an ablation found, in a form that a terminal, a document, a program and a browser can be given.

using Cell = std::variant<std::string, std::int64_t, double>;

struct Table {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;
  std::string note{};  // how to read it; may be empty
};

// What must hold, whatever the machine. An observation of the ablated variants is no claim.
struct Claim {
  std::string text;
  bool held;
};

struct Experiment {
  std::string rule;      // "r1"
  std::string title;     // "R1: IEEE FMA only"
  std::string machine;   // where it ran
  std::string analogue;  // what stands in for a GPU's experiment; empty: nothing does
  std::vector<Claim> claims{};
  std::vector<Table> tables{};
};

std::string to_text(const Cell& cell);  // a double with three digits; NaN, which is no measurement, as a dash
bool all_claims_hold(std::span<const Experiment> experiments);

// A heading, the claims as a list and the tables, with columns aligned: to read as it is, or to paste into a document.
std::string to_markdown(const Experiment& experiment);
nlohmann::ordered_json to_json(const Experiment& experiment);
// One page that asks nothing of the network.
std::string to_html(std::span<const Experiment> experiments, const std::string& version);

// What OpenBLAS gives for each CPU case when it is made to choose the kernels of another machine.
struct VendorKernels {
  std::string name;                  // of the kernels that really ran
  std::vector<std::string> digests;  // one per case
};

struct AblationOptions {
  std::function<void(std::string_view)> progress = [](std::string_view) {};
  // OpenBLAS chooses its kernels once per process, so the caller runs others in processes of their own.
  std::function<std::vector<VendorKernels>()> vendor_kernels = nullptr;
  std::vector<AblationCase> cases = ablation_cases();
  int runs = 50;  // of a race, to count its outcomes
};

Experiment ablate_r1(AblationMachine& machine, const AblationOptions& options);
Experiment ablate_r2(AblationMachine& machine, const AblationOptions& options);
Experiment ablate_r3(AblationMachine& machine, const AblationOptions& options);
Experiment ablate_r4(AblationMachine& machine, const AblationOptions& options);

// The digests that VendorKernels holds, by the library of this process.
std::vector<std::string> vendor_digests(AblationMachine& machine, const AblationOptions& options);

// What the four ablations share: counting outcomes, measuring errors, tuning, and the check that opens each of them.

// Results by their bits.
class Outcomes {
 public:
  // Which one it is, counted from 0 in order of appearance.
  std::size_t add(ConstMatrix result);
  std::size_t distinct() const { return seen_.size(); }

 private:
  std::map<std::string, std::size_t> seen_;  // by digest
};

ConstMatrix matrix_of(const std::vector<float>& values, std::int64_t rows, std::int64_t columns);
std::size_t values_that_differ(const std::vector<float>& a, const std::vector<float>& b);

// Results in binary64 at a sample of places, against which errors are given as parts of the largest magnitude there.
class Fp64Sample {
 public:
  Fp64Sample(const LoadedCase& operands, std::int64_t m);
  double worst_error(const std::vector<float>& y) const;  // y: [m, columns]

 private:
  struct Place {
    std::size_t index;
    double value;
  };
  std::vector<Place> places_;
  double scale_ = 0;
};

double median(std::vector<double> values);  // of those that are numbers; NaN of none

// The time of a method beside the ablated layer's, or NaN where that would mislead: of a part of a case the ablated
// layer has its few columns in binary32 and in a cache, so its times compare with each other alone.
double seconds_beside_ablated(const AblationMachine& machine, LoadedCase& operands, const Method& method,
                              std::int64_t m);

// `analogue` says what stands in for tensor cores where the machine has none.
Experiment open_experiment(const AblationMachine& machine, std::string rule, std::string title,
                           const std::string& analogue);

// The claim that opens every experiment: with every rule on, the ablated layer gives the shipped layer's bits on every
// case.
void claim_rules_on(AblationMachine& machine, const AblationOptions& options, Experiment& experiment);

// "holds on 9 of 9 cases" and the like.
Claim claim_of(std::string text, std::int64_t held, std::int64_t of);

// An autotuner of the usual kind: it times every candidate on the machine at hand and keeps the fastest.
ablation::Variant tune(LoadedCase& operands, std::span<const ablation::Variant> menu, std::int64_t m);

}  // namespace reprofuse::study
