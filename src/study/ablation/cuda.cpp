#include <algorithm>
#include <map>

#include "base/check.hpp"
#include "kernels/vendor/libraries.hpp"
#include "ops/buffer.hpp"
#include "ops/context_state.hpp"
#include "reprofuse/linear.hpp"
#include "study/ablation/ablate.hpp"
#include "study/ablation/kernels/linear.hpp"
#include "study/bench/linear.hpp"

namespace reprofuse::study {
namespace {

constexpr int kReplays = 5;
constexpr std::size_t kPastTheCaches = std::size_t{128} << 20;  // weights to rotate through: twice the L2 of an H200
constexpr std::int64_t kDecodeRows = 128;

// The contexts that a case runs its layers in.
struct Contexts {
  Context shipped;
  Context cpu = Context::cpu();
  std::optional<Context> sgemm, bf16;  // none: no cuBLAS here

  const vendor::Cublas& cublas() const { return vendor::cublas_of(*sgemm->state().backend); }
  const kernels::Backend& backend() const { return *shipped.state().backend; }
  int ordinal() const { return backend().ordinal(); }
  Buffer upload(const void* data, std::size_t bytes) const {
    Buffer buffer(shipped, bytes);
    copy_to_device(shipped, buffer.as<void>(), data, bytes);
    return buffer;
  }
};

// Layers over every copy of the weights, made when first asked for.
class RotatedLayers {
 public:
  RotatedLayers(const Context& context, std::span<const WeightView> copies, std::int64_t max_m) {
    for (const WeightView& copy : copies) layers_.emplace_back(context, std::span(&copy, 1), "ablation");
    workspace_ = std::make_unique<Workspace>(context, layers_[0].workspace_bytes(max_m));
  }

  void enqueue(std::size_t copy, ConstMatrix x, Matrix y, void* stream) const {
    const LinearOutput output{.y = y};
    layers_.at(copy).run(x, std::span(&output, 1), *workspace_, stream);
  }

 private:
  std::vector<LinearLayer> layers_;
  std::unique_ptr<Workspace> workspace_;
};

class CudaCase final : public LoadedCase {
 public:
  CudaCase(AblationCase shape, std::int64_t max_m, const Contexts& contexts)
      : LoadedCase(std::move(shape)),
        contexts_(contexts),
        max_m_(max_m),
        host_x_(make_activations(kActivationSeed, max_m, this->shape().k)),
        host_weights_(make_weights(weight_seed(this->shape()), DType::kBF16, columns(), this->shape().k,
                                   contexts.cpu.state().backend->required_pool())),
        x_(contexts.upload(host_x_.data(), host_x_.size() * sizeof(float))),
        y_(contexts.shipped, static_cast<std::size_t>(max_m * columns()) * sizeof(float)) {
    const std::size_t bytes = host_weights_.storage.size();
    for (std::size_t i = 0; i < kPastTheCaches / bytes + 1; ++i) {
      copies_.push_back(contexts.upload(host_weights_.storage.data(), bytes));
      views_.push_back({copies_.back().as<void>(), DType::kBF16, columns(), this->shape().k, this->shape().k});
    }
  }

  std::int64_t rows() const override { return shape().m; }
  std::int64_t columns() const override { return shape().n; }
  ConstMatrix x() const override { return {host_x_.data(), max_m_, shape().k, shape().k}; }
  WeightView weight() const override { return host_weights_.view(); }

  std::vector<float> run(const Method& method, std::int64_t m) override {
    prepare(method, m);
    enqueue(method, m, 0, nullptr);
    std::vector<float> y(static_cast<std::size_t>(m * columns()));
    copy_to_host(contexts_.shipped, y.data(), y_.as<void>(), y.size() * sizeof(float));
    return y;
  }

  double seconds(const Method& method, std::int64_t m) override {
    prepare(method, m);
    const auto work = [&](void* stream) { enqueue_copies(method, m, stream); };
    return summarise(time_replays(contexts_.backend(), kReplays, work)).median / static_cast<double>(copies_for(m));
  }

  double glance(const Method& method, std::int64_t m) override {
    prepare(method, m);
    const auto work = [&](void* stream) { enqueue_copies(method, m, stream); };
    return cuda::ablation::time_once(contexts_.ordinal(), work) / static_cast<double>(copies_for(m));
  }

  // The same contract on the CPU's kernels, at full size.
  std::vector<float> reference(std::int64_t m) override {
    const WeightView view = host_weights_.view();
    const LinearLayer layer(contexts_.cpu, std::span(&view, 1), "ablation");
    const Workspace workspace(contexts_.cpu, layer.workspace_bytes(m));
    std::vector<float> y(static_cast<std::size_t>(m * columns()));
    const LinearOutput output{.y = {y.data(), m, columns(), columns()}};
    layer.run({host_x_.data(), m, shape().k, shape().k}, std::span(&output, 1), workspace);
    return y;
  }

  std::vector<std::string> schedules(std::int64_t m) override {
    prepare(ShippedSchedule{0}, m);
    const LinearOutput output{.y = device_y(m)};
    return schedules_->names({device_x(m), std::span(&output, 1), schedule_workspace_->data()});
  }

 private:
  ConstMatrix device_x(std::int64_t m) const { return {x_.as<float>(), m, shape().k, shape().k}; }
  Matrix device_y(std::int64_t m) const { return {y_.as<float>(), m, columns(), columns()}; }

  // Everything that a method needs on the device, so that enqueue() allocates nothing.
  void prepare(const Method& method, std::int64_t m) {
    require(m <= max_m_, "ablation '{}': {} rows of {} were asked for", shape().name, m, max_m_);
    std::visit(Overloaded{[&](const Shipped&) { layers(contexts_.shipped); },
                          [&](const ShippedSchedule&) { prepare_schedules(); },
                          [&](const Vendor& vendor) { prepare_vendor(vendor.name); },
                          [&](const LaneSum&) { fail(ErrorCode::kUnsupported, "ablation: lane sums are a CPU's"); },
                          [&](const ablation::Variant& variant) { prepare_partials(variant, m); }},
               method);
  }

  // Many rows use each weight so often that it does not matter where it came from.
  std::size_t copies_for(std::int64_t m) const { return m > kDecodeRows ? 1 : copies_.size(); }

  void enqueue_copies(const Method& method, std::int64_t m, void* stream) {
    for (std::size_t copy = 0; copy < copies_for(m); ++copy) enqueue(method, m, copy, stream);
  }

  void enqueue(const Method& method, std::int64_t m, std::size_t copy, void* stream) {
    std::visit(
        Overloaded{[&](const Shipped&) { layers(contexts_.shipped).enqueue(copy, device_x(m), device_y(m), stream); },
                   [&](const ShippedSchedule& schedule) {
                     const LinearOutput output{.y = device_y(m)};
                     schedules_->run({device_x(m), std::span(&output, 1), schedule_workspace_->data(), stream},
                                     schedule.index);
                   },
                   [&](const Vendor& vendor) { enqueue_vendor(vendor.name, m, copy, stream); }, [](const LaneSum&) {},
                   [&](const ablation::Variant& variant) {
                     cuda::ablation::enqueue_linear(contexts_.ordinal(), variant,
                                                    {device_x(m), views_[copy], device_y(m), partials_.as<float>()},
                                                    stream);
                   }},
        method);
  }

  RotatedLayers& layers(const Context& context) {
    const auto found = layers_.try_emplace(std::string(context.numerics()), nullptr).first;
    if (found->second == nullptr) found->second = std::make_unique<RotatedLayers>(context, views_, max_m_);
    return *found->second;
  }

  void prepare_schedules() {
    if (schedules_ != nullptr) return;
    schedules_ = std::make_unique<cuda::ablation::ShippedSchedules>(contexts_.ordinal(), views_[0]);
    schedule_workspace_ = std::make_unique<Workspace>(contexts_.shipped, schedules_->workspace_bytes(max_m_));
  }

  void prepare_vendor(const std::string& name) {
    require(contexts_.sgemm.has_value(), "ablation: '{}' needs cuBLAS, which was not found", name);
    if (name != kVendorTf32) {
      layers(name == kVendorBf16 ? *contexts_.bf16 : *contexts_.sgemm);
      return;
    }
    if (!widened_.empty()) return;
    scratch_ = Buffer(contexts_.shipped, vendor::Cublas::kScratchBytes);
    for (const WeightView& view : views_) {
      widened_.emplace_back(contexts_.shipped, static_cast<std::size_t>(view.n * view.k) * sizeof(float));
      cuda::enqueue_widen(contexts_.ordinal(), view, widened_.back().as<float>(), nullptr);
    }
    float last = 0;  // waits for the default stream, for which other streams do not wait
    copy_to_host(contexts_.shipped, &last, widened_.back().as<float>(), sizeof(last));
  }

  void enqueue_vendor(const std::string& name, std::int64_t m, std::size_t copy, void* stream) {
    if (name != kVendorTf32) {
      layers(name == kVendorBf16 ? *contexts_.bf16 : *contexts_.sgemm).enqueue(copy, device_x(m), device_y(m), stream);
      return;
    }
    contexts_.cublas().tf32(device_x(m), {widened_[copy].as<void>(), columns(), shape().k, shape().k}, device_y(m),
                            {stream, scratch_.as<void>()});
  }

  void prepare_partials(const ablation::Variant& variant, std::int64_t m) {
    const std::size_t bytes = cuda::ablation::partial_bytes(variant, m, columns(), shape().k);
    if (bytes <= partial_bytes_) return;
    partials_ = Buffer();  // before the larger one takes its place
    partials_ = Buffer(contexts_.shipped, bytes);
    partial_bytes_ = bytes;
  }

  const Contexts& contexts_;
  std::int64_t max_m_;
  std::vector<float> host_x_;
  Weights host_weights_;
  Buffer x_, y_, partials_, scratch_;
  std::size_t partial_bytes_ = 0;
  std::vector<Buffer> copies_, widened_;
  std::vector<WeightView> views_;                                 // of the copies
  std::map<std::string, std::unique_ptr<RotatedLayers>> layers_;  // by numerics
  std::unique_ptr<cuda::ablation::ShippedSchedules> schedules_;
  std::unique_ptr<Workspace> schedule_workspace_;
};

class CudaMachine final : public AblationMachine {
 public:
  explicit CudaMachine(const std::string& device)
      : contexts_{.shipped = Context::open(device), .sgemm = {}, .bf16 = {}} {
    try {
      vendor::cublas_of(contexts_.backend());
      contexts_.sgemm = Context::open(device, kVendorSgemm);
      contexts_.bf16 = Context::open(device, kVendorBf16);
    } catch (const Error&) {  // a study without it: vendors() says so
    }
  }

  std::string description() const override { return contexts_.shipped.description(); }
  bool has_tensor_cores() const override { return true; }
  bool has_instruction_sets() const override { return false; }
  bool computes_whole_cases() const override { return true; }
  std::string vendor_library() const override { return "cuBLAS"; }
  std::string reference_name() const override { return "the CPU's kernels"; }
  int multiprocessors() const override { return cuda::ablation::multiprocessors(contexts_.ordinal()); }

  std::vector<ablation::Tile> tiles(std::int64_t m) const override { return for_batch(cuda::ablation::tiles(), m); }

  std::vector<std::string> vendors() const override {
    return contexts_.sgemm ? std::vector<std::string>{kVendorSgemm, kVendorTf32, kVendorBf16}
                           : std::vector<std::string>{};
  }

  std::vector<std::int64_t> batches_beyond_decode() const override { return {65, 96, 128, 256, 512, 1024, 2048}; }

  std::unique_ptr<LoadedCase> load(const AblationCase& shape, std::int64_t max_m) override {
    return std::make_unique<CudaCase>(shape, std::max(shape.m, max_m), contexts_);
  }

 private:
  Contexts contexts_;
};

}  // namespace

std::unique_ptr<AblationMachine> make_cuda_ablation_machine(const std::string& device) {
  return std::make_unique<CudaMachine>(device);
}

// Ablated kernels are written for one backend each, and a backend has them or not.
std::unique_ptr<AblationMachine> make_ablation_machine(const std::string& device) {
  constexpr struct {
    std::string_view backend;
    std::unique_ptr<AblationMachine> (*make)(const std::string& device);
  } kMachines[] = {{"cpu", [](const std::string&) { return make_cpu_ablation_machine(); }},
                   {"cuda", make_cuda_ablation_machine}};
  const std::string_view backend = parse_device(device).backend->name;
  for (const auto& machine : kMachines)
    if (machine.backend == backend) return machine.make(device);
  fail(ErrorCode::kUnsupported, "the {} backend has no ablated kernels", backend);
}

}  // namespace reprofuse::study
