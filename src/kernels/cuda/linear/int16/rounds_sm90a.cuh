// What the kernel of two rounds is made of: sizes, slots in shared memory, how planes of digits reach them, sums.
#pragma once

#include "kernels/cuda/linear/int16/wgmma_sums_sm90a.cuh"
#include "kernels/cuda/ptx/sm90.cuh"

namespace reprofuse::cuda::int16 {

// A slot holds one digit of a k-tile: of the weight rows, then of the rows of x.
struct Rounds {
  using Row = int16::Row;
  static constexpr bool kPersistent = false;
  static constexpr int kTileM = 128, kTileN = kPreparedRows, kWarpgroups = 2;
  static constexpr int kMathThreads = kWarpgroups * kWarpgroup, kThreads = kMathThreads + kWarpgroup;
  static constexpr int kMathRegisters = 232, kProducerRegisters = 40;
  static_assert(can_move_registers(kMathThreads, kMathRegisters, kWarpgroup, kProducerRegisters, 1));
  static constexpr int kPlaneBytes = kTileM * kTileK, kSlotBytes = 2 * kPlaneBytes;
  static_assert(kTileM == kTileN, "the planes of both operands are alike");
  // High digits of a block stay until its second round; low ones pass by.
  static constexpr int kHighSlots = kBlockTiles, kMidSlots = 3, kSlots = kHighSlots + kMidSlots;
  static constexpr int kSumPitch = sum_pitch(kTileN);  // of the sums that a CTA shows its cluster
  static_assert(kTileM * kSumPitch * 8 <= kSlots * kSlotBytes, "the sums take the place of the slots");
};

// What a CTA has in shared memory besides the slots.
struct RoundsSharedState {
  std::uint64_t barriers[2 * Rounds::kSlots];
  int factors[Rounds::kMidSlots][Rounds::kTileM];
  Row rows[Rounds::kTileM];
  std::uint8_t exponents[Rounds::kTileN];
};

struct RoundsShared {
  static constexpr int kSlotsBytes = Rounds::kSlots * Rounds::kSlotBytes;
  static constexpr int kBytes = kSlotsBytes + static_cast<int>(sizeof(RoundsSharedState));
  static_assert(fits_shared(kBytes, 1, kSmSharedBytesSm90));

  unsigned char* memory;

  __device__ explicit RoundsShared(unsigned char* shared) : memory(shared) {}
  __device__ unsigned char* high(int slot) const { return memory + slot * Rounds::kSlotBytes; }
  __device__ unsigned char* mid(int slot) const { return high(Rounds::kHighSlots + slot); }
  __device__ RoundsSharedState& state() const { return *reinterpret_cast<RoundsSharedState*>(memory + kSlotsBytes); }
  __device__ ptx::Pipeline highs() const { return {state().barriers, Rounds::kSlots}; }
  __device__ ptx::Pipeline mids() const { return {state().barriers, Rounds::kSlots, Rounds::kHighSlots}; }
};

// Where a warpgroup stands in the rings of slots.
struct RoundsState {
  ptx::PipelineState high, mid;
};

// One digit of the CTA's k-tiles, by one thread.
template <int kDigit>
__device__ inline void load_planes(const Params& p, const TileScheduler<Rounds>& scheduler,
                                   const RoundsShared& shared) {
  constexpr int kSlots = kDigit == 0 ? Rounds::kHighSlots : Rounds::kMidSlots, kPlane = Rounds::kPlaneBytes;
  constexpr int kFactorBytes = kDigit == 0 ? 0 : Rounds::kTileM * static_cast<int>(sizeof(int));
  const ptx::Pipeline pipeline = kDigit == 0 ? shared.highs() : shared.mids();
  const Tile tile = scheduler.at(0);
  const auto slot_of = [&](int slot) { return kDigit == 0 ? shared.high(slot) : shared.mid(slot); };
  const auto load_weights = [&](int slot, int k_tile) {
    std::uint64_t* full = pipeline.full_barrier(slot);
    ptx::mbarrier_arrive_expect_tx(full, Rounds::kSlotBytes + kFactorBytes);
    ptx::tma_load_bulk(slot_of(slot), prepared_weights(p, tile, k_tile) + kDigit * kPlane, kPlane, full);
  };
  const auto load_digits = [&](int slot, int k_tile) {
    std::uint64_t* full = pipeline.full_barrier(slot);
    const std::uint8_t* from =
        p.digits + (static_cast<std::int64_t>(tile.row_tile) * p.k_tiles + k_tile) * tile_bytes(Rounds::kTileM);
    ptx::tma_load_bulk(slot_of(slot) + kPlane, from + kDigit * kPlane, kPlane, full);
    if constexpr (kDigit == 1)
      ptx::tma_load_bulk(shared.state().factors[slot], from + digit_bytes(Rounds::kTileM), kFactorBytes, full);
  };
  // Prologue: weights that were digits before this launch are on their way before the digits of x are known.
  if (!p.digits_in_place) wait_for_previous_kernel();
  const int count = scheduler.end - scheduler.begin, ahead = min(kSlots, count);
  for (int i = 0; i < ahead; ++i) load_weights(i, scheduler.begin + i);
  wait_for_previous_kernel();
  for (int i = 0; i < ahead; ++i) load_digits(i, scheduler.begin + i);

  // Main loop
  for (int filled = ahead; filled < count; ++filled) {
    const auto at = ptx::PipelineState::of_producer(filled, kSlots);
    pipeline.wait_empty(at);
    load_weights(at.stage, scheduler.begin + filled);
    load_digits(at.stage, scheduler.begin + filled);
  }
}

// What a thread has of a tile: sums of one block of terms, and totals of those before.
struct RoundSums {
  static constexpr int kOne = Rounds::kTileM / 2;
  int sums[kOne];
  long long totals[kOne] = {};

  // The sums of high digits to their place, once their products are complete.
  __device__ void shift() {
    ptx::wgmma_settled(sums);
#pragma unroll
    for (int& sum : sums) sum <<= 8;
  }
  // The sums of a block go to the totals.
  __device__ void finish(const int* factors, int lane) {
    ptx::wgmma_settled(sums);
#pragma unroll
    for (int i = 0; i < kOne; i += 4) {
      const int2 factor = *reinterpret_cast<const int2*>(factors + i / 4 * 8 + lane % 4 * 2);
#pragma unroll
      for (int j = i; j < i + 4; ++j) totals[j] += static_cast<long long>(sums[j]) * (j % 2 == 0 ? factor.x : factor.y);
    }
  }
  __device__ long long of(int i) const {
    return totals[i];
  }
};
static_assert(sizeof(RoundSums) / 4 + 32 <= Rounds::kMathRegisters,
              "sums, totals and some 32 registers of descriptors and states must fit");

}  // namespace reprofuse::cuda::int16
