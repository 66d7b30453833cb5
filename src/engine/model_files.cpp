#include "engine/model_files.hpp"

#include "base/check.hpp"

namespace reprofuse::engine {

ModelFiles::ModelFiles(const std::string& folder)
    : source_(std::make_shared<model::CheckpointSource>(checkpoint::Checkpoint::open(folder))), text_(folder) {
  for (const std::int64_t id : checkpoint().eos_tokens().ids) stop_tokens_.push_back(static_cast<std::int32_t>(id));
  if (!text_.has_tokenizer()) return;
  const auto rows = static_cast<std::size_t>(checkpoint().config().vocab_size);
  require(text_.tokenizer().vocab_size() <= rows, "{}: tokenizer.json has ids up to {}, config.json a vocab_size of {}",
          folder, text_.tokenizer().vocab_size() - 1, rows);
}

SamplingParams ModelFiles::suggested_sampling() const {
  const checkpoint::GenerationConfig& config = checkpoint().generation_config();
  SamplingParams params;
  params.repetition_penalty = static_cast<float>(config.repetition_penalty.value_or(1.0));
  if (!config.do_sample.value_or(false)) return params;
  params.temperature = static_cast<float>(config.temperature.value_or(1.0));
  params.top_k = static_cast<int>(config.top_k.value_or(0));
  params.top_p = static_cast<float>(config.top_p.value_or(1.0));
  params.min_p = static_cast<float>(config.min_p.value_or(0.0));
  return params;
}

}  // namespace reprofuse::engine
