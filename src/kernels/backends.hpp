// The backends there are.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "kernels/backend.hpp"

namespace reprofuse::kernels {

struct BackendOptions {
  int ordinal = 0;         // of devices that are counted
  std::optional<Isa> isa;  // of a CPU: forced, or the best this machine has
  int threads = 0;         // of a CPU: 0 takes every core available to the process
};

struct BackendRow {
  std::string_view name;
  std::string_view description;
  bool counted;  // there may be several: "cuda:1"
  bool threads;  // takes BackendOptions::isa and threads
  // Throws kUnsupported, with the reason, where the build or the machine has no such device.
  std::shared_ptr<const Backend> (*open)(const BackendOptions& options);
};

std::span<const BackendRow> backends();

}  // namespace reprofuse::kernels
