// The C ABI: unpack the C structs, call the C++ API, nothing else.
#include <optional>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "capi/boundary.hpp"
#include "reprofuse/reprofuse.h"
#include "reprofuse/reprofuse.hpp"

using reprofuse::Context;
using reprofuse::require;
using reprofuse::capi::guarded;

struct reprofuse_context {
  Context context;
  std::string description;
};

struct reprofuse_linear {
  reprofuse::LinearLayer layer;
  std::string implementation;
  std::int64_t k;
  std::vector<std::int64_t> n;  // of each output
};

namespace {

std::string_view numerics_or_default(const char* numerics) {
  return numerics == nullptr ? reprofuse::kDefaultNumerics : std::string_view(numerics);
}

std::optional<reprofuse::Isa> isa_or_best(const char* name) {
  if (name == nullptr) return std::nullopt;
  const auto isa = reprofuse::parse_isa(name);
  require(isa.has_value(), "isa '{}' does not exist; there are scalar, avx2, avx512 and neon", name);
  return isa;
}

reprofuse_context* make_context(Context context) {
  std::string description = context.description();
  return new reprofuse_context{std::move(context), std::move(description)};
}

reprofuse::WeightView view(const reprofuse_weight& weight) {
  require(weight.dtype == REPROFUSE_F32 || weight.dtype == REPROFUSE_BF16 || weight.dtype == REPROFUSE_F16,
          "dtype {} does not exist", weight.dtype);
  return {weight.data, static_cast<reprofuse::DType>(weight.dtype), weight.n, weight.k, weight.stride};
}

const Context& unwrap(const reprofuse_context* context) {
  require(context != nullptr, "the context is null");
  return context->context;
}

const reprofuse_linear& unwrap(const reprofuse_linear* linear) {
  require(linear != nullptr, "the linear layer is null");
  return *linear;
}

// Names as C strings that live as long as the library; the lists cannot change while it is loaded.
std::vector<std::string> isa_names() {
  std::vector<std::string> names;
  for (const reprofuse::Isa isa : reprofuse::supported_isas()) names.emplace_back(reprofuse::isa_name(isa));
  return names;
}

std::vector<std::string> numerics_names() {
  std::vector<std::string> names;
  for (const std::string_view name : reprofuse::numerics_names()) names.emplace_back(name);
  return names;
}

const char* name_at(const std::vector<std::string>& names, size_t index) {
  return index < names.size() ? names[index].c_str() : nullptr;
}

}  // namespace

int reprofuse_abi_version(void) {
  return REPROFUSE_ABI_VERSION;
}

const char* reprofuse_version(void) {
  return REPROFUSE_VERSION;
}

const char* reprofuse_last_error(void) {
  return reprofuse::capi::last_error();
}

const char* reprofuse_numerics_name(size_t index) {
  const char* name = nullptr;
  guarded([&] {
    static const std::vector<std::string> names = numerics_names();
    name = name_at(names, index);
  });
  return name;
}

const char* reprofuse_isa_name(size_t index) {
  const char* name = nullptr;
  guarded([&] {
    static const std::vector<std::string> names = isa_names();
    name = name_at(names, index);
  });
  return name;
}

reprofuse_status reprofuse_context_create_cpu(const char* numerics, const char* isa, int threads,
                                              reprofuse_context** context) {
  return guarded([&] {
    require(context != nullptr, "the pointer that receives the context is null");
    *context = nullptr;
    *context = make_context(Context::cpu(numerics_or_default(numerics), isa_or_best(isa), threads));
  });
}

reprofuse_status reprofuse_context_create_cuda(const char* numerics, int ordinal, reprofuse_context** context) {
  return guarded([&] {
    require(context != nullptr, "the pointer that receives the context is null");
    *context = nullptr;
    *context = make_context(Context::cuda(numerics_or_default(numerics), ordinal));
  });
}

void reprofuse_context_destroy(reprofuse_context* context) {
  delete context;
}

const char* reprofuse_context_description(const reprofuse_context* context) {
  return context == nullptr ? nullptr : context->description.c_str();
}

reprofuse_status reprofuse_linear_create(const reprofuse_context* context, const reprofuse_weight* weights,
                                         size_t count, const char* name, reprofuse_linear** linear) {
  return guarded([&] {
    require(linear != nullptr, "the pointer that receives the linear layer is null");
    *linear = nullptr;
    require(weights != nullptr || count == 0, "the array of weights is null");
    std::vector<reprofuse::WeightView> views;
    std::vector<std::int64_t> n;
    for (size_t i = 0; i < count; ++i) {
      views.push_back(view(weights[i]));
      n.push_back(weights[i].n);
    }
    reprofuse::LinearLayer layer(unwrap(context), views, name == nullptr ? "linear" : name);
    std::string implementation = layer.implementation();
    *linear = new reprofuse_linear{std::move(layer), std::move(implementation), views[0].k, std::move(n)};
  });
}

void reprofuse_linear_destroy(reprofuse_linear* linear) {
  delete linear;
}

const char* reprofuse_linear_implementation(const reprofuse_linear* linear) {
  return linear == nullptr ? nullptr : linear->implementation.c_str();
}

reprofuse_status reprofuse_linear_workspace_bytes(const reprofuse_linear* linear, int64_t max_m, size_t* bytes) {
  return guarded([&] {
    require(bytes != nullptr, "the pointer that receives the number of bytes is null");
    *bytes = unwrap(linear).layer.workspace_bytes(max_m);
  });
}

reprofuse_status reprofuse_linear_run(const reprofuse_linear* linear, const float* x, int64_t m, int64_t x_stride,
                                      const reprofuse_output* outputs, size_t count, void* workspace,
                                      size_t workspace_bytes, void* stream) {
  return guarded([&] {
    const reprofuse_linear& self = unwrap(linear);
    require(outputs != nullptr || count == 0, "the array of outputs is null");
    require(count == self.n.size(), "{} outputs for {} weights", count, self.n.size());
    std::vector<reprofuse::LinearOutput> list;
    for (size_t i = 0; i < count; ++i)
      list.push_back({.y = {outputs[i].y, m, self.n[i], outputs[i].y_stride}, .bias = outputs[i].bias});
    self.layer.run({x, m, self.k, x_stride}, list, workspace, workspace_bytes, stream);
  });
}

reprofuse_status reprofuse_workspace_reset(const reprofuse_context* context, void* workspace, size_t bytes,
                                           void* stream) {
  return guarded([&] { reprofuse::reset_workspace(unwrap(context), workspace, bytes, stream); });
}

reprofuse_status reprofuse_workspace_check(const reprofuse_context* context, void* workspace, void* stream) {
  return guarded([&] { reprofuse::check_workspace(unwrap(context), workspace, stream); });
}
