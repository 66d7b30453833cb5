// Whole models with seeded weights, one per architecture and peculiarity, and the digest of their logits. A digest is a
// function of the case alone: not of how its tokens are cut into passes, nor of what else is computed beside them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/config.hpp"
#include "model/model.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::study {

struct ModelCase {
  std::string name;
  checkpoint::ModelConfig config;
  DType dtype;
  std::uint64_t seed;   // of the weights; seed + 1 is that of the tokens
  std::int64_t tokens;  // of the text
};

std::vector<ModelCase> model_cases();

std::vector<std::int32_t> random_tokens(std::uint64_t seed, std::int64_t count, std::int64_t vocabulary);
std::vector<std::int32_t> case_tokens(const ModelCase& spec);
std::unique_ptr<model::Model> make_model(const Context& context, const ModelCase& spec,
                                         const model::TeamPlace& place = {});

// How a text is computed. No bit may depend on any of it.
struct PassPlan {
  std::int64_t chunk = 512;        // tokens per pass
  std::int32_t page_size = 64;     // of the cache
  int companions = 0;              // other texts in the same passes, of other lengths
  bool companions_decode = false;  // they too take one token per pass, not one to five
};

// SHA-256 chain over the logits of every position.
std::string logits_digest(const model::Model& model, const ModelCase& spec, const PassPlan& plan);

}  // namespace reprofuse::study
