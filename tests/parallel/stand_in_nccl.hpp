// What a test asks of the stand-in for NCCL, beside NCCL's own functions.
#pragma once

extern "C" {

// From now on the call returns this on a rank; -1: on all. "async": what ncclCommGetAsyncError finds.
void stand_in_fail(const char* call, int rank, int result);
void stand_in_alter(bool alters);  // the first word of everything that arrives has another last bit
void stand_in_reset();
int stand_in_calls(const char* call);  // since the reset
}
