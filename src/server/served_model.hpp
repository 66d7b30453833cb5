// The model that a server has: its files, its weights and the engine that answers with them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/model_files.hpp"
#include "engine/service.hpp"
#include "model/model.hpp"
#include "receipt/log.hpp"
#include "server/openai/call.hpp"

namespace reprofuse::server {

struct ServedModelOptions {
  std::string folder;
  std::string name;                      // empty: the folder's
  std::int64_t max_positions = 0;        // of the longest text; 0: as the model declares
  std::optional<std::int64_t> kv_bytes;  // none: engine::default_kv_bytes()
  bool may_raise_rows = false;           // engine.max_rows: see rows_of_pass()
  engine::EngineOptions engine;          // but for kv_pages, which kv_bytes gives
  engine::ServiceOptions service;
  text::DateTime date;
  engine::SpecialTokens special_tokens = engine::SpecialTokens::kAsTokens;  // in contents and prompts
  std::string version;
  std::shared_ptr<model::Team> team;          // that computes the model; null: one rank alone
  std::optional<receipt::SigningKey> key;     // none: no receipts
  std::shared_ptr<receipt::Log> receipt_log;  // where they are kept; null: nowhere
};

// Rows of a pass: engine.max_rows; raised to 2048 if the caller allows it and the device is asynchronous with at least
// 8 GiB free.
std::int64_t rows_of_pass(const ServedModelOptions& options, bool is_asynchronous, std::int64_t free_bytes);

std::int64_t seconds_since_1970();  // what the API calls "created"

class ServedModel {
 public:
  // The fingerprint is taken of the bytes that the model was made of.
  ServedModel(const Context& context, const ServedModelOptions& options, const Progress& progress);

  const ServedFacts& facts() const { return facts_; }
  engine::Service& service() { return *service_; }
  const engine::Service& service() const { return *service_; }
  std::string kv_summary() const;  // "512 pages of 64 tokens: 32768 tokens in 1.00 GiB"

 private:
  receipt::TextFiles text_files_;  // as they were before they were read
  engine::ModelFiles files_;
  std::shared_ptr<const model::HashedSource> source_;
  model::Model model_;
  std::unique_ptr<receipt::Issuer> issuer_;
  ServedFacts facts_;
  std::unique_ptr<engine::Service> service_;
};

}  // namespace reprofuse::server
