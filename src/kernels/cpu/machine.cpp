#include "kernels/cpu/machine.hpp"

#include <optional>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

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

bool machine_adds_beside_products() {
  return __builtin_cpu_is("amd") != 0;
}

bool machine_has_amx_int8() {
  static const bool has = [] {
    constexpr unsigned kTileAndInt8 = 3U << 24, kSavedTiles = 3U << 17, kSavesExtended = 1U << 27;
    constexpr long kRequestPermission = 0x1023, kTileData = 18;  // of arch_prctl
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kSavesExtended) == 0) return false;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kTileAndInt8) != kTileAndInt8) return false;
    unsigned saved = 0, upper = 0;
    asm volatile("xgetbv" : "=a"(saved), "=d"(upper) : "c"(0));
    return (saved & kSavedTiles) == kSavedTiles && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return has;
}
#else
bool machine_has_avx512_vnni() {
  return false;
}

bool machine_adds_beside_products() {
  return false;
}

bool machine_has_amx_int8() {
  return false;
}
#endif

#if defined(__aarch64__)
bool machine_has_neon_dot() {
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
}
#else
bool machine_has_neon_dot() {
  return false;
}
#endif

bool is_supported(Isa isa) {
  return machine_has(isa) && compiled_linear_fma1(isa) != nullptr;
}

}  // namespace reprofuse::cpu
