#include "mutate.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>

namespace reprofuse::fuzz {
namespace {

constexpr std::size_t kMaxInput = 1 << 16;
constexpr std::size_t kMaxRange = 64;

constexpr std::string_view kNumbers[] = {"0",
                                         "1",
                                         "-1",
                                         "2",
                                         "8",
                                         "255",
                                         "65536",
                                         "2147483648",
                                         "4294967296",
                                         "4611686018427387904",
                                         "9223372036854775807",
                                         "9223372036854775808",
                                         "18446744073709551615",
                                         "18446744073709551616",
                                         "1e308",
                                         "1e-320",
                                         "0.5",
                                         "-0.0"};

std::ptrdiff_t at(std::size_t position) {
  return static_cast<std::ptrdiff_t>(position);
}

}  // namespace

Bytes InputSource::noise() {
  Bytes input(below(300));
  for (std::uint8_t& byte : input) byte = static_cast<std::uint8_t>(random_());
  return input;
}

// The run of digits at or after a random place becomes another number.
void InputSource::replace_number(Bytes& input) {
  const auto is_digit = [](std::uint8_t c) { return std::isdigit(c) != 0; };
  const auto from = input.begin() + at(below(input.size()));
  const auto first = std::find_if(from, input.end(), is_digit);
  const auto last = std::find_if_not(first, input.end(), is_digit);
  const std::string_view number = kNumbers[below(std::size(kNumbers))];
  input.insert(input.erase(first, last), number.begin(), number.end());
}

void InputSource::mutate(Bytes& input) {
  if (input.empty()) input = noise();
  if (input.empty()) return;
  const std::size_t place = below(input.size());
  const std::size_t length = std::min(1 + below(kMaxRange), input.size() - place);
  const Bytes range(input.begin() + at(place), input.begin() + at(place + length));
  switch (below(9)) {
    case 0: input[place] = static_cast<std::uint8_t>(input[place] ^ (1U << below(8))); break;
    case 1: input[place] = static_cast<std::uint8_t>(random_()); break;
    case 2: input.erase(input.begin() + at(place), input.begin() + at(place + length)); break;
    case 3: input.insert(input.begin() + at(below(input.size())), range.begin(), range.end()); break;
    case 4: {
      const std::string_view token = tokens_[below(tokens_.size())];
      input.insert(input.begin() + at(place), token.begin(), token.end());
      break;
    }
    case 5: replace_number(input); break;
    case 6: input.resize(place); break;
    case 7: {
      const Bytes& other = valid_[below(valid_.size())];
      const std::size_t from = below(other.size());
      input.insert(input.begin() + at(place), other.begin() + at(from),
                   other.begin() + at(std::min(other.size(), from + 8 * kMaxRange)));
      break;
    }
    default: std::copy(range.begin(), range.end(), input.begin() + at(below(input.size() - length + 1))); break;
  }
  if (input.size() > kMaxInput) input.resize(kMaxInput);
}

Bytes InputSource::next() {
  constexpr std::size_t kNoiseOneIn = 16;
  constexpr std::size_t kMaxMutations = 6;
  if (below(kNoiseOneIn) == 0) return noise();
  Bytes input = valid_[below(valid_.size())];
  for (std::size_t count = 1 + below(kMaxMutations); count > 0; --count) mutate(input);
  if (below(4) != 0) repair(input);
  return input;
}

}  // namespace reprofuse::fuzz
