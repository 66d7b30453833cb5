// What a linear layer is to its callers: how it is made, what a call gives it, and what comes back. The other
// operations have their interfaces in backend.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "kernels/op_calls.hpp"
#include "reprofuse/linear.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::kernels {

struct LinearCall {
  ConstMatrix x;                          // [m, k]
  std::span<const LinearOutput> outputs;  // one per weight, checked against the weights
  void* workspace = nullptr;
  void* stream = nullptr;  // unused where work is not asynchronous
};

// The op whose result is x, where it is yet to run.
struct Producer {
  std::variant<RmsNormCall, SiluGateCall> call;
  unsigned op = 0;       // of a norm: identifies it in a record
  bool keeps_x = false;  // someone watches: x is to be written as floats, too

  Matrix x() const {
    return std::visit([](const auto& one) { return one.y; }, call);
  }
};

// Weights made ready for one backend. run() may be called by several threads at a time, each with its own workspace.
class PreparedLinear {
 public:
  virtual ~PreparedLinear() = default;
  virtual std::size_t workspace_bytes(std::int64_t max_m) const = 0;
  // Returns the first non-finite result, by row and then column over the concatenated outputs; where work is
  // asynchronous it is recorded in the workspace instead.
  virtual std::optional<NonFinite> run(const LinearCall& call) const = 0;
  // The op that makes call.x and then run(), where the op can leave x in the form in which the layer multiplies it.
  // False: it cannot, and nothing has run.
  virtual bool run_fused(const Producer&, const LinearCall&) const { return false; }
  virtual std::string implementation() const = 0;  // what really ran: "avx512", "cuda sm_90"
};

// A linear layer to be made: what error messages and records call it, and what it may do with its weights.
struct LayerOptions {
  std::string_view name;
  unsigned op = 0;  // its place among the ops of a context, for the record of non-finite results
  WeightUse use = WeightUse::kRead;
};

}  // namespace reprofuse::kernels
