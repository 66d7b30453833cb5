// The names of devices: "cpu", "cuda" or, of several GPUs, "cuda:1". Read here and nowhere else.
#pragma once

#include <string>
#include <string_view>

#include "kernels/backends.hpp"

namespace reprofuse {

struct DeviceName {
  const kernels::BackendRow* backend;
  int ordinal = 0;
};

// Throws kUnsupported, listing what there is. That the machine has such a device is found out when it is opened.
DeviceName parse_device(std::string_view text);

std::string device_names();  // "cpu, cuda, cuda:N"

}  // namespace reprofuse
