// Every failure the library reports: a code a program can act on and a message a person can. Where the host has no
// memory left it is std::bad_alloc instead, whose number in the C ABI, REPROFUSE_OUT_OF_MEMORY, is the 6 that is left
// out here.
#pragma once

#include <stdexcept>
#include <string>

#include "reprofuse/export.hpp"

namespace reprofuse {

enum class ErrorCode {
  kInvalidArgument = 1,  // a shape, stride, pointer or name that makes no sense
  kUnsupported = 2,      // what this build, machine or model lacks: a backend, a contract, a tokenizer
  kNonFinite = 3,        // a NaN or an infinity in a weight or a result; the message names the place
  kDevice = 4,           // the CUDA runtime reported an error, such as no memory on the device
  kInternal = 5,         // a broken invariant: a bug in ReproFuse
  kBusy = 7,             // a queue is full: try again later
};

class REPROFUSE_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace reprofuse
