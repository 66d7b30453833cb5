// write_model_cases FOLDER: every model case as a Hugging Face checkpoint with its text, for transformers_reference.py.
#include <cstdio>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/thread_pool.hpp"
#include "study/seeded/models.hpp"

int main(int argc, char** argv) {
  using namespace reprofuse;
  if (argc != 2) {
    std::fputs("usage: write_model_cases FOLDER\n", stderr);
    return 2;
  }
  try {
    ThreadPool pool(available_cores());
    for (const study::ModelCase& spec : study::model_cases()) {
      const std::string folder = std::string(argv[1]) + "/" + spec.name;
      study::write_random_checkpoint(folder, {.config = spec.config, .dtype = spec.dtype, .seed = spec.seed}, pool);
      std::ofstream(folder + "/tokens.json") << nlohmann::json(study::case_tokens(spec)).dump() << '\n';
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "write_model_cases: %s\n", error.what());
    return 1;
  }
}
