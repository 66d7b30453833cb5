#include "kernels/vendor/openblas.hpp"

#include <dlfcn.h>

#include "base/check.hpp"
#include "kernels/vendor/find_symbol.hpp"

namespace reprofuse::vendor {
namespace {

constexpr const char* kLibrary = "libopenblas.so.0";

// The C interface, as cblas.h declares it with 32-bit indices.
enum CblasOrder { kRowMajor = 101 };
enum CblasTranspose { kCblasPlain = 111, kCblasTransposed = 112 };
using Sgemm = void(CblasOrder, CblasTranspose, CblasTranspose, int m, int n, int k, float alpha, const float* a,
                   int lda, const float* b, int ldb, float beta, float* c, int ldc);
using SetThreads = void(int);
using GetText = char*();

}  // namespace

void OpenBlas::Close::operator()(void* library) const {
  dlclose(library);
}

// Its threads poll on after a call, so the library stays mapped when the last context that uses it goes.
OpenBlas::OpenBlas(int threads) : library_(dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)), threads_(threads) {
  if (library_ == nullptr)
    fail(ErrorCode::kUnsupported, "{} cannot be loaded ({}); on Debian: apt install libopenblas0-pthread", kLibrary,
         dlerror());
}

void OpenBlas::sgemm(ConstMatrix x, const float* w, Matrix y) const {
  const auto m = static_cast<int>(x.rows);
  const auto n = static_cast<int>(y.cols);
  const auto k = static_cast<int>(x.cols);
  const auto x_stride = static_cast<int>(m > 1 ? x.stride : x.cols);  // one row has no stride
  const auto y_stride = static_cast<int>(m > 1 ? y.stride : y.cols);
  find_symbol<SetThreads>(kLibrary, library_.get(), "openblas_set_num_threads")(threads_);
  find_symbol<Sgemm>(kLibrary, library_.get(), "cblas_sgemm")(kRowMajor, kCblasPlain, kCblasTransposed, m, n, k, 1.0F,
                                                              x.data, x_stride, w, k, 0.0F, y.data, y_stride);
}

std::string OpenBlas::description() const {
  return fmt::format("{}, {} kernels", find_symbol<GetText>(kLibrary, library_.get(), "openblas_get_config")(),
                     find_symbol<GetText>(kLibrary, library_.get(), "openblas_get_corename")());
}

}  // namespace reprofuse::vendor
