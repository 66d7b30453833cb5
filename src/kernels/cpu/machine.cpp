#include "kernels/cpu/machine.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include "base/check.hpp"
#include "kernels/cpu/linear/fma1/kernels.hpp"

namespace reprofuse {
namespace {

constexpr Isa kIsas[] = {Isa::kScalar, Isa::kNeon, Isa::kAvx2, Isa::kAvx512};

}  // namespace

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::kScalar: return "scalar";
    case Isa::kAvx2: return "avx2";
    case Isa::kAvx512: return "avx512";
    case Isa::kNeon: return "neon";
  }
  return "?";
}

std::optional<Isa> parse_isa(std::string_view name) {
  for (const Isa isa : kIsas)
    if (isa_name(isa) == name) return isa;
  return std::nullopt;
}

std::vector<Isa> supported_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : kIsas)
    if (cpu::is_supported(isa)) isas.push_back(isa);
  return isas;
}

}  // namespace reprofuse

namespace reprofuse::cpu {
namespace {

// Every feature that Highway lets the compiler use for the target, not just the one in its name.
#if defined(__x86_64__)
bool machine_has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2");
}
bool machine_has(Isa isa) {
  switch (isa) {
    case Isa::kScalar: return true;
    case Isa::kAvx2: return machine_has_avx2();
    case Isa::kAvx512:
      return machine_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
    case Isa::kNeon: return false;
  }
  return false;
}
#elif defined(__aarch64__)
bool machine_has(Isa isa) {
  return isa == Isa::kScalar || isa == Isa::kNeon;  // NEON is part of the architecture
}
#else
bool machine_has(Isa isa) {
  return isa == Isa::kScalar;
}
#endif

}  // namespace

bool is_supported(Isa isa) {
  return machine_has(isa) && compiled_linear_fma1(isa) != nullptr;
}

namespace {

// A file that holds one number; none when there is no such file or it says "max".
std::optional<std::int64_t> number_in(const std::string& path) {
  std::int64_t number = 0;
  if (std::ifstream(path) >> number) return number;
  return std::nullopt;
}

std::int64_t available_to_the_system() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::string unit;
  for (std::int64_t kibibytes = 0; file >> key >> kibibytes; std::getline(file, unit))
    if (key == "MemAvailable:") return kibibytes << 10;
  fail(ErrorCode::kUnsupported, "/proc/meminfo has no MemAvailable; give the size of the KV cache explicitly");
}

}  // namespace

std::int64_t available_memory() {
  std::int64_t available = available_to_the_system();
  const auto limit = number_in("/sys/fs/cgroup/memory.max");
  const auto used = number_in("/sys/fs/cgroup/memory.current");
  if (limit && used) available = std::min(available, std::max<std::int64_t>(0, *limit - *used));
  return available;
}

}  // namespace reprofuse::cpu
