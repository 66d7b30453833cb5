#include "receipt/envelope.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/check.hpp"
#include "base/json.hpp"

namespace reprofuse::receipt {
namespace {

// The points by which signatures verify that nobody made, in every encoding, without the bit of the sign.
constexpr std::string_view kSmallOrder[] = {"0000000000000000000000000000000000000000000000000000000000000000",
                                            "0100000000000000000000000000000000000000000000000000000000000000",
                                            "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
                                            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
                                            "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                                            "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                                            "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"};

}  // namespace

PublicKey::PublicKey(const Raw& raw) : raw_(raw) {
  Raw unsigned_point = raw;
  unsigned_point.back() &= 0x7F;
  const bool is_small = std::ranges::find(kSmallOrder, to_hex(unsigned_point)) != std::end(kSmallOrder);
  require(!is_small, "the public key is a point of small order, by which anybody can sign");
}

PublicKey PublicKey::from_base64(std::string_view text) {
  const auto bytes = receipt::from_base64(text);
  Raw raw;
  require(bytes && bytes->size() == raw.size(), "the public key is not 32 bytes in Base64");
  std::copy(bytes->begin(), bytes->end(), raw.begin());
  return PublicKey(raw);
}

// What stands before the 32 bytes of every Ed25519 key in DER (RFC 8410).
std::string PublicKey::der() const {
  constexpr std::string_view kHead("\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00", 12);
  std::string bytes(kHead);
  bytes.append(raw_.begin(), raw_.end());
  return bytes;
}

std::string PublicKey::id() const {
  return to_hex(sha256(der()));
}

std::string PublicKey::pem() const {
  return fmt::format("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", to_base64(der()));
}

SigningKey signing_key_of_environment() {
  const char* path = std::getenv("REPROFUSE_KEY");
  require(path != nullptr && *path != '\0',
          "there is no key to sign receipts with: make one with `reprofuse keys new FILE`, and name it in the "
          "environment by REPROFUSE_KEY=FILE");
  return SigningKey::load(path);
}

namespace {

using Json = nlohmann::json;

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

Sha256::Digest sha256(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes.data(), bytes.size());
  return hash.finish();
}

std::optional<Sha256::Digest> digest_from_hex(std::string_view hex) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  Sha256::Digest digest{};
  if (hex.size() != 2 * digest.size()) return std::nullopt;
  for (std::size_t i = 0; i < hex.size(); ++i) {
    const std::size_t digit = kDigits.find(hex[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    digest[i / 2] = static_cast<std::uint8_t>(digest[i / 2] * std::size_t{16} + digit);
  }
  return digest;
}

std::string to_base64(std::string_view bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t word = 0;
    for (std::size_t i = 0; i < 3; ++i) word = word * 256 + (i < count ? static_cast<std::uint8_t>(bytes[at + i]) : 0);
    for (std::size_t i = 0; i < 4; ++i) text += i <= count ? kAlphabet[word >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  std::string bytes;
  std::uint32_t word = 0;
  const std::string_view digits = text.substr(0, text.find('='));
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const std::size_t digit = kAlphabet.find(digits[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    word = word << 6 | static_cast<std::uint32_t>(digit);
    if (i % 4 != 0) bytes += static_cast<char>(word >> (6 - 2 * (i % 4)) & 255);
  }
  return to_base64(bytes) == text ? std::optional(bytes) : std::nullopt;
}

std::string canonical_json(const Json& value) {
  try {
    return value.dump();  // keys of nlohmann::json are sorted by bytes, which for ASCII is the order of RFC 8785
  } catch (const Json::exception&) {
    fail(ErrorCode::kInvalidArgument, "a receipt holds UTF-8 alone, and a text of this one is none");
  }
}

template <typename Json>
std::int32_t token_in(const Json& value) {
  require(value.is_number_unsigned() && value.template get<std::uint64_t>() <= INT32_MAX, "{} is no token id",
          shown(value));
  return value.template get<std::int32_t>();
}

template <typename Json>
std::vector<std::int32_t> tokens_in(const Json& list) {
  require(list.is_array(), "{} is no list of token ids", shown(list));
  std::vector<std::int32_t> tokens;
  tokens.reserve(list.size());
  for (const Json& token : list) tokens.push_back(token_in(token));
  return tokens;
}

std::string Envelope::text() const {
  const Json signed_by = {{"keyid", key_id}, {"sig", to_base64(signature)}};
  return canonical_json({{"payload", to_base64(payload)},
                         {"payloadType", std::string(kPayloadType)},
                         {"signatures", Json::array({signed_by})}});
}

std::string Envelope::payload_hash() const {
  return to_hex(sha256(payload));
}

std::string pre_authentication(std::string_view payload) {
  return fmt::format("DSSEv1 {} {} {} {}", kPayloadType.size(), kPayloadType, payload.size(), payload);
}

template <typename Json>
Envelope read_envelope(const Json& json, const std::string& name) {
  try {
    const Json& signatures = json.at("signatures");
    require(json.size() == 3 && signatures.is_array() && signatures.size() == 1 && signatures[0].size() == 2,
            "{}: is no envelope with one signature", name);
    require(json.at("payloadType") == kPayloadType, "{}: payloadType is {}, not {}", name,
            shown(json.at("payloadType")), kPayloadType);
    auto payload = from_base64(json.at("payload").template get_ref<const std::string&>());
    auto signature = from_base64(signatures[0].at("sig").template get_ref<const std::string&>());
    require(payload && signature, "{}: its payload or its signature is not Base64", name);
    return {*std::move(payload), signatures[0].at("keyid").template get<std::string>(), *std::move(signature)};
  } catch (const nlohmann::detail::exception& error) {
    fail(ErrorCode::kInvalidArgument, "{}: is no signed envelope: {}", name, json_problem(error));
  }
}

Envelope parse_envelope(std::string_view text, const std::string& name) {
  try {
    return read_envelope(*BasicOwnedJson<Json>(parse_json(text, name)), name);
  } catch (const Json::exception& error) {
    fail(ErrorCode::kInvalidArgument, "{}: is no signed envelope: {}", name, json_problem(error));
  }
}

template std::int32_t token_in(const Json&);
template std::int32_t token_in(const nlohmann::ordered_json&);
template std::vector<std::int32_t> tokens_in(const Json&);
template std::vector<std::int32_t> tokens_in(const nlohmann::ordered_json&);
template Envelope read_envelope(const Json&, const std::string&);
template Envelope read_envelope(const nlohmann::ordered_json&, const std::string&);

namespace {

// Where two values differ first; what stands there, or nothing.
struct Difference {
  std::string path;
  const Json* said;
  const Json* written;
};

std::optional<Difference> first_difference(const Json& said, const Json& written) {
  const auto within = [](const auto& key, std::optional<Difference> found) {
    if (found) found->path = fmt::format("/{}{}", key, found->path);
    return found;
  };
  if (said.is_array() && written.is_array()) {
    for (std::size_t i = 0; i < std::max(said.size(), written.size()); ++i) {
      if (i >= written.size()) return within(i, Difference{"", &said[i], nullptr});
      if (i >= said.size()) return within(i, Difference{"", nullptr, &written[i]});
      if (auto found = first_difference(said[i], written[i])) return within(i, std::move(found));
    }
    return std::nullopt;
  }
  if (said.is_object() && written.is_object()) {
    for (const auto& [key, value] : said.get_ref<const Json::object_t&>()) {
      const auto other = written.find(key);
      if (other == written.end()) return within(key, Difference{"", &value, nullptr});
      if (auto found = first_difference(value, *other)) return within(key, std::move(found));
    }
    for (const auto& [key, value] : written.get_ref<const Json::object_t&>())
      if (!said.contains(key)) return within(key, Difference{"", nullptr, &value});
    return std::nullopt;
  }
  return said == written ? std::nullopt : std::optional(Difference{"", &said, &written});
}

}  // namespace

std::string difference_between(const Json& said, const Json& written) {
  const auto found = first_difference(said, written);
  if (!found) return "its JSON is not canonical: keys in order, no white space";
  const auto value_of = [](const Json* value) { return value != nullptr ? shown(*value) : "not there"; };
  return fmt::format("{} is {}, and in a receipt of its answer it is {}", shown(found->path), value_of(found->said),
                     value_of(found->written));
}

}  // namespace reprofuse::receipt
