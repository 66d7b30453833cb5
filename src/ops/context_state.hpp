// What a Context handle shares, and the names of devices.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "kernels/backend.hpp"
#include "ops/contract.hpp"
#include "ops/op_registry.hpp"
#include "reprofuse/context.hpp"

namespace reprofuse {

// Attention and elementwise schemes are resolved into operations here, once; the linear scheme when a layer is made.
struct ContextState {
  std::shared_ptr<const kernels::Backend> backend;
  const Numerics* numerics;
  std::unique_ptr<const kernels::Elementwise> elementwise;
  std::unique_ptr<const kernels::Attention> attention;
  mutable OpRegistry ops;
};

// A context of any backend and numerics, also of such as no table lists. The row must outlive it.
Context make_context(std::shared_ptr<const kernels::Backend> backend, const Numerics& numerics);

// The names of devices: "cpu", "cuda" or, of several GPUs, "cuda:1". Read here and nowhere else.
struct DeviceName {
  const kernels::BackendRow* backend;
  int ordinal = 0;
};

// Throws kUnsupported, listing what there is. That the machine has such a device is found out when it is opened.
DeviceName parse_device(std::string_view text);

std::string device_names();  // "cpu, cuda, cuda:N"

}  // namespace reprofuse
