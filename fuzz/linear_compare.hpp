// Computes a drawn case with every implementation there is and compares each with the reference bit for bit.
#pragma once

#include <optional>
#include <string>

#include "linear_case.hpp"

namespace reprofuse::fuzz {

enum class Sabotage {
  kNone,
  kFlipBit,  // one bit of each implementation's result is flipped, to prove that the comparison sees it
};

struct Comparison {
  bool non_finite;                        // the reference overflows, so every implementation must refuse
  std::optional<std::string> difference;  // which implementation, how many, where, both words, all parameters
};

Comparison compare_implementations(const LinearCase& drawn, Sabotage sabotage = Sabotage::kNone);

}  // namespace reprofuse::fuzz
