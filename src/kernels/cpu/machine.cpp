#include "kernels/cpu/machine.hpp"

#include <optional>

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

#if defined(__x86_64__)
bool machine_has_avx512_vnni() {
  return __builtin_cpu_supports("avx512vnni");
}
#else
bool machine_has_avx512_vnni() {
  return false;
}
#endif

bool is_supported(Isa isa) {
  return machine_has(isa) && compiled_linear_fma1(isa) != nullptr;
}

}  // namespace reprofuse::cpu
