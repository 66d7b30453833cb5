// What a streaming multiprocessor (SM) has, for the budgets that kernels assert.
#pragma once

namespace reprofuse::cuda {

inline constexpr int kWarp = 32, kWarpgroup = 128;  // threads
inline constexpr int kSmRegisters = 65536;
inline constexpr int kMaxThreadRegisters = 255;
inline constexpr int kReservedSharedBytes = 1 << 10;  // of each CTA, by the driver
// Of one SM, the reserved bytes included. 8.6, 8.9 and 12.0 have the least of all that are supported.
inline constexpr int kMinSmSharedBytes = 100 << 10;
inline constexpr int kSmSharedBytesSm80 = 164 << 10;
inline constexpr int kSmSharedBytesSm90 = 228 << 10;

// Registers of a thread where so many CTAs share an SM; they are given out in steps of 8.
constexpr int registers_per_thread(int threads, int ctas_per_sm) {
  const int even = kSmRegisters / (threads * ctas_per_sm) / 8 * 8;
  return even < kMaxThreadRegisters ? even : kMaxThreadRegisters;
}

// What setmaxnreg takes as the registers of a thread.
constexpr bool can_be_set(int registers) {
  return registers >= 24 && registers <= 256 && registers % 8 == 0;
}

// setmaxnreg hands out what the CTA was launched with, and no more: a warpgroup that asks for more waits for ever.
constexpr bool can_move_registers(int math_threads, int math_registers, int other_threads, int other_registers,
                                  int ctas_per_sm) {
  const int threads = math_threads + other_threads;
  return can_be_set(math_registers) && can_be_set(other_registers) &&
         math_threads * math_registers + other_threads * other_registers <=
             threads * registers_per_thread(threads, ctas_per_sm);
}

constexpr bool fits_shared(int bytes_per_cta, int ctas_per_sm, int sm_bytes) {
  return ctas_per_sm * (bytes_per_cta + kReservedSharedBytes) <= sm_bytes;
}

}  // namespace reprofuse::cuda
