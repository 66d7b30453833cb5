// What a CMake project with find_package(ReproFuse) looks like: ask MODEL_FOLDER QUESTION
#include <iostream>
#include <reprofuse/reprofuse.hpp>

constexpr const char* kNumerics = "exact-1";

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: " << argv[0] << " MODEL_FOLDER QUESTION\n";
    return 2;
  }
  try {
    const auto checkpoint = reprofuse::Checkpoint::open(argv[1]);
    const reprofuse::Engine engine(reprofuse::Model::load(reprofuse::Context::cpu(kNumerics), checkpoint));
    reprofuse::Request request;
    request.prompt = checkpoint.encode_chat({{"user", argv[2]}});
    request.digest = reprofuse::DigestKind::kTree1;
    const auto answer = engine.generate(request)[0];
    std::cout << answer.text << "\ndigest " << answer.digest << "\n";
    return 0;
  } catch (const reprofuse::Error& error) {  // caught by its type across the library's border
    std::cerr << error.what() << "\n";
    return 1;
  }
}
