// Inputs for targets that read bytes: valid ones with something changed, and noise.
#pragma once

#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "bytes_target.hpp"

namespace reprofuse::fuzz {

class InputSource {
 public:
  explicit InputSource(std::uint64_t seed) : random_(seed), valid_(valid_inputs()), tokens_(dictionary()) {}

  Bytes next();  // a function of the seed and the number of calls before

 private:
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }
  Bytes noise();
  void mutate(Bytes& input);
  void replace_number(Bytes& input);

  std::mt19937_64 random_;
  std::vector<Bytes> valid_;
  std::vector<std::string_view> tokens_;
};

}  // namespace reprofuse::fuzz
