#include "base/fp_environment.hpp"

#include <cfenv>

namespace reprofuse {
namespace {

// The control bits that change results, as a word: read, and what they must be.
#if defined(__x86_64__)
// The lower half is MXCSR: FTZ, rounding, exception masks, DAZ; the rest are sticky flags. The upper half is the
// control word of the x87, whose rounding glibc's strtod goes by.
constexpr std::uint64_t kControl = 0xffc0 | std::uint64_t{0x0c00} << 32;
constexpr std::uint64_t kPinned = 0x1f80;  // all masked, nearest even, no FTZ, no DAZ
std::uint64_t read_state() {
  std::uint16_t x87;
  asm volatile("fnstcw %0" : "=m"(x87));
  return __builtin_ia32_stmxcsr() | std::uint64_t{x87} << 32;
}
void write_state(std::uint64_t state) {
  const auto x87 = static_cast<std::uint16_t>(state >> 32);
  asm volatile("fldcw %0" : : "m"(x87));
  __builtin_ia32_ldmxcsr(static_cast<unsigned>(state));
}
#elif defined(__aarch64__)
constexpr std::uint64_t kControl = 0x07c89f07;  // FPCR: AHP, DN, FZ, RMode, FZ16, trap enables, NEP, AH, FIZ
constexpr std::uint64_t kPinned = 0;
std::uint64_t read_state() {
  std::uint64_t state;
  asm volatile("mrs %0, fpcr" : "=r"(state));
  return state;
}
void write_state(std::uint64_t state) {
  asm volatile("msr fpcr, %0" : : "r"(state));
}
#else
constexpr std::uint64_t kControl = ~std::uint64_t{0};
constexpr std::uint64_t kPinned = FE_TONEAREST;
std::uint64_t read_state() {
  return static_cast<std::uint64_t>(std::fegetround());
}
void write_state(std::uint64_t state) {
  std::fesetround(static_cast<int>(state));
}
#endif

}  // namespace

FpEnvironment::FpEnvironment() : saved_(read_state()), was_pinned_((saved_ & kControl) == kPinned) {
  if (!was_pinned_) write_state((saved_ & ~kControl) | kPinned);
}

FpEnvironment::~FpEnvironment() {
  if (!was_pinned_) write_state(saved_);
}

}  // namespace reprofuse
