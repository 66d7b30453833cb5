#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/hash.hpp"
#include "receipt/envelope.hpp"
#include "receipt/receipt.hpp"
#include "text/tokenizer/unicode.hpp"

namespace reprofuse::receipt {
namespace {

std::string manifest_root(std::string_view manifest) {
  std::vector<Sha256::Digest> leaves;
  while (!manifest.empty()) {
    const std::string_view line = manifest.substr(0, manifest.find('\n'));
    leaves.push_back(merkle_leaf({reinterpret_cast<const std::uint8_t*>(line.data()), line.size()}));
    manifest.remove_prefix(std::min(manifest.size(), line.size() + 1));
  }
  return to_hex(merkle_root(std::move(leaves)));
}

std::string or_none(const std::optional<std::string>& text) {
  return text.value_or("none");
}

}  // namespace

TextFiles::TextFiles(const std::string& folder) {
  Sha256 hash;
  for (const std::string_view name : kTextFiles) {
    const std::ifstream file(std::filesystem::path(folder) / name, std::ios::binary);
    std::ostringstream stream;
    if (file.is_open()) stream << file.rdbuf();
    const std::string bytes = stream.str();
    const std::string head = fmt::format("{} {} {}\n", name, file.is_open(), bytes.size());
    hash.update(head.data(), head.size());
    hash.update(bytes.data(), bytes.size());
    hashes_[std::string(name)] = file.is_open() ? std::optional(to_hex(sha256(bytes))) : std::nullopt;
  }
  digest_ = to_hex(hash.finish());
}

std::string TextFiles::digest() const {
  return digest_;
}

std::string settings_digest(std::string_view files_digest, std::string_view unicode,
                            const std::vector<std::int32_t>& stop_tokens, std::string_view date, std::int64_t context,
                            engine::SpecialTokens special_tokens) {
  const bool is_plain = special_tokens == engine::SpecialTokens::kPlain;
  return to_hex(
      sha256(fmt::format("files {} unicode {} stop {} date {} context {}{}\n", files_digest, unicode,
                         fmt::join(stop_tokens, ","), date, context, is_plain ? " special-tokens plain" : "")));
}

Artifacts artifacts_of(const engine::ModelFiles& files, const TextFiles& text_files, const std::string& manifest,
                       const std::string& date, std::int64_t context, engine::SpecialTokens special_tokens) {
  return {.model = to_hex(sha256(manifest)),
          .manifest_root = manifest_root(manifest),
          .files = text_files.hashes(),
          .chat_template = files.text().template_digest(),
          .unicode = text::unicode_versions(),
          .date = date,
          .context = context,
          .settings = settings_digest(text_files.digest(), text::unicode_versions(), files.stop_tokens(), date, context,
                                      special_tokens)};
}

std::string system_fingerprint(const Numerics& numerics, const Artifacts& artifacts, std::string_view version) {
  constexpr std::size_t kModelDigits = 16;
  constexpr std::size_t kSettingsDigits = 8;
  return fmt::format("{}{}-{}-{}-{}", numerics.pinned() ? "" : "unpinned-", numerics.name,
                     artifacts.model.substr(0, kModelDigits), artifacts.settings.substr(0, kSettingsDigits), version);
}

LocalArtifacts::LocalArtifacts(const engine::ModelFiles& files, const TextFiles& text_files, Artifacts here)
    : artifacts(std::move(here)),
      files_digest(text_files.digest()),
      stop_tokens(files.stop_tokens()),
      longest(files.checkpoint().config().max_positions) {}

std::string first_difference(const Artifacts& claimed, const LocalArtifacts& local) {
  const Artifacts& here = local.artifacts;
  std::string found;
  const auto compare = [&](std::string_view artifact, std::string_view what, const std::string& there,
                           const std::string& own) {
    if (found.empty() && there != own)
      found = fmt::format("{}: {} is {} in the receipt and {} here", artifact, what, there, own);
  };
  const auto compare_file = [&](std::string_view artifact, const std::string& file) {
    const auto at = claimed.files.find(file);
    const auto own = here.files.find(file);
    compare(artifact, file, at == claimed.files.end() ? "missing" : or_none(at->second),
            own == here.files.end() ? "missing" : or_none(own->second));
  };
  compare("model", "its digest", claimed.model, here.model);
  compare("model", "its manifest's root", claimed.manifest_root, here.manifest_root);
  compare_file("tokenizer", "tokenizer.json");
  compare("template", "its source", or_none(claimed.chat_template), or_none(here.chat_template));
  compare_file("template", "chat_template.jinja");
  compare_file("tokenizer", "tokenizer_config.json");
  if (!local.any_date) compare("date", "today", claimed.date, here.date);
  compare_file("settings", "generation_config.json");
  const std::int64_t longest = local.any_context ? std::min(claimed.context, local.longest) : here.context;
  compare("settings", "the longest text", std::to_string(claimed.context), std::to_string(longest));
  const auto settings = [&](engine::SpecialTokens mode) {
    return settings_digest(local.files_digest, claimed.unicode, local.stop_tokens, claimed.date, claimed.context, mode);
  };
  if (claimed.settings != settings(engine::SpecialTokens::kPlain))  // a receipt is of either mode
    compare("settings", "their digest", claimed.settings, settings(engine::SpecialTokens::kAsTokens));
  return found;
}

}  // namespace reprofuse::receipt
