// A checkpoint's weights, made ready for a device.
#pragma once

#include <cstdint>
#include <memory>

#include "reprofuse/checkpoint.hpp"
#include "reprofuse/context.hpp"
#include "reprofuse/export.hpp"

namespace reprofuse {

struct LoadOptions {
  std::int64_t max_positions = 0;  // the longest text to serve; 0: as the model declares
  Progress progress = {};          // of the bytes read
};

// Immutable: copies are cheap and share the weights, any number of engines may run one, and it lives as long as the
// last of its copies and engines.
class REPROFUSE_API Model {
 public:
  // Reads and packs every weight. Throws kNonFinite for a weight that is not finite, kUnsupported for a shape that the
  // device's kernels do not take, kDevice where the device has no memory for it.
  static Model load(const Context& context, const Checkpoint& checkpoint, const LoadOptions& options = {});

  const Context& context() const;
  const Checkpoint& checkpoint() const;
  std::int64_t max_positions() const;

 private:
  friend class Engine;
  struct Impl;
  explicit Model(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace reprofuse
