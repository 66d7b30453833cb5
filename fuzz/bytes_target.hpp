// A fuzz target that reads bytes as a file. Each target defines these functions, in a file of its own; a driver,
// libFuzzer or ours, feeds them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprofuse/error.hpp"

namespace reprofuse::fuzz {

using Bytes = std::vector<std::uint8_t>;

enum class Sabotage : std::uint8_t {
  kNone,
  kAlterResult,  // what was read is altered before it is checked, to prove that the check sees it
};

struct Outcome {
  bool accepted = false;                 // at least one reader took the input
  std::optional<std::string> violation;  // what a reader did that none may do
};

// Reads the input in every way the target knows. A reader may accept or throw an Error; what it accepts must satisfy
// its promises. Anything else is a violation, or a crash.
Outcome try_input(std::span<const std::uint8_t> input, Sabotage sabotage = Sabotage::kNone);

std::vector<Bytes> valid_inputs();           // to mutate; try_input accepts each
std::vector<std::string_view> dictionary();  // of tokens to insert into them
bool takes_every_input();                    // any bytes make a case; else mutations must be refused too
void repair(Bytes& input);                   // redoes what most mutations break, such as a length field

// Calls read() and turns whatever it throws into an outcome. read() returns a violation, or none.
template <typename Read>
Outcome outcome_of(Read read) {
  try {
    return {.accepted = true, .violation = read()};
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) return {.accepted = false, .violation = error.what()};
    return {};
  } catch (const std::exception& error) {
    return {.accepted = false, .violation = std::string("an exception that is no Error: ") + error.what()};
  }
}

}  // namespace reprofuse::fuzz
