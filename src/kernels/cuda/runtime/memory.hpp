// Memory on a device, and the record of non-finite results at the start of every workspace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "kernels/linear.hpp"

namespace reprofuse::cuda {

std::int64_t free_bytes(int ordinal);

void* allocate(int ordinal, std::size_t bytes);
void* allocate_workspace(int ordinal, std::size_t bytes);  // with its record reset
void release(void* pointer) noexcept;
void copy_to_device(void* to, const void* from, std::size_t bytes);
void copy_to_host(void* to, const void* from, std::size_t bytes);

using kernels::kWorkspaceAlignment;
using kernels::OpPlace;
inline constexpr std::size_t kWorkspaceHead = kWorkspaceAlignment;  // bytes at the start that hold the record

void reset_record(int ordinal, void* workspace, void* stream);
std::optional<OpPlace> take_record(int ordinal, void* workspace, void* stream);  // waits for the stream

// The workspace's record of the first non-finite result: one 64-bit word, op then row then column, kept as a minimum.
// An integer minimum does not depend on the order in which threads report.
using Record = unsigned long long;

inline constexpr Record kNothingRecorded = ~Record{0};
inline constexpr int kPlaceBits = 24;                                    // of a row or a column
inline constexpr std::int64_t kMaxRows = std::int64_t{1} << kPlaceBits;  // calls have fewer rows

inline OpPlace unpack(Record record) {
  constexpr Record kMask = (Record{1} << kPlaceBits) - 1;
  return {.op = static_cast<unsigned>(record >> (2 * kPlaceBits)),
          .place = {.row = static_cast<std::int64_t>(record >> kPlaceBits & kMask),
                    .column = static_cast<std::int64_t>(record & kMask)}};
}

// Owned memory on a CUDA device, for tests and benches that drive kernels themselves.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(int ordinal, std::size_t bytes) : data_(allocate(ordinal, bytes)) {}
  ~DeviceBuffer() {
    if (data_ != nullptr) release(data_);
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }

  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
};

}  // namespace reprofuse::cuda
