// Instructions of compute capability 9.0 that CUDA C++ has no words for: barriers that count bytes, copies by the copy
// engine, clusters, and integer products of a warp group, which alone need sm_90a.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace reprofuse::cuda::hopper {

__device__ inline std::uint32_t shared_address(const void* shared) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
}

// A barrier's phases are counted by parity: wait_phase(b, 0) returns once its first phase is complete.
__device__ inline void init_barrier(std::uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals));
}

__device__ inline void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Arrives, and lets the phase wait for that many bytes of copies besides.
__device__ inline void arrive_expecting(std::uint64_t* barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}

// What threads of this block wrote before they arrived, and what copies brought, can be read after.
__device__ inline void wait_phase(std::uint64_t* barrier, std::uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra ready;\n"
      "bra again;\n"
      "ready:\n}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// The same for a barrier that other blocks of the cluster send to: what they sent can be read after.
__device__ inline void wait_phase_of_cluster(std::uint64_t* barrier, std::uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@done bra ready;\n"
      "bra again;\n"
      "ready:\n}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// Contiguous bytes from global to shared memory, counted by the barrier; both ends and the size are multiples of 16.
__device__ inline void copy_bytes(void* shared, const void* global, std::uint32_t bytes, std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
      "bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(shared)),
      "l"(global), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

// Contiguous bytes of global memory on their way to the L2; nothing is read yet.
__device__ inline void prefetch_bytes(const void* global, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(global), "r"(bytes));
}

// What a thread wrote to shared memory comes before what copies will bring there.
__device__ inline void fence_before_copies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// A box of a matrix that a tensor map describes: `column` and `row` are its first. What lies outside is zero.
__device__ inline void copy_box(void* shared, const CUtensorMap* map, int column, int row, std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_"
      "tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(shared_address(shared)),
      "l"(reinterpret_cast<std::uint64_t>(map)), "r"(shared_address(barrier)), "r"(column), "r"(row)
      : "memory");
}

// A warp group gives registers back, or takes more: the number that each of its threads has from here on.
template <int kRegisters>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// The first kThreads threads of a block.
template <int kThreads>
__device__ inline void sync_consumers() {
  asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
}

// Every thread of every block of the cluster; what they wrote to shared memory before can be read after.
__device__ inline void sync_cluster() {
  __syncwarp();
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait."
      "acquire.aligned;" ::
          : "memory");
}

// A place in the shared memory of another block of the cluster.
__device__ inline std::uint32_t address_in_block(const void* shared, std::uint32_t rank) {
  std::uint32_t address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(shared)), "r"(rank));
  return address;
}

// Two words at the same place in another block's shared memory.
__device__ inline longlong2 load_of_block(const long long* shared, std::uint32_t rank) {
  longlong2 value;
  asm volatile("ld.shared::cluster.v2.s64 {%0, %1}, [%2];"
               : "=l"(value.x), "=l"(value.y)
               : "r"(address_in_block(shared, rank))
               : "memory");
  return value;
}

// Two floats on their way to another block's shared memory, counted as 8 bytes by a barrier there.
__device__ inline void send_to_block(float* shared, std::uint32_t rank, float2 value, std::uint64_t* barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(
                   address_in_block(shared, rank)),
               "f"(value.x), "f"(value.y), "r"(address_in_block(barrier, rank))
               : "memory");
}

// Products of a warp group run beside its other work. Between fence and commit their operands must not change; what
// they read and add to is free again once at most kPending committed groups are pending.
__device__ inline void fence_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int kPending>
__device__ inline void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// An operand of 8-bit integers in shared memory as 8 x 16 byte blocks of 128 bytes each: one after another along k,
// `row_block_bytes` apart along rows. Operands n * 16 bytes on are this one plus n.
__device__ inline std::uint64_t operand_of_blocks(std::uint32_t address, int row_block_bytes) {
  return static_cast<std::uint64_t>((address & 0x3ffff) >> 4) | std::uint64_t{128 >> 4} << 16 |
         static_cast<std::uint64_t>(row_block_bytes >> 4) << 32;
}

// sums[64, kN] += a[64, 32] * b[32, kN], unsigned times signed bytes, without saturation: sums wrap, and never need to.
template <int kN>
__device__ void multiply_add(int* sums, const std::uint32_t* a, std::uint64_t b);

template <>
__device__ inline void multiply_add<8>(int* sums, const std::uint32_t* a, std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.s8 "
      "{%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, %8, 1;"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

template <>
__device__ inline void multiply_add<16>(int* sums, const std::uint32_t* a, std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n16k32.s32.u8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7}, "
      "{%8, %9, %10, %11}, %12, 1;"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]), "+r"(sums[6]),
        "+r"(sums[7])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

template <>
__device__ inline void multiply_add<24>(int* sums, const std::uint32_t* a, std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n24k32.s32.u8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11}, "
      "{%12, %13, %14, %15}, %16, 1;"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]), "+r"(sums[6]),
        "+r"(sums[7]), "+r"(sums[8]), "+r"(sums[9]), "+r"(sums[10]), "+r"(sums[11])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

template <>
__device__ inline void multiply_add<32>(int* sums, const std::uint32_t* a, std::uint64_t b) {
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
__device__ inline void multiply_add<48>(int* sums, const std::uint32_t* a, std::uint64_t b) {
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
__device__ inline void multiply_add<64>(int* sums, const std::uint32_t* a, std::uint64_t b) {
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

}  // namespace reprofuse::cuda::hopper
