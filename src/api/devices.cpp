#include "reprofuse/devices.hpp"

#include "reprofuse/context.hpp"
#include "reprofuse/error.hpp"

namespace reprofuse {

std::vector<std::string> available_devices() {
  std::vector<std::string> names = {"cpu"};
  try {
    for (int ordinal = 0;; ++ordinal) {
      const std::string name = "cuda:" + std::to_string(ordinal);
      (void)Context::open(name);
      names.push_back(name);
    }
  } catch (const Error&) {  // the first that is not there
  }
  return names;
}

}  // namespace reprofuse
