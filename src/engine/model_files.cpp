#include "engine/model_files.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>

#include "base/check.hpp"
#include "base/fp_environment.hpp"

namespace reprofuse::engine {
namespace {

namespace fs = std::filesystem;

fs::path folder_of_this_program() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

// An owner and a name, as on the Hugging Face Hub.
bool is_hub_name(std::string_view text) {
  const auto is_letter_or_digit = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  const auto is_name = [&](std::string_view part) {
    const auto allowed = [&](char c) { return is_letter_or_digit(c) || c == '_' || c == '.' || c == '-'; };
    return !part.empty() && is_letter_or_digit(part[0]) && std::all_of(part.begin(), part.end(), allowed);
  };
  const std::size_t slash = text.find('/');
  return slash != text.npos && is_name(text.substr(0, slash)) && is_name(text.substr(slash + 1));
}

// Tools that fetch models take such names, so it is easy to think that this one does.
const std::string& not_from_the_hub(const std::string& folder) {
  std::error_code error;
  require(
      fs::exists(folder, error) || !is_hub_name(folder),
      "{0}: there is no such folder. A model is a folder on this machine; `hf download {0} --local-dir {0}` makes one "
      "of a name on the Hugging Face Hub",
      folder);
  return folder;
}

}  // namespace

ModelFiles::ModelFiles(const std::string& folder)
    : source_(std::make_shared<model::CheckpointSource>(checkpoint::Checkpoint::open(not_from_the_hub(folder)))),
      text_(folder) {
  for (const std::int64_t id : checkpoint().eos_tokens().ids) stop_tokens_.push_back(static_cast<std::int32_t>(id));
  if (!text_.has_tokenizer()) return;
  const auto rows = static_cast<std::size_t>(checkpoint().config().vocab_size);
  require(text_.tokenizer().vocab_size() <= rows, "{}: tokenizer.json has ids up to {}, config.json a vocab_size of {}",
          folder, text_.tokenizer().vocab_size() - 1, rows);
}

SamplingParams ModelFiles::suggested_sampling() const {
  const FpEnvironment pinned;  // decimals are rounded to binary32
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

std::string bundled_model_folder() {
  const fs::path installed = folder_of_this_program() / REPROFUSE_INSTALLED_MODELS / kBundledModel;
  const fs::path source = fs::path(REPROFUSE_SOURCE_MODELS) / kBundledModel;
  const fs::path moved = folder_of_this_program() / "../../models" / kBundledModel;  // a source tree that was moved
  for (const fs::path& folder : {installed, source, moved}) {
    std::error_code ignored;
    if (fs::exists(folder / "config.json", ignored)) return folder.lexically_normal().string();
  }
  fail(ErrorCode::kInvalidArgument, "the model {} is not in {}, {} or {}", kBundledModel,
       installed.lexically_normal().string(), source.string(), moved.lexically_normal().string());
}

}  // namespace reprofuse::engine
