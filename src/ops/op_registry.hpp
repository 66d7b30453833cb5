// The operations of a context by their indices, and errors that name one.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/op_calls.hpp"
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
class OpRegistry {
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

// A layer's place among the ops of its context, given back when the layer goes.
class RegisteredOp {
 public:
  RegisteredOp(const Context& context, std::string name, std::vector<std::int64_t> columns,
               OpKind kind = OpKind::kLinear);
  ~RegisteredOp();
  RegisteredOp(RegisteredOp&& other) noexcept
      : context_(std::exchange(other.context_, std::nullopt)), index_(other.index_) {}
  RegisteredOp& operator=(RegisteredOp&&) = delete;

  unsigned index() const { return index_; }

 private:
  std::optional<Context> context_;  // none: moved from
  unsigned index_;
};

// For an op whose failures are recorded by its index; none where run() itself returns them, so that such a
// context may hold any number of ops.
std::optional<RegisteredOp> register_op(const Context& context, const std::string& name,
                                        const std::vector<std::int64_t>& columns, OpKind kind = OpKind::kLinear);

}  // namespace reprofuse
