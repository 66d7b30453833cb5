#include "study/seeded/linear_inputs.hpp"

#include <utility>

#include "base/check.hpp"
#include "model/runner.hpp"

namespace reprofuse::study {

std::vector<LinearInput> capture_linear_inputs(const Context& context,
                                               std::shared_ptr<const model::WeightSource> source,
                                               std::span<const std::int32_t> tokens) {
  const auto length = static_cast<std::int64_t>(tokens.size());
  model::Model model(context, std::move(source), length);
  std::vector<LinearInput> inputs;
  model.observe_linear([&](const model::Projection& projection, ConstMatrix x) {
    LinearInput input{.tensors = projection.tensors, .rows = x.rows, .cols = x.cols, .values = {}};
    for (std::int64_t row = 0; row < x.rows; ++row)
      input.values.insert(input.values.end(), x.data + row * x.stride, x.data + row * x.stride + x.cols);
    inputs.push_back(std::move(input));
  });
  const std::int64_t pages = (length + model::kDefaultPageSize - 1) / model::kDefaultPageSize;
  model::KvCache cache(context, model.config(), pages);
  model::Runner runner(model, cache, {.rows = length, .sequences = 1, .logit_rows = length});
  model::Sequence sequence(cache);
  invariant(sequence.reserve(length), "the cache of a captured pass is too small");
  const model::TokenChunk chunk{&sequence, tokens, model::Logits::kAll};
  runner.run({&chunk, 1});
  return inputs;
}

}  // namespace reprofuse::study
