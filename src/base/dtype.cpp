#include "base/check.hpp"
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

}  // namespace reprofuse
