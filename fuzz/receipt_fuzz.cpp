// The target: receipts, openings and saved replies, as `reprofuse verify` and the server read them.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/check.hpp"
#include "bytes_target.hpp"
#include "engine/job.hpp"
#include "receipt/replay.hpp"
#include "reprofuse/context.hpp"

namespace reprofuse::fuzz {
namespace {

using receipt::Envelope;
using receipt::Evidence;
using receipt::Receipt;
using Json = nlohmann::json;

// The first byte says which reader the rest is for; without one of these it is a file.
constexpr std::uint8_t kReadStatement = 's';
constexpr std::uint8_t kReadOpening = 'o';

Receipt some_receipt(bool with_roots) {
  Receipt receipt{.version = "1.2.3",
                  .contract = std::string(kDefaultNumerics),
                  .artifacts = {},
                  .request = {},
                  .prompt_commitment = {},
                  .answer = {},
                  .steps_root = std::string(64, '0'),
                  .device = "cpu",
                  .isa = "avx2",
                  .previous = {},
                  .nonce = "n",
                  .issuer = receipt::PublicKey({1, 2, 3})};
  receipt.request.prompt = {1, 2, 3};
  receipt.request.stop_strings = {"a"};
  receipt.artifacts = {.model = receipt.steps_root,
                       .manifest_root = receipt.steps_root,
                       .files = {},
                       .chat_template = {},
                       .unicode = "15",
                       .date = "2024-07-26",
                       .context = 64,
                       .settings = receipt.steps_root};
  for (const std::string_view file : receipt::kTextFiles) receipt.artifacts.files[std::string(file)] = std::nullopt;
  receipt.answer.tokens = {4, 5};
  receipt.answer.digest = "tree-1:" + receipt.steps_root;
  if (with_roots) receipt.answer.roots.resize(2);
  return receipt;
}

std::string golden(const std::string& file) {
  std::ifstream stream(REPROFUSE_GOLDEN_RECEIPTS "/" + file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// That somebody has signed.
const Envelope& golden_receipt() {
  static const Envelope envelope = receipt::parse_envelope(golden("cpu/fma-1-greedy.json"), "golden");
  return envelope;
}

// A reply whose choices have a receipt, and none.
std::string reply_with_receipt() {
  Json reply = Json::parse(golden("reply-fma-1.json"));
  const Receipt receipt = receipt::parse_statement(golden_receipt().payload, "golden");
  reply["choices"].push_back({{"receipt", Json::parse(golden_receipt().text())},
                              {"token_ids", receipt.answer.tokens},
                              {"prompt_token_ids", receipt.request.prompt},
                              {"digest", receipt.answer.digest},
                              {"finish_reason", finish_reason_name(receipt.answer.finish_reason)},
                              {"stop_reason", nullptr},
                              {"message", {{"content", "not what they spell"}}}});
  return reply.dump();
}

const Tokenizer& tokenizer() {
  static const Tokenizer tokenizer = Tokenizer::load(REPROFUSE_BUNDLED_MODEL "/tokenizer.json");
  return tokenizer;
}

// What an engine could answer, with logits that nobody signed: every number of tokens diverges.
std::optional<std::string> try_replay(const Receipt& receipt) {
  const receipt::Claim claim{.contract = receipt.contract,
                             .request = receipt.request,
                             .answer = receipt.answer,
                             .steps_root = receipt.steps_root};
  for (std::size_t count = 0; count <= claim.answer.tokens.size() + 1 && count < 8; ++count) {
    receipt::Replay replay(claim, receipt::Level::kLogits);
    engine::Update update{
        .choice = 0, .prompt = {}, .tokens = {}, .end = engine::End{}, .cached_prompt_tokens = 0, .at = {}};
    for (std::size_t i = 0; i < count; ++i) {
      engine::AnswerToken token{};
      token.id = i < claim.answer.tokens.size() ? claim.answer.tokens[i] : 1;
      update.tokens.push_back(token);
    }
    replay.add(update);
    receipt::Report report;
    replay.report_to(report);
    if (report.is_open()) return "a replay of nothing is equal";
  }
  return std::nullopt;
}

std::optional<std::string> try_statement(const std::string& text, Sabotage sabotage) {
  Receipt receipt = receipt::parse_statement(text, "fuzz");
  if (sabotage == Sabotage::kAlterResult) receipt.answer.tokens.push_back(1);
  if (receipt::statement_of(receipt) != text) return "written again, the statement is another";
  receipt::contradiction_in(receipt);
  return try_replay(receipt);
}

std::optional<std::string> try_opening(const std::string& text, Sabotage sabotage) {
  const receipt::Opening opening = receipt::parse_opening(text, "fuzz");
  receipt::Opening again = receipt::parse_opening(opening.text(), "written");
  if (sabotage == Sabotage::kAlterResult) again.prompt.push_back(1);
  if (again.commitment() != opening.commitment()) return "written and read again, it opens another prompt";
  return std::nullopt;
}

// As if its replay had found it to be right: nothing is shown but what the tokens spell, up to where they stop.
bool shows_what_tokens_spell(Evidence evidence) {
  if (!evidence.claim) return true;
  check_text(evidence, tokenizer());
  const std::optional<std::string> shown = facts_of(evidence, tokenizer()).answer;
  const auto spells = [&](bool skip_special_tokens) {
    engine::AnswerText spelled(tokenizer(), {}, false, skip_special_tokens);
    std::string text;
    for (const std::int32_t token : evidence.claim->answer.tokens) text += spelled.push(token);
    return (text + spelled.flush()).starts_with(*shown);
  };
  return !shown || spells(false) || spells(true);
}

std::optional<std::string> try_evidence(Evidence& evidence) {
  if (evidence.signature_holds && evidence.envelope->payload != golden_receipt().payload)
    return "a signature by nobody";
  if (!evidence.model_prefix.empty() && evidence.envelope) return "a reply that is an envelope";
  if (!shows_what_tokens_spell(evidence)) return "a text that the tokens do not spell";
  check_contract(evidence);
  check_artifacts(evidence, {});
  if (evidence.report.is_open()) return "the artifacts of nobody";
  return std::nullopt;
}

// Whatever the text: no exception, and no signature that is right but the one that is.
std::optional<std::string> try_file(const std::string& text, Sabotage sabotage) {
  std::vector<Evidence> all = receipt::examine_all(text, "fuzz", std::nullopt);
  const auto is_read = [](const Evidence& evidence) { return evidence.claim || evidence.envelope; };
  require(std::any_of(all.begin(), all.end(), is_read), "neither a receipt nor a reply");
  if (sabotage == Sabotage::kAlterResult) all.front().envelope.emplace();
  for (Evidence& evidence : all)
    if (auto violation = try_evidence(evidence)) return violation;
  if (Json::parse(text).contains("choices")) return std::nullopt;
  if (all.front().envelope->text() != receipt::parse_envelope(text, "fuzz").text())
    return "written again, the envelope is another";
  return std::nullopt;
}

}  // namespace

Outcome try_input(std::span<const std::uint8_t> input, Sabotage sabotage) {
  if (input.empty()) return {};
  const std::string text(input.begin(), input.end());
  return outcome_of([&] {
    switch (input.front()) {
      case kReadStatement: return try_statement(text.substr(1), sabotage);
      case kReadOpening: return try_opening(text.substr(1), sabotage);
      default: return try_file(text, sabotage);
    }
  });
}

std::vector<Bytes> valid_inputs() {
  std::vector<std::string> texts;
  for (const bool with_roots : {false, true}) {
    const std::string statement = receipt::statement_of(some_receipt(with_roots));
    texts.push_back(static_cast<char>(kReadStatement) + statement);
    texts.push_back(Envelope{statement, "key", std::string(64, 's')}.text());
  }
  texts.push_back(golden_receipt().text());
  texts.push_back(golden("reply-fma-1.json"));
  texts.push_back(reply_with_receipt());
  texts.push_back(static_cast<char>(kReadOpening) + receipt::Opening{.salt = {}, .prompt = {1, 2}}.text());
  std::vector<Bytes> inputs;
  for (const std::string& text : texts) inputs.emplace_back(text.begin(), text.end());
  return inputs;
}

std::vector<std::string_view> dictionary() {
  return {
      R"("choices":[{"token_ids":[1],"prompt_token_ids":[1],"digest":"tree-1:","finish_reason":"stop","stop_reason":null}],)",
      R"("system_fingerprint":"fma-1-0-0-0",)",
      R"("commitment":"",)",
      R"("roots":[],)",
      R"("max_tokens":"0",)",
      R"("receipt":{},)",
      R"("receipt_opening":{"prompt_tokens":[1],"salt":""},)",
      R"("message":{"content":[]},)",
      R"("text":"",)",
      R"("stop_reason":"a",)",
      "null",
      "true",
      "1e9",
      "-1",
      "99999999999999999999",
      "\\ud800",
      "\xff",
      "{",
      "}",
      "[[[[[[[[[["};
}

bool takes_every_input() {
  return false;
}

void repair(Bytes&) {}  // a changed payload is still an envelope

}  // namespace reprofuse::fuzz
