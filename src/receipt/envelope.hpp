// The outer form of a receipt: canonical JSON in a DSSE envelope (github.com/secure-systems-lab/dsse). docs/receipts.md
// describes all of it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "base/json.hpp"

namespace reprofuse::receipt {

Sha256::Digest sha256(std::string_view bytes);
std::optional<Sha256::Digest> digest_from_hex(std::string_view hex);  // 64 small hex digits, or nothing

// Base64 of RFC 4648, with padding. What is read must be what to_base64() writes.
std::string to_base64(std::string_view bytes);
std::optional<std::string> from_base64(std::string_view text);

// RFC 8785 for what receipts hold: strings, booleans, null and integers below 2^53; keys in order, no white space.
std::string canonical_json(const nlohmann::json& value);

// What follows is made for nlohmann::json and nlohmann::ordered_json: for files, and for what a server has read
// already.

// Token ids: integers from 0 to 2^31 - 1 and nothing else. Throws kInvalidArgument.
template <typename Json>
std::int32_t token_in(const Json& value);
template <typename Json>
std::vector<std::int32_t> tokens_in(const Json& list);

inline constexpr std::string_view kPayloadType = "application/vnd.in-toto+json";

struct Envelope {
  std::string payload;
  std::string key_id;
  std::string signature;  // bytes, of pre_authentication(payload)

  std::string text() const;          // one line of JSON, without a line feed
  std::string payload_hash() const;  // SHA-256 in hex: what the next receipt of a log names
};

std::string pre_authentication(std::string_view payload);  // what is signed: DSSE's PAE

// Throws kInvalidArgument for what is no envelope with one signature.
Envelope parse_envelope(std::string_view text, const std::string& name);
template <typename Json>
Envelope read_envelope(const Json& json, const std::string& name);

// Where a statement is not what its receipt is written as: the first place, and both values, in words. Linear in both
// but for looking up keys; the library's own diff looks through its list of changes again for each of them.
std::string difference_between(const nlohmann::json& said, const nlohmann::json& written);

}  // namespace reprofuse::receipt
