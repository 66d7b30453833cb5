#include "kernels/vendor/libraries.hpp"

#include <dlfcn.h>

#include <string_view>

#include "base/check.hpp"

namespace reprofuse::vendor {
namespace {

// A function of a library that was opened at run time.
template <typename Function>
Function* find_symbol(std::string_view library_name, void* library, const char* name) {
  void* symbol = dlsym(library, name);
  if (symbol == nullptr) fail(ErrorCode::kUnsupported, "{} has no {}", library_name, name);
  return reinterpret_cast<Function*>(symbol);
}

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

namespace {

constexpr const char* kLibraries[] = {"libcublas.so.13", "libcublas.so.12"};

// The C interface, as cublas_api.h and library_types.h declare it.
constexpr int kCublasPlain = 0, kCublasTransposed = 1;  // cublasOperation_t
constexpr int kTypeF32 = 0, kTypeBf16 = 14;             // cudaDataType_t
constexpr int kComputeF32 = 68, kComputeTf32 = 77;      // CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32
constexpr int kDefaultAlgorithm = -1;                   // CUBLAS_GEMM_DEFAULT
constexpr int kMajor = 0, kMinor = 1, kPatch = 2;       // libraryPropertyType_t
using Create = int(void** handle);
using Destroy = int(void* handle);
using SetStream = int(void* handle, void* stream);
using SetWorkspace = int(void* handle, void* workspace, std::size_t bytes);
using GetProperty = int(int which, int* value);
using GemmEx = int(void* handle, int transpose_a, int transpose_b, int m, int n, int k, const void* alpha,
                   const void* a, int type_a, int lda, const void* b, int type_b, int ldb, const void* beta, void* c,
                   int type_c, int ldc, int compute, int algorithm);

void check(int status, const char* call) {
  if (status != 0) fail(ErrorCode::kDevice, "{} failed with cuBLAS status {}", call, status);
}

void* open_library() {
  for (const char* name : kLibraries)
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  fail(ErrorCode::kUnsupported, "{} cannot be loaded ({}); it comes with the CUDA toolkit, in the package libcublas",
       kLibraries[0], dlerror());
}

}  // namespace

void Cublas::CloseLibrary::operator()(void* library) const {
  dlclose(library);
}

void Cublas::DestroyHandle::operator()(void* handle) const {
  find_symbol<Destroy>("cuBLAS", library, "cublasDestroy_v2")(handle);
}

Cublas::Cublas() : library_(open_library()), handle_(nullptr, {library_.get()}) {
  void* handle = nullptr;
  check(find_symbol<Create>("cuBLAS", library_.get(), "cublasCreate_v2")(&handle), "cublasCreate");
  handle_.reset(handle);
}

// Row-major y = x · wᵀ is column-major yᵀ = w · xᵀ, with w stored transposed. A new stream takes the scratch away,
// so both are set for each product. One row has no stride, but cuBLAS wants one that holds it.
void Cublas::gemm(const DeviceMatrix& x, const DeviceMatrix& w, void* y, std::int64_t y_stride, int type, int compute,
                  const Queue& queue) const {
  const float one = 1.0F, zero = 0.0F;
  const auto m = static_cast<int>(x.rows), n = static_cast<int>(w.rows), k = static_cast<int>(x.cols);
  const auto w_step = static_cast<int>(n > 1 ? w.stride : w.cols);
  const auto x_step = static_cast<int>(m > 1 ? x.stride : x.cols);
  const auto y_step = static_cast<int>(m > 1 ? y_stride : w.rows);
  std::lock_guard lock(mutex_);
  check(find_symbol<SetStream>("cuBLAS", library_.get(), "cublasSetStream_v2")(handle_.get(), queue.stream),
        "cublasSetStream");
  check(find_symbol<SetWorkspace>("cuBLAS", library_.get(), "cublasSetWorkspace_v2")(handle_.get(), queue.scratch,
                                                                                     kScratchBytes),
        "cublasSetWorkspace");
  check(find_symbol<GemmEx>("cuBLAS", library_.get(), "cublasGemmEx")(
            handle_.get(), kCublasTransposed, kCublasPlain, n, m, k, &one, w.data, type, w_step, x.data, type, x_step,
            &zero, y, type, y_step, compute, kDefaultAlgorithm),
        "cublasGemmEx");
}

void Cublas::sgemm(ConstMatrix x, const DeviceMatrix& w, Matrix y, const Queue& queue) const {
  gemm({x.data, x.rows, x.cols, x.stride}, w, y.data, y.stride, kTypeF32, kComputeF32, queue);
}

void Cublas::tf32(ConstMatrix x, const DeviceMatrix& w, Matrix y, const Queue& queue) const {
  gemm({x.data, x.rows, x.cols, x.stride}, w, y.data, y.stride, kTypeF32, kComputeTf32, queue);
}

void Cublas::bf16(const DeviceMatrix& x, const DeviceMatrix& w, void* y, const Queue& queue) const {
  gemm(x, w, y, w.rows, kTypeBf16, kComputeF32, queue);
}

std::string Cublas::description() const {
  int version[3] = {};
  for (const int which : {kMajor, kMinor, kPatch})
    check(find_symbol<GetProperty>("cuBLAS", library_.get(), "cublasGetProperty")(which, &version[which]),
          "cublasGetProperty");
  return fmt::format("cuBLAS {}.{}.{}", version[0], version[1], version[2]);
}

}  // namespace reprofuse::vendor
