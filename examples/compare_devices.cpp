// The same answer on two devices, compared by digest: compare_devices MODEL_FOLDER [DEVICE DEVICE [NUMERICS]]
// A device is cpu, cuda:0, cuda:1, ... or an instruction set of the CPU: scalar, avx2, avx512, neon.
#include <cstdio>
#include <reprofuse/reprofuse.hpp>
#include <string>

static reprofuse::Context open(const std::string& device, const std::string& numerics) {
  if (const auto isa = reprofuse::parse_isa(device)) return reprofuse::Context::cpu(numerics, isa);
  return reprofuse::Context::open(device, numerics);
}

static reprofuse::Completion answer(const reprofuse::Context& context, const reprofuse::Checkpoint& checkpoint) {
  const reprofuse::Engine engine(reprofuse::Model::load(context, checkpoint), {.max_batch = 1});
  reprofuse::Request request;
  request.prompt = checkpoint.encode_chat({{"user", "What is 4 x 17 - 9?"}});
  request.sampling = {.temperature = 1.0F, .seed = 7};
  request.digest = reprofuse::DigestKind::kTree1;
  reprofuse::Completion completion = engine.generate(request)[0];
  std::printf("%-40s %s %s\n", context.description().c_str(), completion.digest.c_str(), completion.text.c_str());
  return completion;
}

int main(int argc, char** argv) try {
  if (argc < 2 || argc == 3)
    return std::fprintf(stderr, "usage: %s MODEL_FOLDER [DEVICE DEVICE [NUMERICS]]\n", argv[0]), 2;
  const auto checkpoint = reprofuse::Checkpoint::open(argv[1]);
  const auto devices = reprofuse::available_devices();
  const std::string first = argc > 3 ? argv[2] : devices.size() > 1 ? "cpu" : "scalar";
  const std::string second = argc > 3 ? argv[3] : devices.back();
  const std::string numerics(argc > 4 ? argv[4] : reprofuse::kDefaultNumerics);
  std::printf("model %s under %s\n", checkpoint.digest().c_str(), numerics.c_str());
  const reprofuse::Completion one = answer(open(first, numerics), checkpoint);
  const reprofuse::Completion other = answer(open(second, numerics), checkpoint);
  const bool equal = one.digest == other.digest && one.tokens == other.tokens;
  std::printf("%s\n", equal ? "equal, bit for bit" : "DIFFERENT");
  return equal ? 0 : 1;
} catch (const std::exception& error) {
  return std::fprintf(stderr, "%s\n", error.what()), 1;
}
