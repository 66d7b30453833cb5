#include "base/hash.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace reprofuse {
namespace {

constexpr std::uint32_t kSha256Round[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

constexpr std::size_t kBlock = 64;

std::uint32_t load_big_endian(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
}

void store_big_endian(std::uint8_t* bytes, std::uint32_t word) {
  for (int i = 0; i < 4; ++i) bytes[i] = static_cast<std::uint8_t>(word >> (24 - 8 * i));
}

void store_little_endian(std::uint8_t* bytes, std::uint32_t word) {
  for (int i = 0; i < 4; ++i) bytes[i] = static_cast<std::uint8_t>(word >> (8 * i));
}

void compress(Sha256State& state, const std::uint8_t* block) {
  std::uint32_t w[64];
  for (std::size_t t = 0; t < 16; ++t) w[t] = load_big_endian(block + 4 * t);
  for (int t = 16; t < 64; ++t) {
    const std::uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
    const std::uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int t = 0; t < 64; ++t) {
    const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kSha256Round[t] + w[t];
    const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1;
    d = c, c = b, b = a, a = t1 + t2;
  }
  const std::uint32_t added[8] = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state[i] += added[i];
}

// With the SHA extensions of x86: 1.8 GB/s on one core of an EPYC, where the portable code does 0.3.
#if defined(__x86_64__)
bool processor_has_sha() {
  constexpr unsigned kSsse3 = 1U << 9;
  constexpr unsigned kSse41 = 1U << 19;
  constexpr unsigned kSha = 1U << 29;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kSsse3) == 0 || (c & kSse41) == 0) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & kSha) != 0;
}

__m128i load_words(const void* from) {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}

__attribute__((target("sha,sse4.1,ssse3"))) void sha256_blocks_x86(Sha256State& state, const std::uint8_t* blocks,
                                                                   std::size_t count) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  // The instructions want the words as (f, e, b, a) and (h, g, d, c), lowest first.
  const __m128i badc = _mm_shuffle_epi32(load_words(state.data()), 0xb1);
  const __m128i efgh = _mm_shuffle_epi32(load_words(state.data() + 4), 0x1b);
  __m128i feba = _mm_alignr_epi8(badc, efgh, 8);
  __m128i hgdc = _mm_blend_epi16(efgh, badc, 0xf0);
  for (; count > 0; --count, blocks += 64) {
    const __m128i saved_feba = feba;
    const __m128i saved_hgdc = hgdc;
    __m128i w[4];  // the message schedule, sixteen words at a time
    for (std::size_t i = 0; i < 4; ++i) w[i] = _mm_shuffle_epi8(load_words(blocks + 16 * i), big_endian);
    for (std::size_t group = 0; group < 16; ++group) {  // of four rounds
      const __m128i sum = _mm_add_epi32(w[0], load_words(kSha256Round + 4 * group));
      hgdc = _mm_sha256rnds2_epu32(hgdc, feba, sum);
      feba = _mm_sha256rnds2_epu32(feba, hgdc, _mm_shuffle_epi32(sum, 0x0e));
      const __m128i partial = _mm_add_epi32(_mm_sha256msg1_epu32(w[0], w[1]), _mm_alignr_epi8(w[3], w[2], 4));
      const __m128i next = _mm_sha256msg2_epu32(partial, w[3]);
      w[0] = w[1], w[1] = w[2], w[2] = w[3], w[3] = next;
    }
    feba = _mm_add_epi32(feba, saved_feba);
    hgdc = _mm_add_epi32(hgdc, saved_hgdc);
  }
  const __m128i abef = _mm_shuffle_epi32(feba, 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(hgdc, 0xb1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state.data()), _mm_blend_epi16(abef, dchg, 0xf0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state.data() + 4), _mm_alignr_epi8(dchg, abef, 8));
}
#endif

Sha256Blocks best_sha256_blocks() {
  const Sha256Blocks instructions = sha256_blocks_instructions();
  return instructions != nullptr ? instructions : sha256_blocks_portable;
}

}  // namespace

void sha256_blocks_portable(Sha256State& state, const std::uint8_t* blocks, std::size_t count) {
  for (; count > 0; --count, blocks += kBlock) compress(state, blocks);
}

Sha256Blocks sha256_blocks_instructions() {
#if defined(__x86_64__)
  if (processor_has_sha()) return sha256_blocks_x86;
#endif
  return nullptr;
}

void Sha256::update(const void* data, std::size_t bytes) {
  static const Sha256Blocks compress_blocks = best_sha256_blocks();
  const auto* in = static_cast<const std::uint8_t*>(data);
  while (bytes > 0) {
    const std::size_t held = bytes_ % kBlock;
    std::size_t taken = bytes / kBlock * kBlock;
    if (held == 0 && taken > 0) {
      compress_blocks(state_, in, taken / kBlock);
    } else {
      taken = std::min(bytes, kBlock - held);
      std::memcpy(buffer_.data() + held, in, taken);
      if (held + taken == kBlock) compress_blocks(state_, buffer_.data(), 1);
    }
    in += taken;
    bytes -= taken;
    bytes_ += taken;
  }
}

Sha256::Digest Sha256::finish() {
  const std::uint64_t bits = bytes_ * 8;
  const std::uint8_t padding[kBlock] = {0x80};
  update(padding, 1 + (2 * kBlock - 9 - bytes_ % kBlock) % kBlock);
  std::uint8_t length[8];
  store_big_endian(length, static_cast<std::uint32_t>(bits >> 32));
  store_big_endian(length + 4, static_cast<std::uint32_t>(bits));
  update(length, sizeof(length));
  Digest digest;
  for (std::size_t i = 0; i < 8; ++i) store_big_endian(digest.data() + 4 * i, state_[i]);
  return digest;
}

std::string to_hex(const Sha256::Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex(2 * digest.size(), '0');
  for (std::size_t i = 0; i < digest.size(); ++i) {
    hex[2 * i] = kDigits[digest[i] >> 4];
    hex[2 * i + 1] = kDigits[digest[i] & 15];
  }
  return hex;
}

void Sha256::update_values(ConstMatrix values) {
  if constexpr (std::endian::native == std::endian::little) {
    for (std::int64_t r = 0; r < values.rows; ++r)
      update(values.data + r * values.stride, static_cast<std::size_t>(values.cols) * 4);
    return;
  }
  std::vector<std::uint8_t> row(static_cast<std::size_t>(values.cols) * 4);
  for (std::int64_t r = 0; r < values.rows; ++r) {
    for (std::int64_t c = 0; c < values.cols; ++c)
      store_little_endian(row.data() + 4 * c, std::bit_cast<std::uint32_t>(values.data[r * values.stride + c]));
    update(row.data(), row.size());
  }
}

std::string sha256_hex(ConstMatrix values) {
  Sha256 hash;
  hash.update_values(values);
  return to_hex(hash.finish());
}

namespace {

constexpr std::uint8_t kLeafPrefix = 0;
constexpr std::uint8_t kNodePrefix = 1;

// One level: pairs become nodes, and one that is left over goes up as it is, which gives the same tree.
void go_up(std::vector<Sha256::Digest>& level) {
  const std::size_t pairs = level.size() / 2;
  const bool odd = level.size() % 2 != 0;
  for (std::size_t i = 0; i < pairs; ++i) level[i] = merkle_node(level[2 * i], level[2 * i + 1]);
  if (odd) level[pairs] = level.back();
  level.resize(pairs + (odd ? 1 : 0));
}

}  // namespace

Sha256::Digest merkle_leaf(std::span<const std::uint8_t> data) {
  Sha256 hash;
  hash.update(&kLeafPrefix, 1);
  hash.update(data.data(), data.size());
  return hash.finish();
}

Sha256::Digest merkle_leaf(std::span<const float> values) {
  Sha256 hash;
  hash.update(&kLeafPrefix, 1);
  const auto count = static_cast<std::int64_t>(values.size());
  hash.update_values({.data = values.data(), .rows = 1, .cols = count, .stride = count});
  return hash.finish();
}

Sha256::Digest merkle_node(const Sha256::Digest& left, const Sha256::Digest& right) {
  Sha256 hash;
  hash.update(&kNodePrefix, 1);
  hash.update(left.data(), left.size());
  hash.update(right.data(), right.size());
  return hash.finish();
}

Sha256::Digest merkle_root(std::vector<Sha256::Digest> leaves) {
  if (leaves.empty()) return Sha256().finish();
  while (leaves.size() > 1) go_up(leaves);
  return leaves.front();
}

std::vector<std::vector<Sha256::Digest>> merkle_levels(std::vector<Sha256::Digest> leaves) {
  std::vector<std::vector<Sha256::Digest>> levels = {std::move(leaves)};
  while (levels.back().size() > 1) {
    std::vector<Sha256::Digest> next = levels.back();
    go_up(next);
    levels.push_back(std::move(next));
  }
  return levels;
}

std::vector<Sha256::Digest> merkle_path(const std::vector<std::vector<Sha256::Digest>>& levels, std::size_t index) {
  std::vector<Sha256::Digest> path;
  for (const std::vector<Sha256::Digest>& level : levels) {
    if (const std::size_t sibling = index ^ 1; sibling < level.size()) path.push_back(level[sibling]);
    index /= 2;
  }
  return path;
}

std::optional<Sha256::Digest> merkle_root_by(const Sha256::Digest& leaf, std::size_t index, std::size_t leaves,
                                             std::span<const Sha256::Digest> path) {
  if (index >= leaves) return std::nullopt;
  Sha256::Digest node = leaf;
  for (; leaves > 1; index /= 2, leaves = (leaves + 1) / 2) {
    if ((index ^ 1) >= leaves) continue;  // one that is left over
    if (path.empty()) return std::nullopt;
    node = index % 2 == 0 ? merkle_node(node, path.front()) : merkle_node(path.front(), node);
    path = path.subspan(1);
  }
  return path.empty() ? std::optional(node) : std::nullopt;
}

}  // namespace reprofuse
