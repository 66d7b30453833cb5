// What a Context handle shares, the names of its operations, and errors that name one.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/backend.hpp"
#include "ops/contract.hpp"
#include "reprofuse/context.hpp"
#include "reprofuse/error.hpp"

namespace reprofuse {

// What a place means: a row and a column of the outputs, a row, or a row and a head.
enum class OpKind { kLinear, kNorm, kAttention };

// kNonFinite, and the op and the place of the value.
class NonFiniteError : public Error {
 public:
  NonFiniteError(std::string op, kernels::NonFinite place, const std::string& message)
      : Error(ErrorCode::kNonFinite, message), op_(std::move(op)), place_(place) {}
  const std::string& op() const { return op_; }
  const kernels::NonFinite& place() const { return place_; }
  std::int64_t row() const { return place_.row; }

 private:
  std::string op_;
  kernels::NonFinite place_;
};

// Throws NonFiniteError: "linear 'qkv' output 1 row 3 column 17: the result is not finite".
[[noreturn]] void fail_non_finite(const std::string& name, const std::vector<std::int64_t>& columns,
                                  kernels::NonFinite place, OpKind kind = OpKind::kLinear);

// Names the ops of a context, so that a record made on a device can be told to a person.
class OpNames {
 public:
  // Takes the smallest index that is free, so that ops made in order have indices in order.
  unsigned add(std::string name, std::vector<std::int64_t> columns, OpKind kind);
  // The name stays until the index is taken again, for a record that outlives its layer. Allocates nothing: destructors
  // call it.
  void remove(unsigned op) noexcept;
  [[noreturn]] void fail_non_finite(unsigned op, kernels::NonFinite place) const;

 private:
  struct Op {
    std::string name;
    std::vector<std::int64_t> columns;  // of each output
    OpKind kind = OpKind::kLinear;
  };
  static constexpr unsigned kMaxOps = 0xffff;  // a device's record has 16 bits for the index

  mutable std::mutex mutex_;
  std::vector<Op> ops_;
  std::set<unsigned> free_, taken_;  // nodes go from one to the other
};

// Attention and elementwise schemes are resolved into operations here, once; the linear scheme when a layer is made.
struct ContextState {
  std::shared_ptr<const kernels::Backend> backend;
  const Numerics* numerics;
  std::unique_ptr<const kernels::Elementwise> elementwise;
  std::unique_ptr<const kernels::Attention> attention;
  mutable OpNames ops;
};

// A context of any backend and numerics, also of such as no table lists. The row must outlive it.
Context make_context(std::shared_ptr<const kernels::Backend> backend, const Numerics& numerics);

// A layer's place among the ops of its context, given back when the layer goes.
class OpEntry {
 public:
  OpEntry(const Context& context, std::string name, std::vector<std::int64_t> columns, OpKind kind = OpKind::kLinear)
      : context_(context), index_(context.state().ops.add(std::move(name), std::move(columns), kind)) {}
  ~OpEntry() {
    if (context_) context_->state().ops.remove(index_);
  }
  OpEntry(OpEntry&& other) noexcept : context_(std::exchange(other.context_, std::nullopt)), index_(other.index_) {}
  OpEntry& operator=(OpEntry&&) = delete;

  unsigned index() const { return index_; }

 private:
  std::optional<Context> context_;  // none: moved from
  unsigned index_;
};

// The entry of an op whose failures are recorded by its index; none where run() itself returns them, so that such a
// context may hold any number of ops.
std::optional<OpEntry> enter_op(const Context& context, const std::string& name,
                                const std::vector<std::int64_t>& columns, OpKind kind = OpKind::kLinear);

// The names of devices: "cpu", "cuda" or, of several GPUs, "cuda:1". Read here and nowhere else.
struct DeviceName {
  const kernels::BackendRow* backend;
  int ordinal = 0;
};

// Throws kUnsupported, listing what there is. That the machine has such a device is found out when it is opened.
DeviceName parse_device(std::string_view text);

std::string device_names();  // "cpu, cuda, cuda:N"

}  // namespace reprofuse
