// Matrix products of a warpgroup (wgmma), of 8-bit integers, and the registers that warpgroups hand to each other
// (setmaxnreg). Both exist on compute capability 9.0 alone, in the feature set sm_90a.
#pragma once

#include <cstdint>

namespace reprofuse::cuda::ptx {

// The number of registers that each thread of the warpgroup has from here on: fewer than before, or more.
template <int kRegisters>
__device__ inline void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
__device__ inline void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

inline constexpr int kWarpgroupRows = 64;  // of the left operand: the m of wgmma

// Products are asynchronous. From the fence on their operands must not change; what they read and add to is free again
// once at most kPending committed groups are pending.
__device__ inline void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int kPending>
__device__ inline void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// How wgmma finds an operand in shared memory without swizzle: as core matrices of 8 rows by 16 bytes, 128 bytes each.
struct SharedMemoryDescriptor {
  static constexpr int kCoreMatrixBytes = 128;
  std::uint32_t start_address;        // in the shared window
  std::uint32_t leading_byte_offset;  // from a core matrix to the next along k
  std::uint32_t stride_byte_offset;   // from a core matrix to the next along m or n

  // Bits 0-13, 16-29 and 32-45, each in units of 16 bytes. The swizzle mode, bits 62-63, is 0: none.
  __device__ std::uint64_t word() const {
    return static_cast<std::uint64_t>((start_address & 0x3ffff) >> 4) |
           static_cast<std::uint64_t>(leading_byte_offset >> 4) << 16 |
           static_cast<std::uint64_t>(stride_byte_offset >> 4) << 32;
  }
  // What to add to a word() for an operand that starts so many bytes later.
  __host__ __device__ static constexpr int advance(int bytes) { return bytes / 16; }
};

// sums[64, kN] += a[64, 32] * b[32, kN], unsigned times signed bytes, without saturation: sums wrap, and never need to.
// `b` is the word() of a descriptor.
template <int kN>
__device__ void wgmma_m64k32(int* sums, const std::uint32_t* a, std::uint64_t b);

template <>
__device__ inline void wgmma_m64k32<16>(int* sums, const std::uint32_t* a, std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n16k32.s32.u8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7}, "
      "{%8, %9, %10, %11}, %12, 1;"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]), "+r"(sums[6]),
        "+r"(sums[7])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

template <>
__device__ inline void wgmma_m64k32<24>(int* sums, const std::uint32_t* a, std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n24k32.s32.u8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11}, "
      "{%12, %13, %14, %15}, %16, 1;"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]), "+r"(sums[6]),
        "+r"(sums[7]), "+r"(sums[8]), "+r"(sums[9]), "+r"(sums[10]), "+r"(sums[11])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

template <>
__device__ inline void wgmma_m64k32<32>(int* sums, const std::uint32_t* a, std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n32k32.s32.u8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
      "{%16, %17, %18, %19}, %20, 1;"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]), "+r"(sums[6]),
        "+r"(sums[7]), "+r"(sums[8]), "+r"(sums[9]), "+r"(sums[10]), "+r"(sums[11]), "+r"(sums[12]), "+r"(sums[13]),
        "+r"(sums[14]), "+r"(sums[15])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

template <>
__device__ inline void wgmma_m64k32<48>(int* sums, const std::uint32_t* a, std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n48k32.s32.u8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
      "%14, %15, %16, %17, %18, %19, %20, %21, %22, %23}, "
      "{%24, %25, %26, %27}, %28, 1;"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]), "+r"(sums[6]),
        "+r"(sums[7]), "+r"(sums[8]), "+r"(sums[9]), "+r"(sums[10]), "+r"(sums[11]), "+r"(sums[12]), "+r"(sums[13]),
        "+r"(sums[14]), "+r"(sums[15]), "+r"(sums[16]), "+r"(sums[17]), "+r"(sums[18]), "+r"(sums[19]), "+r"(sums[20]),
        "+r"(sums[21]), "+r"(sums[22]), "+r"(sums[23])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

template <>
__device__ inline void wgmma_m64k32<64>(int* sums, const std::uint32_t* a, std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k32.s32.u8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
      "%30, %31}, "
      "{%32, %33, %34, %35}, %36, 1;"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]), "+r"(sums[6]),
        "+r"(sums[7]), "+r"(sums[8]), "+r"(sums[9]), "+r"(sums[10]), "+r"(sums[11]), "+r"(sums[12]), "+r"(sums[13]),
        "+r"(sums[14]), "+r"(sums[15]), "+r"(sums[16]), "+r"(sums[17]), "+r"(sums[18]), "+r"(sums[19]), "+r"(sums[20]),
        "+r"(sums[21]), "+r"(sums[22]), "+r"(sums[23]), "+r"(sums[24]), "+r"(sums[25]), "+r"(sums[26]), "+r"(sums[27]),
        "+r"(sums[28]), "+r"(sums[29]), "+r"(sums[30]), "+r"(sums[31])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// sums[64, kN] = a[64, 32] * b[32, kN], added to what was there where `accumulate` is not 0. Without saturation: sums
// wrap, and never need to. `b` is the word() of a descriptor.
template <int kN>
__device__ void wgmma_m64k32_s8(int* sums, const std::uint32_t* a, std::uint64_t b, int accumulate);

template <>
__device__ inline void wgmma_m64k32_s8<8>(int* sums, const std::uint32_t* a, std::uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %9, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 "
      "{%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, %8, accumulate;\n}"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}

template <>
__device__ inline void wgmma_m64k32_s8<16>(int* sums, const std::uint32_t* a, std::uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %13, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k32.s32.s8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7}, "
      "{%8, %9, %10, %11}, %12, accumulate;\n}"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]), "+r"(sums[6]),
        "+r"(sums[7])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}

template <>
__device__ inline void wgmma_m64k32_s8<32>(int* sums, const std::uint32_t* a, std::uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k32.s32.s8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
      "{%16, %17, %18, %19}, %20, accumulate;\n}"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]), "+r"(sums[6]),
        "+r"(sums[7]), "+r"(sums[8]), "+r"(sums[9]), "+r"(sums[10]), "+r"(sums[11]), "+r"(sums[12]), "+r"(sums[13]),
        "+r"(sums[14]), "+r"(sums[15])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}

template <>
__device__ inline void wgmma_m64k32_s8<48>(int* sums, const std::uint32_t* a, std::uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %29, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n48k32.s32.s8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
      "%21, %22, %23}, "
      "{%24, %25, %26, %27}, %28, accumulate;\n}"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]), "+r"(sums[6]),
        "+r"(sums[7]), "+r"(sums[8]), "+r"(sums[9]), "+r"(sums[10]), "+r"(sums[11]), "+r"(sums[12]), "+r"(sums[13]),
        "+r"(sums[14]), "+r"(sums[15]), "+r"(sums[16]), "+r"(sums[17]), "+r"(sums[18]), "+r"(sums[19]), "+r"(sums[20]),
        "+r"(sums[21]), "+r"(sums[22]), "+r"(sums[23])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}

template <>
__device__ inline void wgmma_m64k32_s8<64>(int* sums, const std::uint32_t* a, std::uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
      "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, accumulate;\n}"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]), "+r"(sums[6]),
        "+r"(sums[7]), "+r"(sums[8]), "+r"(sums[9]), "+r"(sums[10]), "+r"(sums[11]), "+r"(sums[12]), "+r"(sums[13]),
        "+r"(sums[14]), "+r"(sums[15]), "+r"(sums[16]), "+r"(sums[17]), "+r"(sums[18]), "+r"(sums[19]), "+r"(sums[20]),
        "+r"(sums[21]), "+r"(sums[22]), "+r"(sums[23]), "+r"(sums[24]), "+r"(sums[25]), "+r"(sums[26]), "+r"(sums[27]),
        "+r"(sums[28]), "+r"(sums[29]), "+r"(sums[30]), "+r"(sums[31])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}

template <>
__device__ inline void wgmma_m64k32_s8<96>(int* sums, const std::uint32_t* a, std::uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %53, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n96k32.s32.s8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
      "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47}, "
      "{%48, %49, %50, %51}, %52, accumulate;\n}"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]), "+r"(sums[6]),
        "+r"(sums[7]), "+r"(sums[8]), "+r"(sums[9]), "+r"(sums[10]), "+r"(sums[11]), "+r"(sums[12]), "+r"(sums[13]),
        "+r"(sums[14]), "+r"(sums[15]), "+r"(sums[16]), "+r"(sums[17]), "+r"(sums[18]), "+r"(sums[19]), "+r"(sums[20]),
        "+r"(sums[21]), "+r"(sums[22]), "+r"(sums[23]), "+r"(sums[24]), "+r"(sums[25]), "+r"(sums[26]), "+r"(sums[27]),
        "+r"(sums[28]), "+r"(sums[29]), "+r"(sums[30]), "+r"(sums[31]), "+r"(sums[32]), "+r"(sums[33]), "+r"(sums[34]),
        "+r"(sums[35]), "+r"(sums[36]), "+r"(sums[37]), "+r"(sums[38]), "+r"(sums[39]), "+r"(sums[40]), "+r"(sums[41]),
        "+r"(sums[42]), "+r"(sums[43]), "+r"(sums[44]), "+r"(sums[45]), "+r"(sums[46]), "+r"(sums[47])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}

// The same with both operands in shared memory: `a` is a word() too.
template <int kN>
__device__ void wgmma_m64k32_s8(int* sums, std::uint64_t a, std::uint64_t b, int accumulate);

template <>
__device__ inline void wgmma_m64k32_s8<8>(int* sums, std::uint64_t a, std::uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %6, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 "
      "{%0, %1, %2, %3}, "
      "%4, %5, accumulate;\n}"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "l"(a), "l"(b), "r"(accumulate));
}

template <>
__device__ inline void wgmma_m64k32_s8<16>(int* sums, std::uint64_t a, std::uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %10, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k32.s32.s8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7}, "
      "%8, %9, accumulate;\n}"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]), "+r"(sums[6]),
        "+r"(sums[7])
      : "l"(a), "l"(b), "r"(accumulate));
}

template <>
__device__ inline void wgmma_m64k32_s8<32>(int* sums, std::uint64_t a, std::uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k32.s32.s8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
      "%16, %17, accumulate;\n}"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]), "+r"(sums[6]),
        "+r"(sums[7]), "+r"(sums[8]), "+r"(sums[9]), "+r"(sums[10]), "+r"(sums[11]), "+r"(sums[12]), "+r"(sums[13]),
        "+r"(sums[14]), "+r"(sums[15])
      : "l"(a), "l"(b), "r"(accumulate));
}

template <>
__device__ inline void wgmma_m64k32_s8<64>(int* sums, std::uint64_t a, std::uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
      "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, accumulate;\n}"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]), "+r"(sums[6]),
        "+r"(sums[7]), "+r"(sums[8]), "+r"(sums[9]), "+r"(sums[10]), "+r"(sums[11]), "+r"(sums[12]), "+r"(sums[13]),
        "+r"(sums[14]), "+r"(sums[15]), "+r"(sums[16]), "+r"(sums[17]), "+r"(sums[18]), "+r"(sums[19]), "+r"(sums[20]),
        "+r"(sums[21]), "+r"(sums[22]), "+r"(sums[23]), "+r"(sums[24]), "+r"(sums[25]), "+r"(sums[26]), "+r"(sums[27]),
        "+r"(sums[28]), "+r"(sums[29]), "+r"(sums[30]), "+r"(sums[31])
      : "l"(a), "l"(b), "r"(accumulate));
}

template <>
__device__ inline void wgmma_m64k32_s8<80>(int* sums, std::uint64_t a, std::uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %42, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n80k32.s32.s8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
      "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39}, "
      "%40, %41, accumulate;\n}"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]), "+r"(sums[6]),
        "+r"(sums[7]), "+r"(sums[8]), "+r"(sums[9]), "+r"(sums[10]), "+r"(sums[11]), "+r"(sums[12]), "+r"(sums[13]),
        "+r"(sums[14]), "+r"(sums[15]), "+r"(sums[16]), "+r"(sums[17]), "+r"(sums[18]), "+r"(sums[19]), "+r"(sums[20]),
        "+r"(sums[21]), "+r"(sums[22]), "+r"(sums[23]), "+r"(sums[24]), "+r"(sums[25]), "+r"(sums[26]), "+r"(sums[27]),
        "+r"(sums[28]), "+r"(sums[29]), "+r"(sums[30]), "+r"(sums[31]), "+r"(sums[32]), "+r"(sums[33]), "+r"(sums[34]),
        "+r"(sums[35]), "+r"(sums[36]), "+r"(sums[37]), "+r"(sums[38]), "+r"(sums[39])
      : "l"(a), "l"(b), "r"(accumulate));
}

template <>
__device__ inline void wgmma_m64k32_s8<96>(int* sums, std::uint64_t a, std::uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %50, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n96k32.s32.s8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
      "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47}, "
      "%48, %49, accumulate;\n}"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]), "+r"(sums[6]),
        "+r"(sums[7]), "+r"(sums[8]), "+r"(sums[9]), "+r"(sums[10]), "+r"(sums[11]), "+r"(sums[12]), "+r"(sums[13]),
        "+r"(sums[14]), "+r"(sums[15]), "+r"(sums[16]), "+r"(sums[17]), "+r"(sums[18]), "+r"(sums[19]), "+r"(sums[20]),
        "+r"(sums[21]), "+r"(sums[22]), "+r"(sums[23]), "+r"(sums[24]), "+r"(sums[25]), "+r"(sums[26]), "+r"(sums[27]),
        "+r"(sums[28]), "+r"(sums[29]), "+r"(sums[30]), "+r"(sums[31]), "+r"(sums[32]), "+r"(sums[33]), "+r"(sums[34]),
        "+r"(sums[35]), "+r"(sums[36]), "+r"(sums[37]), "+r"(sums[38]), "+r"(sums[39]), "+r"(sums[40]), "+r"(sums[41]),
        "+r"(sums[42]), "+r"(sums[43]), "+r"(sums[44]), "+r"(sums[45]), "+r"(sums[46]), "+r"(sums[47])
      : "l"(a), "l"(b), "r"(accumulate));
}

template <>
__device__ inline void wgmma_m64k32_s8<128>(int* sums, std::uint64_t a, std::uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "
      "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, accumulate;\n}"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]), "+r"(sums[6]),
        "+r"(sums[7]), "+r"(sums[8]), "+r"(sums[9]), "+r"(sums[10]), "+r"(sums[11]), "+r"(sums[12]), "+r"(sums[13]),
        "+r"(sums[14]), "+r"(sums[15]), "+r"(sums[16]), "+r"(sums[17]), "+r"(sums[18]), "+r"(sums[19]), "+r"(sums[20]),
        "+r"(sums[21]), "+r"(sums[22]), "+r"(sums[23]), "+r"(sums[24]), "+r"(sums[25]), "+r"(sums[26]), "+r"(sums[27]),
        "+r"(sums[28]), "+r"(sums[29]), "+r"(sums[30]), "+r"(sums[31]), "+r"(sums[32]), "+r"(sums[33]), "+r"(sums[34]),
        "+r"(sums[35]), "+r"(sums[36]), "+r"(sums[37]), "+r"(sums[38]), "+r"(sums[39]), "+r"(sums[40]), "+r"(sums[41]),
        "+r"(sums[42]), "+r"(sums[43]), "+r"(sums[44]), "+r"(sums[45]), "+r"(sums[46]), "+r"(sums[47]), "+r"(sums[48]),
        "+r"(sums[49]), "+r"(sums[50]), "+r"(sums[51]), "+r"(sums[52]), "+r"(sums[53]), "+r"(sums[54]), "+r"(sums[55]),
        "+r"(sums[56]), "+r"(sums[57]), "+r"(sums[58]), "+r"(sums[59]), "+r"(sums[60]), "+r"(sums[61]), "+r"(sums[62]),
        "+r"(sums[63])
      : "l"(a), "l"(b), "r"(accumulate));
}

// For the compiler: what reads the sums of a product that has been waited for comes after this, as in CUTLASS.
template <int kCount>
__device__ inline void warpgroup_fence_operand(int (&sums)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(sums[i])::"memory");
}

}  // namespace reprofuse::cuda::ptx
