// A model with some of its tensors changed, for tests that must notice.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "checkpoint/safetensors.hpp"
#include "model/weights.hpp"
#include "numerics/float_ops.hpp"

namespace reprofuse::model {

class AlteredSource final : public WeightSource {
 public:
  // Gets the tensor's values in row-major order; they are rounded to BF16 afterwards.
  using Change = std::function<void(std::span<float> values)>;

  explicit AlteredSource(std::shared_ptr<const WeightSource> original) : original_(std::move(original)) {}

  void change(const std::string& name, const Change& change) {
    const checkpoint::TensorView view = tensor(name);
    require(view.dtype == DType::kBF16, "{} is not a BF16 tensor", name);
    const checkpoint::HostTensor host(view);
    std::vector<float> values;
    for (std::int64_t i = 0; i < view.elements(); ++i)
      values.push_back(widen_bf16(load_weight(host.data(), view.dtype, i)));
    change(values);
    std::vector<std::byte> bytes(view.bytes.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      store_weight(bytes.data(), view.dtype, static_cast<std::int64_t>(i), round_bf16(values[i]));
    checkpoint::convert_byte_order(bytes, view.dtype);  // a view is in file order
    changed_[name] = std::move(bytes);
  }

  // Each of two tensors of one shape takes the place of the other.
  void swap(const std::string& a, const std::string& b) {
    const checkpoint::TensorView at_a = tensor(a);
    const checkpoint::TensorView at_b = tensor(b);
    require(at_a.shape == at_b.shape && at_a.dtype == at_b.dtype, "{} and {} differ in shape or dtype", a, b);
    std::vector<std::byte> bytes_of_a(at_a.bytes.begin(), at_a.bytes.end());
    std::vector<std::byte> bytes_of_b(at_b.bytes.begin(), at_b.bytes.end());
    changed_[a] = std::move(bytes_of_b);
    changed_[b] = std::move(bytes_of_a);
  }

  const checkpoint::ModelConfig& config() const override { return original_->config(); }
  std::int64_t tensor_bytes() const override { return original_->tensor_bytes(); }
  checkpoint::TensorView tensor(std::string_view name) const override {
    checkpoint::TensorView view = original_->tensor(name);
    if (const auto changed = changed_.find(name); changed != changed_.end()) view.bytes = changed->second;
    return view;
  }

 private:
  std::shared_ptr<const WeightSource> original_;
  std::map<std::string, std::vector<std::byte>, std::less<>> changed_;  // in file order
};

}  // namespace reprofuse::model
