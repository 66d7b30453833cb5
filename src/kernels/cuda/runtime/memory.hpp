// Memory on a device, and the record of non-finite results at the start of every workspace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/schemes.hpp"

namespace reprofuse::cuda {

std::int64_t free_bytes(int ordinal);

void* allocate(int ordinal, std::size_t bytes);
void* allocate_workspace(int ordinal, std::size_t bytes);  // with its record reset
void release(void* pointer) noexcept;
void copy_to_device(void* to, const void* from, std::size_t bytes);
void copy_to_host(void* to, const void* from, std::size_t bytes);

using kernels::kWorkspaceAlignment;
using kernels::OpNonFinite;
inline constexpr std::size_t kWorkspaceHead = kWorkspaceAlignment;  // bytes at the start that hold the record

void reset_record(int ordinal, void* workspace, void* stream);
std::optional<OpNonFinite> take_record(int ordinal, void* workspace, void* stream);  // waits for the stream

// The workspace's record of the first non-finite result: one 64-bit word, op then row then column, kept as a minimum.
// An integer minimum does not depend on the order in which threads report.
using Record = unsigned long long;

inline constexpr Record kNothingRecorded = ~Record{0};
inline constexpr int kPlaceBits = 24;                                    // of a row or a column
inline constexpr std::int64_t kMaxRows = std::int64_t{1} << kPlaceBits;  // calls have fewer rows

inline OpNonFinite unpack(Record record) {
  constexpr Record kMask = (Record{1} << kPlaceBits) - 1;
  return {.op = static_cast<unsigned>(record >> (2 * kPlaceBits)),
          .place = {.row = static_cast<std::int64_t>(record >> kPlaceBits & kMask),
                    .column = static_cast<std::int64_t>(record & kMask)}};
}

}  // namespace reprofuse::cuda
