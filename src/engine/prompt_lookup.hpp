// Guesses at the tokens that come next, from the text itself. A guess costs a row of a pass and moves no bit: the row
// that checks it gives the logits that a step of its own would give.
#pragma once

#include <cstdint>
#include <span>

namespace reprofuse::engine {

// Up to `count` tokens that followed the last earlier place where the text had its last three, or else two, tokens.
std::span<const std::int32_t> guess_next(std::span<const std::int32_t> text, std::int64_t count);

}  // namespace reprofuse::engine
