// Attention by contracts int16-1 and exact-2 on the GPU for tests: pages in the order of its kernels, and the ways in
// which it can be cut, each against the reference.
#pragma once

#include "kernels/cuda/attention/integer/attention.hpp"
#include "kernels/cuda/attention/integer/params.hpp"
#include "ops/attention_integer_case.hpp"
#include "support/model_ops_cuda_case.hpp"

namespace reprofuse {

using cuda::AttentionPhases;
using cuda::DecodeBy;
using IntegerSchedule = cuda::integer_attention::Schedule;

inline constexpr IntegerSchedule kIntegerSchedules[] = {
    {AttentionPhases::kDecode, 1},
    {AttentionPhases::kDecode, 2},
    {AttentionPhases::kDecode, 3, true},
    {AttentionPhases::kDecode, 1000},
    {AttentionPhases::kPrefill},
    {AttentionPhases::kBoth, 2},
    {AttentionPhases::kPrefill, 1, false, true},
    {AttentionPhases::kBoth, 1, false, true},
    {AttentionPhases::kDecode, 1, false, false, DecodeBy::kStream},
    {AttentionPhases::kDecode, 2, false, false, DecodeBy::kStream},
    {AttentionPhases::kDecode, 1000, true, false, DecodeBy::kStream},
    {AttentionPhases::kBoth, 3, false, true, DecodeBy::kStream},
    {AttentionPhases::kDecode, 1, false, false, DecodeBy::kCluster},
    {AttentionPhases::kBoth, 1, false, false, DecodeBy::kCluster}};

inline std::string name_of(const IntegerSchedule& schedule) {
  constexpr const char* kNames[] = {"decode", "prefill", "both"};
  constexpr const char* kDecodeNames[] = {"", " stream", " cluster"};
  return std::string(kNames[static_cast<int>(schedule.phases)]) + kDecodeNames[static_cast<int>(schedule.decode)] +
         " splits " + std::to_string(schedule.splits) + (schedule.small_merge ? " small merge" : "") +
         (schedule.wgmma ? " wgmma" : "");
}

// The pages of an IntegerCase in the order of the GPU's kernels, both ways.
class IntegerDevicePages {
 public:
  explicit IntegerDevicePages(IntegerCase& data)
      : host_(data.pages()), positions_(data.positions()), digits_(static_cast<std::size_t>(data.digits())) {
    const std::size_t bytes = digits_ * elements();
    std::vector<std::int8_t> keys(bytes), values(bytes);
    for_each_element(
        [&](const reference::KvPlace& place, std::int64_t from, std::size_t to, std::size_t plane, bool key) {
          std::int32_t x = reference::load_integer(key ? host_.keys : host_.values, data.digits(), place, from);
          for (std::size_t digit = digits_ - 1; digit > 0; --digit) {
            (key ? keys : values)[to + digit * plane] = static_cast<std::int8_t>(lowest_digit(x));
            x = upper_digits(x);
          }
          (key ? keys : values)[to] = static_cast<std::int8_t>(x);
        });
    keys_ = upload(keys.data(), bytes);
    values_ = upload(values.data(), bytes);
    key_units_ = upload(host_.key_units, positions_);
    value_units_ = upload(host_.value_units, positions_);
  }

  kernels::KvPages pages() const {
    kernels::KvPages pages = host_;
    pages.keys = keys_.as<void>();
    pages.values = values_.as<void>();
    pages.key_units = key_units_.as<void>();
    pages.value_units = value_units_.as<void>();
    return pages;
  }
  void fetch() const {
    const std::size_t bytes = digits_ * elements();
    std::vector<std::int8_t> keys(bytes), values(bytes);
    cuda::copy_to_host(keys.data(), keys_.as<void>(), bytes);
    cuda::copy_to_host(values.data(), values_.as<void>(), bytes);
    for_each_element(
        [&](const reference::KvPlace& place, std::int64_t to, std::size_t from, std::size_t plane, bool key) {
          std::int32_t x = 0;
          for (std::size_t digit = 0; digit < digits_; ++digit)
            x = 256 * x + (key ? keys : values)[from + digit * plane];
          reference::store_integer(key ? host_.keys : host_.values, static_cast<int>(digits_), place, to, x);
        });
    cuda::copy_to_host(host_.key_units, key_units_.as<void>(), positions_);
    cuda::copy_to_host(host_.value_units, value_units_.as<void>(), positions_);
  }

 private:
  std::size_t elements() const { return positions_ * static_cast<std::size_t>(host_.head_dim); }

  // Calls visit(place, that of the integer on the host, of its first digit, bytes to the next one, whether it is a
  // key).
  template <class Visit>
  void for_each_element(const Visit& visit) const {
    const std::int32_t dims = host_.head_dim, size = host_.page_size;
    const cuda::integer_attention::HeadPage order{dims, size};
    for (std::size_t head = 0; head < positions_ / static_cast<std::size_t>(size); ++head) {
      const std::size_t first = head * static_cast<std::size_t>(dims * size);
      for (std::int32_t slot = 0; slot < size; ++slot)
        for (std::int32_t d = 0; d < dims; ++d) {
          const reference::KvPlace place{static_cast<std::int64_t>(first), slot, size, dims};
          const auto visit_at = [&](std::int64_t host, int device, bool key) {
            visit(place, host, digits_ * first + static_cast<std::size_t>(device),
                  static_cast<std::size_t>(order.plane_bytes()), key);
          };
          visit_at(place.paired_key(d), order.key(slot, d), true);
          visit_at(place.paired_value(d), order.value(slot, d), false);
        }
    }
  }

  kernels::KvPages host_;
  std::size_t positions_;
  std::size_t digits_;
  cuda::DeviceBuffer keys_, values_, key_units_, value_units_;
};

// Where bits differ: how many, and the first of them.
inline std::string wrong_elements(Rows& got, Rows& expected) {
  const Matrix a = got.view(), b = expected.view();
  std::int64_t count = 0;
  std::string list;
  for (std::int64_t m = 0; m < a.rows; ++m)
    for (std::int64_t i = 0; i < a.cols; ++i) {
      const float x = a.data[m * a.stride + i], y = b.data[m * b.stride + i];
      if (std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y)) continue;
      if (++count <= 12)
        list += " [" + std::to_string(m) + ", " + std::to_string(i) + "] " + std::to_string(x) + " not " +
                std::to_string(y);
    }
  return std::to_string(count) + " of " + std::to_string(a.rows * a.cols) + " differ:" + list;
}

class AttentionIntegerCuda : public ModelOpsCuda, public ::testing::WithParamInterface<int> {
 protected:
  static int digits() { return GetParam(); }

  // A case on the device.
  struct OnDevice {
    DeviceKv kv;
    IntegerDevicePages pages;
    DeviceRows q;

    explicit OnDevice(IntegerCase& data) : kv(data.kv()), pages(data), q(data.queries()) {}
    kernels::AttentionCall call(const kernels::AttentionCall& host, const DeviceRows& out) const {
      kernels::AttentionCall call = host;
      call.q = q.const_view();
      call.out = out.view();
      call.batch = kv.batch();
      call.kv = pages.pages();
      return call;
    }
  };

  bool can_run(const IntegerSchedule& schedule, const kernels::AttentionCall& call) const {
    if (schedule.wgmma && !cuda::integer_attention::has_wgmma(site(), call, digits())) return false;
    if (schedule.decode == DecodeBy::kCluster)
      return cuda::integer_attention::clusters_at_once(site(), call, digits()) > 0;
    return schedule.decode == DecodeBy::kDirect || cuda::integer_attention::can_stream(site(), call, digits());
  }

  // By the kernels of its own choice, and by every schedule that can run.
  void expect_reference_bits(IntegerCase& data) {
    Rows expected = data.expected(), out = data.empty_result();
    const OnDevice device(data);
    const auto compare = [&](const auto& run, const std::string& what) {
      Rows got = data.empty_result();
      const DeviceRows device_out(got);
      run(device.call(data.call(out), device_out));
      ASSERT_EQ(describe(failure()), "none") << what;
      device_out.fetch(got);
      ASSERT_TRUE(same_bits(got, expected)) << what << ": " << wrong_elements(got, expected);
      ++runs_;
    };
    for (const IntegerSchedule& schedule : kIntegerSchedules)
      if (can_run(schedule, data.call(out)))
        compare(
            [&](const kernels::AttentionCall& call) {
              cuda::integer_attention::attention_with(site(), call, schedule, digits());
            },
            name_of(schedule));
    compare([&](const kernels::AttentionCall& call) { cuda::integer_attention::attention(site(), call, digits()); },
            "chosen");
  }

  int runs_ = 0;
};

}  // namespace reprofuse
