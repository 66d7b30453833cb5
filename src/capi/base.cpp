// Errors and copies that every C function gives back; versions, names and contexts.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "capi/boundary.hpp"
#include "reprofuse/error.hpp"

namespace reprofuse::capi {
namespace {

// A fixed buffer, because a message must survive even when there is no memory left to hold it.
constexpr std::size_t kMessageBytes = 1024;
thread_local char message[kMessageBytes] = "";

reprofuse_status keep(reprofuse_status status, const char* text) noexcept {
  std::strncpy(message, text, kMessageBytes - 1);
  return status;
}

static_assert(static_cast<int>(ErrorCode::kInvalidArgument) == REPROFUSE_INVALID_ARGUMENT);
static_assert(static_cast<int>(ErrorCode::kUnsupported) == REPROFUSE_UNSUPPORTED);
static_assert(static_cast<int>(ErrorCode::kNonFinite) == REPROFUSE_NON_FINITE);
static_assert(static_cast<int>(ErrorCode::kDevice) == REPROFUSE_DEVICE);
static_assert(static_cast<int>(ErrorCode::kInternal) == REPROFUSE_INTERNAL);
static_assert(static_cast<int>(ErrorCode::kBusy) == REPROFUSE_BUSY);

}  // namespace

reprofuse_status status_of_current_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return keep(static_cast<reprofuse_status>(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    return keep(REPROFUSE_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return keep(REPROFUSE_INTERNAL, error.what());
  } catch (...) {
    return keep(REPROFUSE_INTERNAL, "an exception of unknown type");
  }
}

const char* last_error() noexcept {
  return message;
}

void* give_copy(const void* from, std::size_t bytes) {
  auto* memory = static_cast<char*>(std::malloc(bytes + 1));
  if (memory == nullptr) throw std::bad_alloc();
  if (bytes > 0) std::memcpy(memory, from, bytes);
  memory[bytes] = '\0';
  return memory;
}

void give_text(std::string_view text, char** to, std::size_t* bytes) {
  require(to != nullptr && bytes != nullptr, "a pointer that receives the text is null");
  *to = static_cast<char*>(give_copy(text.data(), text.size()));
  *bytes = text.size();
}

void give_tokens(std::span<const std::int32_t> tokens, std::int32_t** to, std::size_t* count) {
  require(to != nullptr && count != nullptr, "a pointer that receives the tokens is null");
  *to = static_cast<std::int32_t*>(give_copy(tokens.data(), tokens.size_bytes()));
  *count = tokens.size();
}

}  // namespace reprofuse::capi

using reprofuse::Context;
using reprofuse::require;
using namespace reprofuse::capi;

namespace {

std::optional<reprofuse::Isa> isa_or_best(const char* name) {
  if (name == nullptr) return std::nullopt;
  const auto isa = reprofuse::parse_isa(name);
  require(isa.has_value(), "isa '{}' does not exist; there are scalar, avx2, avx512 and neon", name);
  return isa;
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

const std::vector<std::string>& all_numerics() {
  static const std::vector<std::string> names = numerics_names();
  return names;
}

const std::vector<reprofuse::Device>& all_devices() {
  static const std::vector<reprofuse::Device> devices = reprofuse::devices();
  return devices;
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
  return last_error();
}

void reprofuse_free(void* memory) {
  std::free(memory);
}

const char* reprofuse_numerics_name(size_t index) {
  const char* name = nullptr;
  guarded([&] { name = name_at(all_numerics(), index); });
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

const char* reprofuse_device_name(size_t index) {
  const char* name = nullptr;
  guarded([&] {
    const auto& devices = all_devices();
    if (index < devices.size()) name = devices[index].name.c_str();
  });
  return name;
}

const char* reprofuse_device_problem(size_t index) {
  const char* problem = nullptr;
  guarded([&] {
    const auto& devices = all_devices();
    if (index < devices.size()) problem = devices[index].problem.c_str();
  });
  return problem;
}

reprofuse_status reprofuse_default_numerics(const char* device, const char** numerics) {
  return guarded([&] {
    const char*& to = receiver(numerics, "name");
    const std::string_view name = reprofuse::default_numerics(required_text(device, "device"));
    to = std::ranges::find(all_numerics(), name)->c_str();
  });
}

reprofuse_status reprofuse_context_options_init(reprofuse_context_options* options, size_t size) {
  return guarded([&] { init_struct(options, size, "struct of context options", [](auto&) {}); });
}

reprofuse_status reprofuse_context_create(const reprofuse_context_options* options, reprofuse_context** context) {
  return create(context, "context", [&] {
    const auto given =
        options == nullptr ? reprofuse_context_options{} : read_struct(options, "struct of context options");
    const Context made =
        Context::open(text_or(given.device, "cpu"), text_or(given.numerics, reprofuse::kDefaultNumerics),
                      isa_or_best(given.isa), given.threads);
    return new reprofuse_context{made, made.description(), made.device(), std::string(made.numerics()),
                                 std::string(made.threads() == 0 ? "" : reprofuse::isa_name(made.isa()))};
  });
}

void reprofuse_context_destroy(reprofuse_context* context) {
  delete context;
}

const char* reprofuse_context_description(const reprofuse_context* context) {
  return context == nullptr ? nullptr : context->description.c_str();
}

const char* reprofuse_context_device(const reprofuse_context* context) {
  return context == nullptr ? nullptr : context->device.c_str();
}

const char* reprofuse_context_numerics(const reprofuse_context* context) {
  return context == nullptr ? nullptr : context->numerics.c_str();
}

const char* reprofuse_context_isa(const reprofuse_context* context) {
  return context == nullptr ? nullptr : context->isa.c_str();
}

int32_t reprofuse_context_threads(const reprofuse_context* context) {
  return context == nullptr ? 0 : context->context.threads();
}

reprofuse_status reprofuse_workspace_reset(const reprofuse_context* context, void* workspace, size_t bytes,
                                           void* stream) {
  return guarded([&] { reprofuse::reset_workspace(unwrap(context, "context").context, workspace, bytes, stream); });
}

reprofuse_status reprofuse_workspace_check(const reprofuse_context* context, void* workspace, void* stream) {
  return guarded([&] { reprofuse::check_workspace(unwrap(context, "context").context, workspace, stream); });
}
