#include "receipt/receipt.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "base/json.hpp"
#include "base/merkle.hpp"
#include "model/logits_digest.hpp"

namespace reprofuse::receipt {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kStatementType = "https://in-toto.io/Statement/v1";
constexpr char kCommitmentPrefix = 3;  // those of a tree's leaves and nodes and of a digest's steps are 0, 1 and 2

void append_words(std::string& bytes, std::span<const std::int32_t> tokens) {
  for (const std::int32_t token : tokens)
    for (int shift = 0; shift < 32; shift += 8)
      bytes += static_cast<char>(static_cast<std::uint32_t>(token) >> shift & 255);
}

std::string word(float value) {
  return fmt::format("{:08x}", std::bit_cast<std::uint32_t>(value));
}

template <typename Int>
Int number_in(const Json& text, int base) {
  const auto& digits = text.get_ref<const std::string&>();
  Int value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  require(error == std::errc() && end == digits.data() + digits.size(), "{} is no number", shown(text));
  return value;
}

float float_in(const Json& hex) {
  return std::bit_cast<float>(number_in<std::uint32_t>(hex, 16));
}

Json or_null(const std::optional<std::string>& text) {
  return text ? Json(*text) : Json();
}

template <typename Value>
std::optional<Value> unless_null(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<Value>());
}

Sha256::Digest digest_in(const Json& hex) {
  const auto digest = digest_from_hex(hex.get_ref<const std::string&>());
  require(digest.has_value(), "{} is not a SHA-256 in hex", shown(hex));
  return *digest;
}

Json request_json(const engine::Request& request) {
  const SamplingParams& sampling = request.sampling;
  return {{"temperature", word(sampling.temperature)},
          {"top_k", sampling.top_k},
          {"top_p", word(sampling.top_p)},
          {"min_p", word(sampling.min_p)},
          {"repetition_penalty", word(sampling.repetition_penalty)},
          {"seed", fmt::format("{:016x}", sampling.seed)},
          {"max_tokens", std::to_string(request.max_tokens)},
          {"stop_tokens", request.stop_tokens},
          {"stop_strings", request.stop_strings},
          {"keep_stop_string", request.keep_stop_string},
          {"skip_special_tokens", request.skip_special_tokens}};
}

engine::Request read_request(const Json& json) {
  engine::Request request;
  request.sampling = {.temperature = float_in(json.at("temperature")),
                      .top_k = json.at("top_k").get<int>(),
                      .top_p = float_in(json.at("top_p")),
                      .min_p = float_in(json.at("min_p")),
                      .repetition_penalty = float_in(json.at("repetition_penalty")),
                      .seed = number_in<std::uint64_t>(json.at("seed"), 16)};
  request.max_tokens = number_in<std::int64_t>(json.at("max_tokens"), 10);
  require(request.max_tokens >= 1, "max_tokens {} leaves no room for a step", shown(json.at("max_tokens")));
  json.at("stop_tokens").get_to(request.stop_tokens);
  json.at("stop_strings").get_to(request.stop_strings);
  json.at("keep_stop_string").get_to(request.keep_stop_string);
  json.at("skip_special_tokens").get_to(request.skip_special_tokens);
  return request;
}

Json artifacts_json(const Artifacts& artifacts) {
  Json files = Json::object();
  for (const auto& [name, digest] : artifacts.files) files[name] = or_null(digest);
  return {{"model", artifacts.model},
          {"manifest_root", artifacts.manifest_root},
          {"files", files},
          {"template", or_null(artifacts.chat_template)},
          {"unicode", artifacts.unicode},
          {"date", artifacts.date},
          {"context", std::to_string(artifacts.context)},
          {"settings", artifacts.settings}};
}

Artifacts read_artifacts(const Json& json) {
  Artifacts artifacts;
  json.at("model").get_to(artifacts.model);
  json.at("manifest_root").get_to(artifacts.manifest_root);
  for (const auto& [name, digest] : json.at("files").items()) artifacts.files[name] = unless_null<std::string>(digest);
  artifacts.chat_template = unless_null<std::string>(json.at("template"));
  json.at("unicode").get_to(artifacts.unicode);
  json.at("date").get_to(artifacts.date);
  artifacts.context = number_in<std::int64_t>(json.at("context"), 10);
  json.at("settings").get_to(artifacts.settings);
  return artifacts;
}

Json steps_json(const Receipt& receipt) {
  Json roots = nullptr;
  if (!receipt.answer.roots.empty()) {
    roots = Json::array();
    for (const Sha256::Digest& root : receipt.answer.roots) roots.push_back(to_hex(root));
  }
  return {{"count", std::to_string(receipt.answer.steps())}, {"root", receipt.steps_root}, {"roots", roots}};
}

Answer read_answer(const Json& json, const Json& roots) {
  Answer answer;
  json.at("tokens").get_to(answer.tokens);
  const std::string reason = json.at("finish_reason");
  answer.finish_reason = reason == "stop" ? engine::FinishReason::kStop : engine::FinishReason::kLength;
  answer.stop_token = unless_null<std::int32_t>(json.at("stop_token"));
  json.at("digest").get_to(answer.digest);
  if (!roots.is_null())
    for (const Json& root : roots) answer.roots.push_back(digest_in(root));
  return answer;
}

PublicKey read_issuer(const Json& json) {
  const auto bytes = from_base64(json.at("public_key").get_ref<const std::string&>());
  PublicKey::Raw raw;
  require(bytes && bytes->size() == raw.size(), "the issuer's public_key is no Ed25519 key");
  std::copy(bytes->begin(), bytes->end(), raw.begin());
  return PublicKey(raw);
}

Receipt read_predicate(const Json& json) {
  Receipt receipt{.version = json.at("engine").at("version"),
                  .contract = json.at("contract"),
                  .artifacts = read_artifacts(json.at("artifacts")),
                  .request = read_request(json.at("request")),
                  .prompt_commitment = {},
                  .answer = read_answer(json.at("answer"), json.at("steps").at("roots")),
                  .steps_root = json.at("steps").at("root"),
                  .device = json.at("environment").at("device"),
                  .isa = json.at("environment").at("isa").is_null() ? "" : json.at("environment").at("isa"),
                  .previous = unless_null<std::string>(json.at("previous")),
                  .nonce = unless_null<std::string>(json.at("nonce")),
                  .issuer = read_issuer(json.at("issuer"))};
  const Json& prompt = json.at("prompt");
  if (prompt.contains("commitment"))
    receipt.prompt_commitment = prompt.at("commitment").get<std::string>();
  else
    prompt.at("tokens").get_to(receipt.request.prompt);
  return receipt;
}

}  // namespace

void Answer::add(const engine::Update& update) {
  for (const engine::AnswerToken& token : update.tokens) {
    tokens.push_back(token.id);
    roots.push_back(token.logits_root);
  }
  if (!update.end) return;
  finish_reason = update.end->finish_reason;
  stop_token = update.end->stop_token;
  if (stop_token) roots.push_back(update.end->logits_root);
  digest = update.end->digest;
}

Sha256::Digest step_leaf(std::size_t step, std::int32_t token, const Sha256::Digest& logits_root) {
  std::string bytes;
  append_words(bytes, std::array{static_cast<std::int32_t>(step), token});
  bytes.append(logits_root.begin(), logits_root.end());
  return merkle_leaf({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

std::vector<Sha256::Digest> step_leaves(const Answer& answer) {
  std::vector<Sha256::Digest> leaves;
  for (std::size_t step = 0; step < answer.steps(); ++step)
    leaves.push_back(step_leaf(step, answer.step_token(step), answer.roots[step]));
  return leaves;
}

std::string tree_digest(std::span<const Sha256::Digest> roots) {
  model::LogitsDigest digest(DigestKind::kTree1);
  for (const Sha256::Digest& root : roots) {
    std::uint8_t bytes[32];
    std::ranges::copy(root, bytes);
    digest.add_root(bytes);
  }
  return digest.text();
}

Opening Opening::of(std::vector<std::int32_t> prompt) {
  Opening opening{.salt = {}, .prompt = std::move(prompt)};
  invariant(getentropy(opening.salt.data(), opening.salt.size()) == 0, "the system has no random numbers");
  return opening;
}

std::string Opening::commitment() const {
  std::string bytes(1, kCommitmentPrefix);
  bytes.append(salt.begin(), salt.end());
  append_words(bytes, prompt);
  return to_hex(sha256(bytes));
}

std::string Opening::text() const {
  return canonical_json({{"prompt_tokens", prompt}, {"salt", to_hex(salt)}});
}

Opening parse_opening(std::string_view text, const std::string& name) {
  try {
    const Json json = parse_json(text, name);
    return {digest_in(json.at("salt")), json.at("prompt_tokens").get<std::vector<std::int32_t>>()};
  } catch (const Json::exception& error) {
    fail(ErrorCode::kInvalidArgument, "{}: does not open a prompt: {}", name, error.what());
  }
}

std::string statement_of(const Receipt& receipt) {
  const Answer& answer = receipt.answer;
  std::string token_words;
  append_words(token_words, answer.tokens);
  const Json prompt = receipt.prompt_commitment ? Json{{"commitment", *receipt.prompt_commitment}}
                                                : Json{{"tokens", receipt.request.prompt}};
  const Json predicate = {
      {"engine", {{"name", "reprofuse"}, {"version", receipt.version}}},
      {"contract", receipt.contract},
      {"artifacts", artifacts_json(receipt.artifacts)},
      {"prompt", prompt},
      {"request", request_json(receipt.request)},
      {"answer",
       {{"tokens", answer.tokens},
        {"finish_reason", engine::finish_reason_name(answer.finish_reason)},
        {"stop_token", answer.stop_token ? Json(*answer.stop_token) : Json()},
        {"digest", answer.digest}}},
      {"steps", steps_json(receipt)},
      {"environment", {{"device", receipt.device}, {"isa", receipt.isa.empty() ? Json() : Json(receipt.isa)}}},
      {"previous", or_null(receipt.previous)},
      {"nonce", or_null(receipt.nonce)},
      {"issuer",
       {{"key_id", receipt.issuer.id()},
        {"public_key",
         to_base64({reinterpret_cast<const char*>(receipt.issuer.raw().data()), receipt.issuer.raw().size()})}}}};
  const Json subject = {{"name", "answer"}, {"digest", {{"sha256", to_hex(sha256(token_words))}}}};
  return canonical_json({{"_type", kStatementType},
                         {"subject", Json::array({subject})},
                         {"predicateType", kPredicateType},
                         {"predicate", predicate}});
}

Receipt parse_statement(std::string_view payload, const std::string& name) {
  try {
    const Json json = parse_json(payload, name);
    require(json.at("predicateType") == kPredicateType, "its predicateType is {}, not {}",
            shown(json.at("predicateType")), kPredicateType);
    Receipt receipt = read_predicate(json.at("predicate"));
    require(statement_of(receipt) == payload, "it is not written as a receipt is, byte for byte");
    return receipt;
  } catch (const Json::exception& error) {
    fail(ErrorCode::kInvalidArgument, "{}: is no receipt: {}", name, error.what());
  } catch (const Error& error) {
    fail(ErrorCode::kInvalidArgument, "{}: is no receipt: {}", name, error.what());
  }
}

std::string contradiction_in(const Receipt& receipt) {
  const Answer& answer = receipt.answer;
  if (answer.steps() == 0) return "it has no step";
  if (answer.roots.empty()) return {};
  if (answer.roots.size() != answer.steps())
    return fmt::format("it has {} steps and {} roots", answer.steps(), answer.roots.size());
  if (to_hex(merkle_root(step_leaves(answer))) != receipt.steps_root) return "its roots do not have its steps' root";
  if (tree_digest(answer.roots) != answer.digest) return "its roots do not have its answer's digest";
  return {};
}

}  // namespace reprofuse::receipt
