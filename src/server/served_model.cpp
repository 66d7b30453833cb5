#include "server/served_model.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <new>
#include <utility>

#include "base/check.hpp"
#include "ops/context_state.hpp"

namespace reprofuse::server {
namespace {

std::string name_of(const ServedModelOptions& options, const engine::ModelFiles& files) {
  return options.name.empty() ? std::filesystem::canonical(files.path()).filename().string() : options.name;
}

std::unique_ptr<engine::Engine> make_engine(const model::Model& model, const ServedModelOptions& options,
                                            const engine::TextFormat& text) {
  engine::EngineOptions engine = options.engine;
  const auto& backend = *model.context().state().backend;
  engine.max_rows = rows_of_pass(options, backend.capabilities().asynchronous, backend.free_bytes());
  engine.max_prompt_logit_rows = engine::default_prompt_logit_rows(model, engine);
  const std::int64_t bytes = options.kv_bytes ? *options.kv_bytes : engine::default_kv_bytes(model, engine);
  engine.kv_pages = engine::kv_pages_within(model, bytes, engine.page_size);
  require(engine.kv_pages > 0, "{} bytes of KV cache hold not one page of {} tokens, which takes {} bytes", bytes,
          engine.page_size, model::KvCache::bytes_per_page(model.context(), model.own_config(), engine.page_size));
  // Else the memory of a machine would decide how long an answer may be.
  require(engine.kv_pages * engine.page_size >= model.max_positions(),
          "{:.2f} GiB of KV cache hold {} tokens, fewer than the {} of the longest text: say --context {} or less, or "
          "give more with --kv-memory",
          static_cast<double>(bytes) / static_cast<double>(1 << 30), engine.kv_pages * engine.page_size,
          model.max_positions(), engine.kv_pages * engine.page_size);
  try {
    return std::make_unique<engine::Engine>(model, engine,
                                            text.has_tokenizer() ? std::optional(text.tokenizer()) : std::nullopt);
  } catch (const std::bad_alloc&) {
    fail(ErrorCode::kInvalidArgument, "there is no memory for {:.2f} GiB of KV cache: ask for less with --kv-memory",
         static_cast<double>(bytes) / static_cast<double>(1 << 30));
  }
}

}  // namespace

std::int64_t rows_of_pass(const ServedModelOptions& options, bool is_asynchronous, std::int64_t free_bytes) {
  constexpr std::int64_t kMuch = std::int64_t{8} << 30;
  constexpr std::int64_t kManyRows = 2048;
  const bool raises = options.may_raise_rows && is_asynchronous && free_bytes >= kMuch;
  return raises ? std::max(options.engine.max_rows, kManyRows) : options.engine.max_rows;
}

std::int64_t seconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

ServedModel::ServedModel(const Context& context, const ServedModelOptions& options, const Progress& progress)
    : text_files_(options.folder),
      files_(options.folder),
      source_(std::make_shared<model::HashedSource>(files_.source())),
      model_(context, source_, options.max_positions, progress, {options.team}) {
  facts_.id = name_of(options, files_);
  facts_.files = &files_;
  facts_.created = seconds_since_1970();
  facts_.date = options.date;
  facts_.special_tokens = options.special_tokens;
  auto engine = make_engine(model_, options, files_.text());
  facts_.max_positions = engine->max_positions();
  require(receipt::TextFiles(options.folder) == text_files_, "{}: its files were changed while the model was loaded",
          options.folder);
  facts_.contract = context.numerics();
  const receipt::Artifacts artifacts =
      receipt::artifacts_of(files_, text_files_, source_->manifest(), text::to_string(facts_.date),
                            facts_.max_positions, facts_.special_tokens);
  facts_.local_artifacts = receipt::LocalArtifacts(files_, text_files_, artifacts);
  facts_.fingerprint = receipt::system_fingerprint(*context.state().numerics, artifacts, options.version);
  if (options.key && context.state().numerics->pinned())
    issuer_ = std::make_unique<receipt::Issuer>(*options.key, issuer_facts(context, artifacts, options.version),
                                                options.receipt_log);
  facts_.issuer = issuer_.get();
  service_ = std::make_unique<engine::Service>(std::move(engine), options.service);
}

std::string ServedModel::kv_summary() const {
  const engine::EngineOptions& options = service_->engine().options();
  const std::int64_t page = model::KvCache::bytes_per_page(model_.context(), model_.own_config(), options.page_size);
  return fmt::format("{} pages of {} tokens: {} tokens in {:.2f} GiB", options.kv_pages, options.page_size,
                     options.kv_pages * options.page_size,
                     static_cast<double>(options.kv_pages * page) / static_cast<double>(1 << 30));
}

}  // namespace reprofuse::server
