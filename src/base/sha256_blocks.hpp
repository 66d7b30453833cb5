// The compression function of SHA-256 over whole blocks of 64 bytes: in portable C++, and with the instructions that
// x86 has for it. Both give the same state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace reprofuse {

using Sha256State = std::array<std::uint32_t, 8>;
using Sha256Blocks = void (*)(Sha256State& state, const std::uint8_t* blocks, std::size_t count);

void sha256_blocks_portable(Sha256State& state, const std::uint8_t* blocks, std::size_t count);

// Null where the processor or its architecture has no such instructions.
Sha256Blocks sha256_blocks_instructions();

extern const std::uint32_t kSha256Round[64];

}  // namespace reprofuse
