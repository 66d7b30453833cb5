// The Merkle root of rows of logits, as base/hash.hpp has it: a thread hashes a leaf, then a CTA per row the tree
// above them. Integers only. Digests are kept as eight words, the state of SHA-256, until the root is written as bytes.
#include <cstdint>

#include "kernels/cuda/sampler/sample.hpp"
#include "numerics/sampling.hpp"

namespace reprofuse::cuda::hash {
namespace {

using kernels::SampleResult;
using kernels::SampleRow;
using sampling::kLogitsPerLeaf;
using sampling::logits_leaves;

constexpr int kThreads = 128;
constexpr int kNodeThreads = 256;
constexpr int kBlockWords = 16;
constexpr int kRootBytes = sizeof(SampleResult::logits_root);

__device__ constexpr std::uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

struct State {
  std::uint32_t words[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                            0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
};

__device__ std::uint32_t rotate_right(std::uint32_t word, int bits) {
  return __funnelshift_r(word, word, bits);
}

// One block of SHA-256. The last sixteen words of the message schedule are kept in `w`.
__device__ void compress(State& state, std::uint32_t (&w)[kBlockWords]) {
  std::uint32_t v[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] = state.words[i];
#pragma unroll
  for (int t = 0; t < 64; ++t) {
    std::uint32_t& word = w[t % kBlockWords];
    if (t >= kBlockWords) {
      const std::uint32_t before15 = w[(t + 1) % kBlockWords];
      const std::uint32_t before2 = w[(t + 14) % kBlockWords];
      word += (rotate_right(before15, 7) ^ rotate_right(before15, 18) ^ (before15 >> 3)) + w[(t + 9) % kBlockWords] +
              (rotate_right(before2, 17) ^ rotate_right(before2, 19) ^ (before2 >> 10));
    }
    // The variables a to h of round t are v[(i - t) mod 8]: nothing moves but two of them.
    const auto at = [&](int i) -> std::uint32_t& { return v[(i + 64 - t) % 8]; };
    const std::uint32_t a = at(0), b = at(1), c = at(2), e = at(4), f = at(5), g = at(6);
    const std::uint32_t sum = at(7) + (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) +
                              ((e & f) ^ (~e & g)) + kRound[t] + word;
    at(3) += sum;
    at(7) = sum + (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) state.words[i] += v[i];
}

// The byte 0, then the values as little-endian words: word j of the message has the last byte of value j - 1 and the
// first three of value j.
__device__ State hash_leaf(const std::uint32_t* values, int count) {
  State state;
  std::uint32_t before = 0;
  const int blocks = (count + 3 + kBlockWords - 1) / kBlockWords;
#pragma unroll 1
  for (int block = 0; block < blocks; ++block) {
    std::uint32_t w[kBlockWords];
#pragma unroll
    for (int t = 0; t < kBlockWords; ++t) {
      const int j = block * kBlockWords + t;
      const std::uint32_t value = j < count ? values[j] : j == count ? 0x80u : 0;
      w[t] = __byte_perm(value, before, 0x7012);
      before = value;
    }
    if (block == blocks - 1) w[kBlockWords - 1] = 8 * (1 + 4 * count);
    compress(state, w);
  }
  return state;
}

// The byte 1, then the hashes of two children.
__device__ State hash_node(const State& left, const State& right) {
  State state;
  std::uint32_t w[kBlockWords];
  std::uint32_t before = 1;
#pragma unroll
  for (int t = 0; t < kBlockWords; ++t) {
    const std::uint32_t word = t < 8 ? left.words[t] : right.words[t - 8];
    w[t] = __funnelshift_r(word, before, 8);
    before = word;
  }
#pragma unroll 1
  for (int block = 0; block < 2; ++block) {
    compress(state, w);
    w[0] = __funnelshift_r(0x80000000u, before, 8);
#pragma unroll
    for (int t = 1; t < kBlockWords - 1; ++t) w[t] = 0;
    w[kBlockWords - 1] = 8 * (1 + 64);
  }
  return state;
}

// A row has room for its leaves and for the level above them.
__host__ __device__ std::int64_t nodes_of_row(int vocabulary) {
  const std::int64_t leaves = logits_leaves(vocabulary);
  return leaves + (leaves + 1) / 2;
}

__global__ void __launch_bounds__(kThreads) hash_logits_leaves(const SampleRow* rows, int vocabulary, State* nodes) {
  const SampleRow& row = rows[blockIdx.y];
  const auto leaf = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (!row.logits_root || leaf >= logits_leaves(vocabulary)) return;
  const int first = leaf * static_cast<int>(kLogitsPerLeaf);
  const int count = min(vocabulary - first, static_cast<int>(kLogitsPerLeaf));
  nodes[blockIdx.y * nodes_of_row(vocabulary) + leaf] =
      hash_leaf(reinterpret_cast<const std::uint32_t*>(row.logits + first), count);
}

// Level by level, from one half of the row's nodes to the other. One that is left over goes up as it is.
__global__ void __launch_bounds__(kNodeThreads)
    hash_logits_nodes(const SampleRow* rows, int vocabulary, State* nodes, std::uint8_t* roots) {
  if (!rows[blockIdx.x].logits_root) return;
  State* from = nodes + blockIdx.x * nodes_of_row(vocabulary);
  State* to = from + logits_leaves(vocabulary);
  for (auto count = static_cast<int>(logits_leaves(vocabulary)); count > 1; count = (count + 1) / 2) {
    __syncthreads();
    for (int i = threadIdx.x; i < (count + 1) / 2; i += kNodeThreads)
      to[i] = 2 * i + 1 < count ? hash_node(from[2 * i], from[2 * i + 1]) : from[2 * i];
    State* const written = to;
    to = from;
    from = written;
  }
  __syncthreads();
  if (threadIdx.x < kRootBytes)
    roots[blockIdx.x * kRootBytes + threadIdx.x] =
        static_cast<std::uint8_t>(from->words[threadIdx.x / 4] >> (24 - 8 * (threadIdx.x % 4)));
}

}  // namespace

std::size_t logits_root_workspace(std::int64_t max_rows, std::int64_t vocabulary) {
  return static_cast<std::size_t>(max_rows * nodes_of_row(static_cast<int>(vocabulary))) * sizeof(State);
}

cudaError_t launch_logits_roots(const SampleRow* rows, int count, int vocabulary, void* workspace, std::uint8_t* roots,
                                cudaStream_t stream) {
  auto* nodes = static_cast<State*>(workspace);
  const auto ctas = static_cast<unsigned>((logits_leaves(vocabulary) + kThreads - 1) / kThreads);
  hash_logits_leaves<<<dim3(ctas, static_cast<unsigned>(count)), kThreads, 0, stream>>>(rows, vocabulary, nodes);
  hash_logits_nodes<<<static_cast<unsigned>(count), kNodeThreads, 0, stream>>>(rows, vocabulary, nodes, roots);
  return cudaGetLastError();
}

}  // namespace reprofuse::cuda::hash
