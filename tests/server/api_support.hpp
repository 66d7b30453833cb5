// Shared by the tests of the protocol: the bundled model as a server would serve it, and refusals to compare.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>

#include "engine/model_files.hpp"
#include "server/openai/call.hpp"
#include "server/openai/error.hpp"
#include "server/openai/json.hpp"
#include "support/files.hpp"

namespace reprofuse::server {

inline ServedFacts facts_of(const engine::ModelFiles& files) {
  return {.id = "arithmetic-7m",
          .files = &files,
          .fingerprint = "fma-1-0123456789abcdef-0.1.0",
          .max_positions = 1024,
          .created = 1700000000,
          .date = {}};
}

inline const ServedFacts& served() {
  static const engine::ModelFiles kFiles(REPROFUSE_BUNDLED_MODEL);
  static const ServedFacts kFacts = facts_of(kFiles);
  return kFacts;
}

// The bundled model with some files of its folder replaced.
class AlteredModel {
 public:
  void replace(const std::string& file, const std::optional<std::string>& contents) {
    std::filesystem::remove(folder_.file(file));
    if (contents) write_file(folder_.file(file), *contents);
  }
  AlteredModel(const std::string& file, const std::optional<std::string>& contents) {
    for (const auto& entry : std::filesystem::directory_iterator(REPROFUSE_BUNDLED_MODEL))
      std::filesystem::create_symlink(entry.path(), folder_.file(entry.path().filename().string()));
    replace(file, contents);
    files_ = std::make_unique<engine::ModelFiles>(folder_.path());
  }
  ServedFacts facts() const { return facts_of(*files_); }

 private:
  TemporaryFolder folder_;
  std::unique_ptr<engine::ModelFiles> files_;
};

// The refusal of a call as one line: "400 temperature invalid_value: message". "accepted" when there is none.
template <typename Call>
std::string refusal_of(Call call) {
  try {
    call();
    return "accepted";
  } catch (const ApiError& error) {
    return std::to_string(error.status()) + " " + error.param().value_or("-") + " " + error.code().value_or("-") +
           ": " + error.what();
  }
}

struct Refusal {
  std::string body;
  std::string expected;  // as refusal_of() writes it
};

// A valid body with one more field, or other values for those it has.
inline std::string with(const std::string& body, const std::string& fields) {
  Json all = Json::parse(body);
  all.update(Json::parse(fields));
  return all.dump();
}

}  // namespace reprofuse::server
