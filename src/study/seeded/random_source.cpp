#include "study/seeded/random_source.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "checkpoint/expected_tensors.hpp"
#include "checkpoint/tensor_view.hpp"
#include "study/seeded/random_checkpoint.hpp"

namespace reprofuse::study {

RandomSource::RandomSource(checkpoint::ModelConfig config, DType dtype, std::uint64_t seed)
    : config_(std::move(config)), dtype_(dtype), seed_(seed), pool_(available_cores()) {}

std::int64_t RandomSource::tensor_bytes() const {
  return checkpoint::parameter_count(config_) * static_cast<std::int64_t>(dtype_bytes(dtype_));
}

checkpoint::TensorView RandomSource::tensor(std::string_view name) const {
  const auto tensors = checkpoint::expected_tensors(config_);
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
  require(found != tensors.end(), "a model of this shape has no tensor '{}'", name);
  auto made = made_.find(name);
  if (made == made_.end()) {
    std::vector<std::byte> bytes = random_tensor(*found, dtype_, seed_, pool_);
    checkpoint::convert_byte_order(bytes, dtype_);  // a view is in file order
    made = made_.emplace(found->name, std::move(bytes)).first;
  }
  return {.name = found->name, .file = "random weights", .bytes = made->second, .dtype = dtype_, .shape = found->shape};
}

void RandomSource::release(const checkpoint::TensorView& tensor) const {
  if (tensor.name != checkpoint::kEmbeddingName) made_.erase(tensor.name);
}

}  // namespace reprofuse::study
