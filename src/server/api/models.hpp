// What every reply says of the model that is served, and the replies of /v1/models, which say nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/model_files.hpp"
#include "receipt/issuer.hpp"
#include "text/chat_template.hpp"

namespace reprofuse::server {

// Set before the first request and constant from then on.
struct ServedFacts {
  std::string id;                             // the name that requests give
  const engine::ModelFiles* files = nullptr;  // outlives every call
  std::string fingerprint;                    // see receipt::system_fingerprint()
  std::int64_t max_positions = 0;             // the longest prompt and answer together
  std::int64_t created = 0;                   // when the server started, in seconds since 1970
  text::DateTime date;                        // what a chat template sees as today
  std::string contract = {};                  // what it computes by
  receipt::AtHand at_hand = {};               // what decides answers, as receipts name it
  receipt::Issuer* issuer = nullptr;          // signs receipts, and outlives every call; null: nobody does
  engine::SpecialTokens special_tokens = engine::SpecialTokens::kAsTokens;  // in contents and prompts, unless they say
};

// Throws the 404 that a wrong model name gets.
void check_model_name(std::string_view name, const ServedFacts& facts);

std::string model_list(const ServedFacts& facts);                         // GET /v1/models
std::string model_card(std::string_view name, const ServedFacts& facts);  // GET /v1/models/NAME; throws a 404

}  // namespace reprofuse::server
