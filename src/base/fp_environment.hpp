// The floating-point state the contracts assume: round to nearest even, subnormals kept, no traps.
// A host process may have set something else (a fast-math library at load, an audio plug-in, a rounding experiment).
#pragma once

#include <cstdint>

namespace reprofuse {

// Pins the calling thread's state for its lifetime, then gives the caller's state back.
class FpEnvironment {
 public:
  FpEnvironment();
  ~FpEnvironment();
  FpEnvironment(const FpEnvironment&) = delete;
  FpEnvironment& operator=(const FpEnvironment&) = delete;

  bool was_pinned() const { return was_pinned_; }  // the caller's state already was the contract's

 private:
  std::uint64_t saved_ = 0;
  bool was_pinned_ = true;
};

}  // namespace reprofuse
