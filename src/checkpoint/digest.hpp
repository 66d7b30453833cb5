// A name for the bits of a model: the same for the same weights and constants, however they are cut into files.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/thread_pool.hpp"
#include "checkpoint/checkpoint.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::checkpoint {

// The SHA-256 of each tensor's bytes in file order, by name, in hex.
using TensorDigests = std::map<std::string, std::string>;

// Reads every tensor, each by one thread.
TensorDigests tensor_digests(const Checkpoint& checkpoint, ThreadPool& pool, const Progress& progress = {});

// The constants of config.json that enter the arithmetic, a line of a name and values for each group of them.
std::string config_lines(const ModelConfig& config);

// Everything that decides an answer's bits, as text: the constants of config.json that enter the arithmetic, then one
// line per tensor, by ascending name, with dtype, shape and digest. Two models differ where their manifests differ. The
// tokenizer, file names, sharding and unused keys of config.json are not in it.
std::string model_manifest(const Checkpoint& checkpoint, const TensorDigests& digests);

// The SHA-256 of the manifest, in hex.
std::string model_digest(const Checkpoint& checkpoint, const TensorDigests& digests);
std::string model_digest(const Checkpoint& checkpoint, ThreadPool& pool, const Progress& progress = {});

}  // namespace reprofuse::checkpoint
