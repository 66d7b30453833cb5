// What public enums are called, and the size of a dtype.
#include "base/check.hpp"
#include "reprofuse/answer.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse {

std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "f32";
    case DType::kBF16: return "bf16";
    case DType::kF16: return "f16";
  }
  fail(ErrorCode::kInvalidArgument, "weight dtype {} does not exist", static_cast<int>(dtype));
}

std::size_t dtype_bytes(DType dtype) {
  return dtype_name(dtype) == "f32" ? 4 : 2;
}

std::string_view digest_kind_name(DigestKind kind) {
  switch (kind) {
    case DigestKind::kTree1: return "tree-1";
    case DigestKind::kChain1: return "chain-1";
    case DigestKind::kNone: break;
  }
  return "none";
}

DigestKind digest_kind_of(std::string_view name) {
  for (const DigestKind kind : {DigestKind::kNone, DigestKind::kTree1, DigestKind::kChain1})
    if (name == digest_kind_name(kind)) return kind;
  fail(ErrorCode::kInvalidArgument, "'{}' is not a kind of digest: there are tree-1 and chain-1", name);
}

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kCancelled: return "cancelled";
    case FinishReason::kError: break;
  }
  return "error";
}

}  // namespace reprofuse
