// The ablated CUDA layer of a build without CUDA. Every use begins with a context, which says what is missing.
#include "base/check.hpp"
#include "study/ablation/kernels/linear.hpp"

namespace reprofuse::cuda::ablation {
namespace {

[[noreturn]] void missing() {
  fail(ErrorCode::kUnsupported, "this build of ReproFuse has no CUDA backend");
}

}  // namespace

struct ShippedSchedules::Layer {};

std::size_t partial_bytes(const Variant&, std::int64_t, std::int64_t, std::int64_t) {
  missing();
}
void enqueue_linear(int, const Variant&, const LinearCall&, void*) {
  missing();
}
std::vector<Tile> tiles() {
  missing();
}
int multiprocessors(int) {
  missing();
}
double time_once(int, const std::function<void(void*)>&) {
  missing();
}
ShippedSchedules::ShippedSchedules(int, const WeightView&) {
  missing();
}
ShippedSchedules::~ShippedSchedules() = default;
std::size_t ShippedSchedules::workspace_bytes(std::int64_t) const {
  missing();
}
std::vector<std::string> ShippedSchedules::names(const kernels::LinearCall&) const {
  missing();
}
void ShippedSchedules::run(const kernels::LinearCall&, std::size_t) const {
  missing();
}

}  // namespace reprofuse::cuda::ablation
