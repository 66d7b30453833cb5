#include "engine/model_folder.hpp"

#include <filesystem>
#include <system_error>

#include "base/check.hpp"

namespace reprofuse::engine {
namespace {

namespace fs = std::filesystem;

fs::path folder_of_this_program() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

}  // namespace

std::string embedded_model_folder() {
  const fs::path installed = folder_of_this_program() / REPROFUSE_INSTALLED_MODELS / kEmbeddedModel;
  const fs::path source = fs::path(REPROFUSE_SOURCE_MODELS) / kEmbeddedModel;
  const fs::path moved = folder_of_this_program() / "../../models" / kEmbeddedModel;  // a source tree that was moved
  for (const fs::path& folder : {installed, source, moved}) {
    std::error_code ignored;
    if (fs::exists(folder / "config.json", ignored)) return folder.lexically_normal().string();
  }
  fail(ErrorCode::kInvalidArgument, "the model {} is not in {}, {} or {}; name a model folder with --model",
       kEmbeddedModel, installed.lexically_normal().string(), source.string(), moved.lexically_normal().string());
}

}  // namespace reprofuse::engine
