// A key of its own, and receipts by it, of answers of the bundled model.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "cli/run_cli.hpp"
#include "support/files.hpp"

namespace reprofuse {

namespace fs = std::filesystem;

class ReceiptCommand : public testing::Test {
 protected:
  void SetUp() override {
    if (REPROFUSE_HAVE_SIGNATURES == 0) GTEST_SKIP() << "this build has no OpenSSL";
    ASSERT_EQ(reprofuse("keys new " + folder_.file("key")).status, 0);
    write_file(folder_.file("key.pem"), reprofuse("keys show " + folder_.file("key")).out);
  }

  Finished generate(const std::string& options) const {
    return reprofuse("generate --prompt-tokens 1,2,3 --max-tokens 6 " + options,
                     "REPROFUSE_KEY=" + folder_.file("key") + " ");
  }
  std::string receipt() const {
    const std::string file = folder_.file("receipt.json");
    EXPECT_EQ(generate("--receipt " + file).status, 0);
    return file;
  }

  // The bundled model with one file that is another.
  std::string model_with(const std::string& file, const std::string& more) const {
    const std::string model = folder_.file("model-" + file);
    fs::create_directory(model);
    for (const auto& entry : fs::directory_iterator(REPROFUSE_BUNDLED_MODEL))
      if (entry.path().filename() != file)
        fs::create_symlink(entry.path(), model + "/" + entry.path().filename().string());
    write_file(model + "/" + file, read_whole_file(std::string(REPROFUSE_BUNDLED_MODEL) + "/" + file) + more);
    return model;
  }

  TemporaryFolder folder_;
};

}  // namespace reprofuse
