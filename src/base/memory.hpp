// How much memory there is for this process, as the system and its control groups see it.
#pragma once

#include <cstdint>

namespace reprofuse {

// What the system calls available, within the limits of the process's control groups, of which what the system keeps of
// files counts as free.
std::int64_t available_memory();

// Whether a control group, or a limit of the process's own (ulimit -v), allows it less than the system has.
bool has_memory_limit();

// From now on allocations fail before the process has more memory than its control groups leave it, if they have a
// limit. Without this the system would end a process that goes beyond it. Memory that was allocated and not touched yet
// counts as taken.
void stay_within_control_groups();

}  // namespace reprofuse
