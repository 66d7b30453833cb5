#include "receipt/receipt.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "model/logits_digest.hpp"
#include "receipt/envelope.hpp"
#include "text/date.hpp"

namespace reprofuse::receipt {
namespace {

using Json = nlohmann::json;
using OwnedJson = BasicOwnedJson<Json>;

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

template <typename AnyJson>
Sha256::Digest digest_in(const AnyJson& hex) {
  const auto digest = digest_from_hex(hex.template get_ref<const std::string&>());
  require(digest.has_value(), "{} is not a SHA-256 in hex", shown(hex));
  return *digest;
}

std::string hash_in(const Json& hex) {
  return to_hex(digest_in(hex));
}

std::optional<std::string> hash_or_null(const Json& hex) {
  return hex.is_null() ? std::nullopt : std::optional(hash_in(hex));
}

std::int64_t count_in(const Json& digits) {
  const auto count = number_in<std::int64_t>(digits, 10);
  require(count >= 1, "{} is below 1", shown(digits));
  return count;
}

std::string date_in(const Json& text) {
  std::string date = text::to_string(text::parse_date(text.get_ref<const std::string&>()));
  require(date == text, "the date {} is not written as {}", shown(text), date);
  return date;
}

// Without its lists, which statement_of() adds: the library needs memory to drop them.
Json request_json(const engine::Request& request) {
  const SamplingParams& sampling = request.sampling;
  return {{"temperature", word(sampling.temperature)},
          {"top_k", sampling.top_k},
          {"top_p", word(sampling.top_p)},
          {"min_p", word(sampling.min_p)},
          {"repetition_penalty", word(sampling.repetition_penalty)},
          {"seed", fmt::format("{:016x}", sampling.seed)},
          {"max_tokens", std::to_string(request.max_tokens)},
          {"keep_stop_string", request.keep_stop_string},
          {"skip_special_tokens", request.skip_special_tokens}};
}

engine::Request read_request(const Json& json) {
  engine::Request request;
  request.sampling = {.temperature = float_in(json.at("temperature")),
                      .top_k = token_in(json.at("top_k")),  // of the same range
                      .top_p = float_in(json.at("top_p")),
                      .min_p = float_in(json.at("min_p")),
                      .repetition_penalty = float_in(json.at("repetition_penalty")),
                      .seed = number_in<std::uint64_t>(json.at("seed"), 16)};
  request.max_tokens = count_in(json.at("max_tokens"));
  request.stop_tokens = tokens_in(json.at("stop_tokens"));
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
  artifacts.model = hash_in(json.at("model"));
  artifacts.manifest_root = hash_in(json.at("manifest_root"));
  for (const std::string_view name : kTextFiles)
    artifacts.files[std::string(name)] = hash_or_null(json.at("files").at(std::string(name)));
  artifacts.chat_template = hash_or_null(json.at("template"));
  json.at("unicode").get_to(artifacts.unicode);
  artifacts.date = date_in(json.at("date"));
  artifacts.context = count_in(json.at("context"));
  artifacts.settings = hash_in(json.at("settings"));
  return artifacts;
}

AnswerSteps read_answer(const Json& json, const Json& roots) {
  AnswerSteps answer;
  answer.tokens = tokens_in(json.at("tokens"));
  const std::string reason = json.at("finish_reason");
  answer.finish_reason = reason == "stop" ? engine::FinishReason::kStop : engine::FinishReason::kLength;
  if (!json.at("stop_token").is_null()) answer.stop_token = token_in(json.at("stop_token"));
  json.at("digest").get_to(answer.digest);
  const bool is_tree = answer.digest.starts_with("tree-1:") && digest_from_hex(answer.digest.substr(7));
  require(is_tree, "its digest is {}", shown(answer.digest));
  if (!roots.is_null())
    for (const Json& root : roots) answer.roots.push_back(digest_in(root));
  return answer;
}

Receipt read_predicate(const Json& json) {
  Receipt receipt{.version = json.at("engine").at("version"),
                  .contract = json.at("contract"),
                  .artifacts = read_artifacts(json.at("artifacts")),
                  .request = read_request(json.at("request")),
                  .prompt_commitment = {},
                  .answer = read_answer(json.at("answer"), json.at("steps").at("roots")),
                  .steps_root = hash_in(json.at("steps").at("root")),
                  .device = json.at("environment").at("device"),
                  .isa = json.at("environment").at("isa").is_null() ? "" : json.at("environment").at("isa"),
                  .previous = hash_or_null(json.at("previous")),
                  .nonce = json.at("nonce").is_null() ? std::nullopt : std::optional<std::string>(json.at("nonce")),
                  .issuer = PublicKey::from_base64(json.at("issuer").at("public_key").get_ref<const std::string&>())};
  const Json& prompt = json.at("prompt");
  if (prompt.contains("commitment"))
    receipt.prompt_commitment = hash_in(prompt.at("commitment"));
  else
    receipt.request.prompt = tokens_in(prompt.at("tokens"));
  return receipt;
}

// The answer ends where its request says.
std::string contradiction_in_end(const engine::Request& request, const AnswerSteps& answer) {
  const auto is_stop = [&](std::int32_t token) {
    return std::find(request.stop_tokens.begin(), request.stop_tokens.end(), token) != request.stop_tokens.end();
  };
  const auto steps = static_cast<std::int64_t>(answer.step_count());
  const bool by_length = answer.finish_reason == engine::FinishReason::kLength;
  if (steps > request.max_tokens) return fmt::format("it has {} steps and max_tokens {}", steps, request.max_tokens);
  if (by_length && answer.stop_token) return "its end is the length, and a stop token";
  if (by_length && steps != request.max_tokens)
    return fmt::format("its end is the length, after {} of {} tokens", steps, request.max_tokens);
  if (!by_length && !answer.stop_token && request.stop_strings.empty()) return "it stops, and nothing stops it";
  if (answer.stop_token && !is_stop(*answer.stop_token))
    return fmt::format("its stop token {} is none of its request's", *answer.stop_token);
  if (std::any_of(answer.tokens.begin(), answer.tokens.end(), is_stop)) return "a stop token is inside its answer";
  return {};
}

}  // namespace

void AnswerSteps::add(const engine::Update& update) {
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

std::vector<Sha256::Digest> step_leaves(const AnswerSteps& answer) {
  std::vector<Sha256::Digest> leaves;
  for (std::size_t step = 0; step < answer.step_count(); ++step)
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
  OwnedJson json = Json{{"salt", to_hex(salt)}};
  (*json)["prompt_tokens"] = prompt;
  return canonical_json(*json);
}

template <typename AnyJson>
Opening read_opening(const AnyJson& json, const std::string& name) {
  try {
    return {digest_in(json.at("salt")), tokens_in(json.at("prompt_tokens"))};
  } catch (const nlohmann::detail::exception& error) {
    fail(ErrorCode::kInvalidArgument, "{}: does not open a prompt: {}", name, json_problem(error));
  } catch (const Error& error) {
    fail(ErrorCode::kInvalidArgument, "{}: does not open a prompt: {}", name, error.what());
  }
}
template Opening read_opening(const Json&, const std::string&);
template Opening read_opening(const nlohmann::ordered_json&, const std::string&);

Opening parse_opening(std::string_view text, const std::string& name) {
  OwnedJson json;
  try {
    json = parse_json(text, name);
  } catch (const Json::exception& error) {
    fail(ErrorCode::kInvalidArgument, "{}: does not open a prompt: {}", name, json_problem(error));
  } catch (const Error& error) {
    fail(ErrorCode::kInvalidArgument, "{}: does not open a prompt: {}", name, error.what());
  }
  return read_opening(*json, name);
}

std::string statement_of(const Receipt& receipt) {
  const AnswerSteps& answer = receipt.answer;
  std::string token_words;
  append_words(token_words, answer.tokens);
  const Json subject = {{"name", "answer"}, {"digest", {{"sha256", to_hex(sha256(token_words))}}}};
  OwnedJson root =
      Json{{"_type", kStatementType}, {"subject", Json::array({subject})}, {"predicateType", kPredicateType}};
  Json& predicate = (*root)["predicate"];
  predicate = {
      {"engine", {{"name", "reprofuse"}, {"version", receipt.version}}},
      {"contract", receipt.contract},
      {"artifacts", artifacts_json(receipt.artifacts)},
      {"request", request_json(receipt.request)},
      {"answer",
       {{"finish_reason", engine::finish_reason_name(answer.finish_reason)},
        {"stop_token", answer.stop_token ? Json(*answer.stop_token) : Json()},
        {"digest", answer.digest}}},
      {"steps", {{"count", std::to_string(answer.step_count())}, {"root", receipt.steps_root}, {"roots", nullptr}}},
      {"environment", {{"device", receipt.device}, {"isa", receipt.isa.empty() ? Json() : Json(receipt.isa)}}},
      {"previous", or_null(receipt.previous)},
      {"nonce", or_null(receipt.nonce)},
      {"issuer",
       {{"key_id", receipt.issuer.id()},
        {"public_key",
         to_base64({reinterpret_cast<const char*>(receipt.issuer.raw().data()), receipt.issuer.raw().size()})}}}};
  if (receipt.prompt_commitment)
    predicate["prompt"]["commitment"] = *receipt.prompt_commitment;
  else
    predicate["prompt"]["tokens"] = receipt.request.prompt;
  predicate["request"]["stop_tokens"] = receipt.request.stop_tokens;
  predicate["request"]["stop_strings"] = receipt.request.stop_strings;
  predicate["answer"]["tokens"] = answer.tokens;
  for (const Sha256::Digest& step : answer.roots) predicate["steps"]["roots"].push_back(to_hex(step));
  return canonical_json(*root);
}

Receipt read_statement(std::string_view payload, const std::string& name, const JsonLimits& limits) {
  try {
    const OwnedJson json = parse_json(payload, name, limits);
    require(json->at("predicateType") == kPredicateType, "its predicateType is {}, not {}",
            shown(json->at("predicateType")), kPredicateType);
    return read_predicate(json->at("predicate"));
  } catch (const Json::exception& error) {
    fail(ErrorCode::kInvalidArgument, "{}: is no receipt: {}", name, json_problem(error));
  } catch (const Error& error) {
    fail(ErrorCode::kInvalidArgument, "{}: is no receipt: {}", name, error.what());
  }
}

void require_canonical(const Receipt& receipt, std::string_view payload, const std::string& name,
                       const JsonLimits& limits) {
  const std::string written = statement_of(receipt);
  if (written == payload) return;
  const OwnedJson said = parse_json(payload, name, limits), again = parse_json(written, name, limits);
  fail(ErrorCode::kInvalidArgument, "{}: is no receipt: {}", name, difference_between(*said, *again));
}

Receipt parse_statement(std::string_view payload, const std::string& name) {
  Receipt receipt = read_statement(payload, name);
  require_canonical(receipt, payload, name);
  return receipt;
}

std::string contradiction_in(const Receipt& receipt) {
  const AnswerSteps& answer = receipt.answer;
  if (answer.step_count() == 0) return "it has no step";
  if (std::string wrong = contradiction_in_end(receipt.request, answer); !wrong.empty()) return wrong;
  const auto prompt = static_cast<std::int64_t>(receipt.request.prompt.size());
  if (prompt >= receipt.artifacts.context || receipt.request.max_tokens > receipt.artifacts.context - prompt)
    return fmt::format("a prompt of {} tokens and an answer of {} do not fit into its context of {}", prompt,
                       receipt.request.max_tokens, receipt.artifacts.context);
  if (answer.roots.empty()) return {};
  if (answer.roots.size() != answer.step_count())
    return fmt::format("it has {} steps and {} roots", answer.step_count(), answer.roots.size());
  if (to_hex(merkle_root(step_leaves(answer))) != receipt.steps_root) return "its roots do not have its steps' root";
  if (tree_digest(answer.roots) != answer.digest) return "its roots do not have its answer's digest";
  return {};
}

}  // namespace reprofuse::receipt
