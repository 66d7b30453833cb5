// What a C++ user writes: one layer, one row, and an error that is caught by its type across the library's border.
#include <cstdio>
#include <reprofuse/reprofuse.hpp>

int main() {
  try {
    const float w[] = {0.5F, 2};
    const float x[] = {8, 16};
    float y = 0;
    const auto context = reprofuse::Context::cpu();
    const reprofuse::WeightView weight{w, reprofuse::DType::kF32, 1, 2, 2};
    const reprofuse::LinearLayer layer(context, {&weight, 1});
    const reprofuse::Workspace workspace(context, layer.workspace_bytes(1));
    const reprofuse::LinearOutput output{{&y, 1, 1, 1}};
    layer.run({x, 1, 2, 2}, {&output, 1}, workspace);
    std::printf("%s: y = %g\n", context.description().c_str(), static_cast<double>(y));
    if (y != 36) return 1;
    (void)reprofuse::Context::cpu("fma-9");
  } catch (const reprofuse::Error& error) {
    std::printf("as expected: %s\n", error.what());
    return error.code() == reprofuse::ErrorCode::kUnsupported ? 0 : 1;
  }
  return 1;
}
