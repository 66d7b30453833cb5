// Computes a drawn case by every contract of a linear layer, with every implementation there is of each, and compares
// them with that contract's reference bit for bit.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "linear_case.hpp"

namespace reprofuse::fuzz {

enum class Sabotage {
  kNone,
  kFlipBit,  // one bit of each implementation's result is flipped, to prove that the comparison sees it
};

struct Comparison {
  bool non_finite = false;               // a reference overflows, so every implementation of its contract must refuse
  std::size_t implementations = 0;       // compared, over all contracts
  std::vector<std::string> differences;  // at most one each: which, how many, where, both words, all parameters
};

Comparison compare_implementations(const LinearCase& drawn, Sabotage sabotage = Sabotage::kNone);

}  // namespace reprofuse::fuzz
