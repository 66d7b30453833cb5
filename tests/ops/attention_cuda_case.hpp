// Attention on the GPU for tests: the ways in which it can be cut, each against the reference.
#pragma once

#include <functional>

#include "kernels/cuda/attention/attention.hpp"
#include "ops/attention_altered.hpp"
#include "ops/attention_case.hpp"
#include "support/model_ops_cuda_case.hpp"

namespace reprofuse {

using cuda::AttentionPhases;
using cuda::AttentionSchedule;
using cuda::DecodeBy;

inline constexpr DType kKvTypes[] = {DType::kF32, DType::kBF16};

inline constexpr AttentionSchedule kSchedules[] = {{AttentionPhases::kPrefill, 1, false, false},
                                                   {AttentionPhases::kDecode, 1, false, false},
                                                   {AttentionPhases::kDecode, 1, true, true},
                                                   {AttentionPhases::kDecode, 2, false, true},
                                                   {AttentionPhases::kDecode, 1000, false, false},
                                                   {AttentionPhases::kDecode, 1000, false, true},
                                                   {AttentionPhases::kDecode, 3, true, false, DecodeBy::kDirect, true},
                                                   {AttentionPhases::kBoth, 1, false, false},
                                                   {AttentionPhases::kBoth, 2, false, false},
                                                   {AttentionPhases::kBoth, 2, false, true},
                                                   {AttentionPhases::kDecode, 1, false, false, DecodeBy::kStream},
                                                   {AttentionPhases::kDecode, 2, false, false, DecodeBy::kStream},
                                                   {AttentionPhases::kDecode, 3, false, false, DecodeBy::kStream},
                                                   {AttentionPhases::kDecode, 1000, false, false, DecodeBy::kStream},
                                                   {AttentionPhases::kBoth, 1, false, false, DecodeBy::kStream},
                                                   {AttentionPhases::kBoth, 2, false, false, DecodeBy::kStream, true},
                                                   {AttentionPhases::kDecode, 1, false, false, DecodeBy::kCluster},
                                                   {AttentionPhases::kBoth, 1, false, false, DecodeBy::kCluster}};

inline std::string name_of(const AttentionSchedule& schedule) {
  constexpr const char* kNames[] = {"decode", "prefill", "both"};
  constexpr const char* kDecodeNames[] = {"", " stream", " cluster"};
  return std::string(kNames[static_cast<int>(schedule.phases)]) + kDecodeNames[static_cast<int>(schedule.decode)] +
         " splits " + std::to_string(schedule.splits) + (schedule.one_buffer ? " one buffer" : "") +
         (schedule.prefetch ? " prefetch" : "") + (schedule.small_merge ? " small merge" : "") +
         (schedule.stages > 0 ? " stages " + std::to_string(schedule.stages) : "");
}

class AttentionCuda : public ModelOpsCuda {
 protected:
  static kernels::AttentionCall on_device(const kernels::AttentionCall& host, const DeviceKv& kv, const DeviceRows& q,
                                          const DeviceRows& out) {
    kernels::AttentionCall call = host;
    call.q = q.const_view();
    call.out = out.view();
    call.batch = kv.batch();
    call.kv = kv.pages();
    return call;
  }

  // Not every device has the TMA and clusters, and not every shape suits them.
  bool can_run(const AttentionSchedule& schedule, const kernels::AttentionCall& call) const {
    if (schedule.decode == DecodeBy::kStream) return cuda::attention_stream_stages(site(), call) > 0;
    if (schedule.decode == DecodeBy::kCluster) return cuda::attention_clusters_at_once(site(), call) > 0;
    return true;
  }

  // By the kernels of its own choice, and by every schedule that can run.
  void expect_reference_bits(AttentionCase& data) {
    Rows expected = data.expected(), out = data.empty_result();
    const DeviceKv kv(data.kv());
    const DeviceRows q(data.queries());
    const auto compare = [&](const auto& run, const std::string& what) {
      Rows got = data.empty_result();
      const DeviceRows device_out(got);
      run(on_device(data.call(out), kv, q, device_out));
      ASSERT_EQ(describe(failure()), "none") << what;
      device_out.fetch(got);
      ASSERT_TRUE(same_bits(got, expected)) << what;
      ++runs_;
    };
    compare([&](const kernels::AttentionCall& call) { cuda::attention(site(), call); }, "chosen");
    for (const AttentionSchedule& schedule : kSchedules)
      if (can_run(schedule, data.call(out)))
        compare([&](const kernels::AttentionCall& call) { cuda::attention_with(site(), call, schedule); },
                name_of(schedule));
  }

  // Control: the comparison used above must tell other blocks, other folds and products that are rounded from what
  // `run` computes.
  void expect_only_the_contracts_order(AttentionCase& data,
                                       const std::function<void(const kernels::AttentionCall&)>& run) const {
    Rows got = data.empty_result(), altered = data.empty_result();
    const DeviceKv kv(data.kv());
    const DeviceRows q(data.queries()), out(got);
    run(on_device(data.call(got), kv, q, out));
    ASSERT_EQ(describe(failure()), "none");
    out.fetch(got);
    const auto has_order = [&](const AlteredAttention::Order& order) {
      const kernels::AttentionCall call = data.call(altered);
      AlteredAttention(call, order).run();
      return static_cast<bool>(same_bits(got, altered));
    };
    EXPECT_TRUE(has_order({}));
    for (const std::int64_t block : {32, 128, 100000}) EXPECT_FALSE(has_order({.block = block})) << block;
    EXPECT_FALSE(has_order({.fused = false}));
    EXPECT_FALSE(has_order({.merge_from_the_right = true}));
  }

  int runs_ = 0;
};

}  // namespace reprofuse
