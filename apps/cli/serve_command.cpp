#include <malloc.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/check.hpp"
#include "base/memory.hpp"
#include "cli/commands.hpp"
#include "cli/device_options.hpp"
#include "cli/option_values.hpp"
#include "cli/ranks.hpp"
#include "cli/serve_loading.hpp"
#include "cli/serve_log.hpp"
#include "cli/stop_signals.hpp"
#include "cli/terminal.hpp"
#include "cli/usage.hpp"
#include "engine/model_files.hpp"
#include "ops/context_state.hpp"
#include "server/server.hpp"

namespace reprofuse::cli {
namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kMaxQueue = std::int64_t{1} << 20;  // answers
constexpr std::size_t kMaxConnections = 65536;
constexpr int kMaxListed = 1 << 20;  // keys, or origins
constexpr milliseconds kBetweenLooks{50};
constexpr milliseconds kLastWords{2'000};  // for clients to take the error that ends their answers
constexpr std::chrono::seconds kForExit{10};

struct ServeArguments {
  std::optional<std::string> model;  // none: the bundled one
  std::optional<double> kv_gibibytes;
  std::optional<std::int64_t> max_rows;
  std::optional<std::string> date;
  std::string receipt_folder;  // empty: none
  std::string special_tokens{engine::to_string(engine::SpecialTokens::kAsTokens)};
  std::int64_t max_body_mebibytes = static_cast<std::int64_t>(server::ConnectionLimits{}.body_bytes >> 20);
  std::int64_t max_reply_mebibytes = static_cast<std::int64_t>(server::ConnectionLimits{}.reply_bytes >> 20);
  std::int64_t drain_seconds = 30;
  bool no_prefix_cache = false;
  bool quiet = false;
  server::ServerOptions server;
  server::ServedModelOptions served;
  DeviceArguments device;
  RankArguments ranks;

  std::string folder() const { return model_folder(model); }
};

void log_issuer(const receipt::Issuer& issuer, ServeLog& log) {
  const receipt::Log* kept = issuer.log();
  log.add(fmt::format("receipts     signed by the key {}, {}", issuer.public_key().id(),
                      kept == nullptr ? "kept by clients alone"
                      : kept->last_number() == 0
                          ? fmt::format("kept in {}", kept->folder())
                          : fmt::format("kept in {}, going on after number {}", kept->folder(), kept->last_number())));
  if (kept != nullptr && kept->missing() > 0)
    log.add(fmt::format("warning: {} of the {} receipts before are missing in {}; `reprofuse verify --log` tells which",
                        kept->missing(), kept->last_number(), kept->folder()));
}

void log_model(const server::ServedModel& model, const std::string& folder, ServeLog& log) {
  const Context& context = model.service().engine().model().context();
  const server::ServedFacts& facts = model.facts();
  const std::string date = text::to_string(facts.date);
  const int ranks = model.service().engine().model().share().ranks;
  log.add(fmt::format(
      "model        {} in {}\ncomputes     {} on {}{}\nfingerprint  {}\ncontext      {} tokens\nKV cache     {}",
      facts.id, folder, context.numerics(), ranks > 1 ? fmt::format("{} ranks, each ", ranks) : "",
      context.description(), facts.fingerprint, facts.max_positions, model.kv_summary()));
  if (const model::Exchange* exchange = model.service().engine().model().exchange())
    log.add(fmt::format("gathers      {}", exchange->team().gather_transport().description));
  log.add(fmt::format("date         {}{}", date,
                      facts.files->text().template_uses_date() ? ", which the chat template shows the model"
                                                               : ", for which the chat template does not ask"));
  log.add(fmt::format("contents     special tokens in them are {}",
                      facts.special_tokens == engine::SpecialTokens::kPlain ? "plain text" : "tokens"));
  if (facts.issuer != nullptr) log_issuer(*facts.issuer, log);
  if (!facts.files->text().has_tokenizer())
    log.add(fmt::format("warning: texts and chats are refused, and answers are token ids without text: {}",
                        facts.files->text().why_no_tokenizer()));
}

// False: a signal came first.
bool load(server::Server& server, const ServeArguments& arguments, const StopSignals& signals, ServeLog& log) {
  log.add(fmt::format("numerics     {} on {}{}", arguments.device.chosen_numerics(), arguments.device.device,
                      arguments.device.default_note()));
  Loading loading(arguments.device, arguments.served);
  for (bool told = false; !loading.is_done(milliseconds(0)); told = true) {
    if (signals.wait(kBetweenLooks) != 0) {
      if (arguments.served.team) end_before_serving();  // others may be reading for minutes
      loading.stop();
      return false;
    }
    if (!told && !loading.is_done(milliseconds(0)))
      log.add(fmt::format("loading {}; http://{}/health tells when it is there", arguments.served.folder,
                          server.address().to_string()));
  }
  std::shared_ptr<server::ServedModel> model = loading.take();
  log_model(*model, arguments.served.folder, log);
  const Context& context = model->service().engine().model().context();
  const bool allocates_in_driver = context.state().backend->capabilities().allocates_in_driver;
  server.serve_model(std::move(model));
  if (!allocates_in_driver) stay_within_control_groups();
  // Not before requests are answered.
  write_patiently(STDOUT_FILENO, fmt::format("listening on http://{}\n", server.address().to_string()), kLastWords);
  log.add("ready");
  return true;
}

// The ranks as their leader sees them. A leader that was itself stopped for so long that the others have given it up,
// and said so, has nothing to tell about them.
struct Ranks {
  const model::Team* team;  // null: one alone
  std::chrono::seconds timeout;
  bool was_stopped = false;

  template <typename Wait>
  int notice_gap(const Wait& wait) {
    const auto begin = std::chrono::steady_clock::now();
    const int signal = wait();
    was_stopped = was_stopped || std::chrono::steady_clock::now() - begin > timeout;
    return signal;
  }
};

// Where a rank is lost, the others must end, and mpirun soon ends this one: says so first, and ends after what is
// under way has got its error.
void end_without_rank(server::Server& server, const Ranks& ranks, ServeLog& log) {
  constexpr milliseconds kForClients{500};
  if (const std::string lost = ranks.team == nullptr ? "" : ranks.team->communicator().lost_rank(); !lost.empty())
    server.fail(std::make_exception_ptr(parallel::RankFailure(lost)));  // which an idle engine does not notice
  if (const std::exception_ptr failure = server.failure()) try {
      std::rethrow_exception(failure);
    } catch (const parallel::RankFailure& error) {
      if (!ranks.was_stopped) log.add(fmt::format("reprofuse: {}", error.what()));
      const auto end = std::chrono::steady_clock::now() + kForClients;
      server.break_off(kForClients);
      std::this_thread::sleep_until(end);  // whether anyone was being answered or not, /health says 503
      std::_Exit(EXIT_FAILURE);            // a pass that waits for the lost rank may never end
    } catch (...) {                        // requests are told
    }
}

void wait_for_signal(server::Server& server, Ranks& ranks, const StopSignals& signals, ServeLog& log) {
  bool told_of_failure = false;
  while (ranks.notice_gap([&] { return signals.wait(kBetweenLooks); }) == 0) {
    end_without_rank(server, ranks, log);
    if (told_of_failure || !server.failure()) continue;
    told_of_failure = true;
    log.add("the engine has failed; every request is refused from now on");
  }
  end_without_rank(server, ranks, log);  // it may have been mpirun that said stop
}

void drain(server::Server& server, const Ranks& ranks, std::chrono::seconds timeout, const StopSignals& signals,
           ServeLog& log) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  log.add(fmt::format("stopping: no new requests; those under way have {} s; a second signal breaks them off",
                      timeout.count()));
  while (!server.drain(kBetweenLooks)) {
    end_without_rank(server, ranks, log);
    if (const int number = signals.wait(milliseconds(0)); number != 0) std::_Exit(128 + number);
    if (std::chrono::steady_clock::now() < deadline) continue;
    const std::size_t unfinished = server.connections();
    end_within(kForExit);
    server.break_off(kLastWords);
    fail(ErrorCode::kInternal, "{} {} broken off after {} s", unfinished,
         unfinished == 1 ? "request was" : "requests were", timeout.count());
  }
}

// Before anything is loaded.
void open_receipt_log(ServeArguments& arguments) {
  server::ServedModelOptions& served = arguments.served;
  check_usage(served.key.has_value(), "--receipt-dir needs a key to sign with, in the file that REPROFUSE_KEY names");
  reading_option("--receipt-dir", [&] {
    require_pinned(find_contract(arguments.device.chosen_numerics()));
    served.receipt_log = std::make_shared<receipt::Log>(arguments.receipt_folder, served.key->public_key());
  });
}

void set_pass_size(ServeArguments& arguments) {
  engine::EngineOptions& engine = arguments.served.engine;
  arguments.served.may_raise_rows = !arguments.max_rows;
  engine.max_rows = arguments.max_rows.value_or(std::max(engine.max_rows, engine.max_batch));
}

void complete(ServeArguments& arguments) {
  if (const char* key = std::getenv("REPROFUSE_API_KEY"); key != nullptr && *key != '\0') {
    reading_option("REPROFUSE_API_KEY", [&] { server::ApiKeys({key}); });
    arguments.server.api_keys.emplace_back(key);
  }
  if (const char* key = std::getenv("REPROFUSE_KEY"); key != nullptr && *key != '\0')
    arguments.served.key = receipt::signing_key_of_environment();
  if (!arguments.receipt_folder.empty()) open_receipt_log(arguments);
  arguments.server.limits.reply_bytes = static_cast<std::size_t>(arguments.max_reply_mebibytes) << 20;
  arguments.server.limits.body_bytes = static_cast<std::size_t>(arguments.max_body_mebibytes) << 20;
  arguments.server.version = kVersion;
  arguments.served.version = kVersion;
  arguments.served.folder = arguments.folder();
  set_pass_size(arguments);
  arguments.served.engine.prefix_cache = !arguments.no_prefix_cache;
  if (arguments.kv_gibibytes)
    arguments.served.kv_bytes = static_cast<std::int64_t>(*arguments.kv_gibibytes * static_cast<double>(1 << 30));
  arguments.served.special_tokens = *engine::special_tokens_from(arguments.special_tokens);
  if (arguments.date)
    arguments.served.date = reading_option("--date", [&] { return text::parse_date(*arguments.date); });
}

// What is wrong whatever the machine and the model.
void check_arguments(const ServeArguments& arguments) {
  const engine::EngineOptions& engine = arguments.served.engine;
  check_usage(engine.max_rows >= engine.max_batch,
              fmt::format("--max-rows {} is below --max-batch {}: each answer needs "
                          "a row",
                          engine.max_rows, engine.max_batch));
  reading_option("--api-key", [&] { server::ApiKeys(arguments.server.api_keys); });
  reading_option("--allowed-origin", [&] { server::Cors(arguments.server.allowed_origins); });
}

// Signals are for rank 0, which ends the others when it has answered what it had.
bool run_as_server_follower(const ServeArguments& arguments) {
  const std::shared_ptr<model::Team>& team = arguments.served.team;
  if (!team || team->leads()) return false;
  for (const int number : {SIGINT, SIGTERM, kStopOfRanks}) std::signal(number, SIG_IGN);
  return run_as_follower(team, [&](std::int32_t) {
    return std::make_unique<model::Model>(make_context(arguments.device, team),
                                          engine::ModelFiles(arguments.folder()).source(),
                                          arguments.served.max_positions, Progress{}, model::TeamPlace{team});
  });
}

void run_serve_command(ServeArguments arguments) {
  const StopSignals signals(kStopOfRanks);  // first, since the threads of MPI inherit it
  arguments.served.team = open_team(arguments.ranks, &signals);
  if (run_as_server_follower(arguments)) return;
  complete(arguments);
  check_arguments(arguments);
  // Memory of large bodies goes back to the system when they are gone. Else glibc would keep more and more of it.
  mallopt(M_MMAP_THRESHOLD, 8 << 20);
  if (has_memory_limit()) mallopt(M_ARENA_MAX, 1);  // what one thread gives back is for all
  // A log or an answer that cannot be written is an error where it is written, and nothing more.
  for (const int number : {SIGPIPE, SIGXFSZ}) std::signal(number, SIG_IGN);
  ServeLog log(STDERR_FILENO);
  arguments.server.dropped_log_lines = [&log] { return log.dropped(); };
  server::RequestLog log_request = [&log](const server::RequestLogEntry& entry) { log.add(line_of(entry)); };
  server::Server server(arguments.server, arguments.quiet ? server::RequestLog() : log_request);
  if (!load(server, arguments, signals, log)) return;
  Ranks ranks{arguments.served.team.get(), std::chrono::seconds(arguments.ranks.timeout_seconds)};
  wait_for_signal(server, ranks, signals, log);
  drain(server, ranks, std::chrono::seconds(arguments.drain_seconds), signals, log);
}

template <typename Int>
void add_number(CLI::App& command, const char* name, Int& value, Int min, Int max, const char* help) {
  command.add_option(name, value, help)->check(whole_number<Int>(min, max))->type_name("N")->capture_default_str();
}

std::string problem_of_power(const std::string& number) {
  return std::has_single_bit(std::stoul(number)) ? "" : fmt::format("'{}' is not a power of two", number);
}

void add_network_options(CLI::App& command, ServeArguments& arguments) {
  server::ServerOptions& server = arguments.server;
  command.add_option("--host", server.host, "Address to listen on")->type_name("HOST")->capture_default_str();
  command.add_option("--port", server.port, "Port to listen on; 0: any free one, which is printed")
      ->check(whole_number<int>(0, 65535))
      ->type_name("N")
      ->capture_default_str();
  command
      .add_option("--api-key", server.api_keys,
                  "A key that clients must send; may be given more than once. REPROFUSE_API_KEY in the environment is "
                  "one, too, and does not show in the list of processes")
      ->type_name("KEY")
      ->expected(1, kMaxListed)
      ->allow_extra_args(false);
  command.add_flag("--allow-public-without-key", server.public_without_key,
                   "Listen on an address that other machines can reach, and let everyone ask");
  command.add_flag("--metrics-without-key", server.metrics_without_key,
                   "Let everyone read /metrics, which tell how much others ask");
  command
      .add_option("--allowed-origin", server.allowed_origins,
                  "A site whose pages may ask from a browser, as https://example.org, or *: any; may be given more "
                  "than once")
      ->type_name("ORIGIN")
      ->expected(1, kMaxListed)
      ->allow_extra_args(false);
  command.add_flag("--allow-priority", server.rules.allow_priority,
                   "Let clients say, by the field priority, whose answers go first");
  command.add_flag("--report-cached-tokens", server.rules.report_cached_tokens,
                   "Say in the usage how much of a prompt the prefix cache had, which tells what others asked");
  add_number<std::size_t>(command, "--max-connections", server.limits.connections, 1, kMaxConnections,
                          "Open connections; where all are in use, one that waits for a request makes room");
  command
      .add_option("--max-connections-per-client", server.limits.connections_per_client,
                  "Connections of one address (default: seven eighths of all); one key there has at most half of what "
                  "others leave")
      ->check(whole_number<std::size_t>(1, kMaxConnections))
      ->type_name("N");
  add_number<std::int64_t>(
      command, "--max-reply-memory", arguments.max_reply_mebibytes, 1, 1 << 20,
      "Memory in MiB of answers that clients have not taken yet; one client has at most half of what "
      "others leave");
  add_number<std::int64_t>(command, "--max-body", arguments.max_body_mebibytes, 1, 1024, "Largest request in MiB");
  add_number<std::int64_t>(command, "--drain-seconds", arguments.drain_seconds, 0, 86400,
                           "Time for what is under way when a signal stops the server");
  command.add_flag("--quiet", arguments.quiet, "No line for each request");
}

void add_engine_options(CLI::App& command, ServeArguments& arguments) {
  server::ServedModelOptions& served = arguments.served;
  add_number<std::int64_t>(command, "--max-queue", served.service.max_queue, 1, kMaxQueue,
                           "Answers that may wait or run; one more is refused");
  command
      .add_option("--max-answers-per-client", served.service.max_answers_per_client,
                  "Answers of one API key, or of one address where there is no key (default: seven eighths of all)")
      ->check(whole_number<std::int64_t>(1, kMaxQueue))
      ->type_name("N");
  command
      .add_option("--max-tokens-per-client", served.service.max_tokens_per_client,
                  "Tokens that they may come to, prompts included (default: four batches of texts of full length)")
      ->check(whole_number<std::int64_t>(1, std::int64_t{1} << 40))
      ->type_name("N");
  add_number<std::int64_t>(command, "--max-batch", served.engine.max_batch, 1, engine::kMaxBatch,
                           "Answers in one pass");
  command
      .add_option(
          "--max-rows", arguments.max_rows,
          "Tokens in one pass (default: 512, on a GPU with 8 GiB to spare 2048; --max-batch where that is more)")
      ->check(whole_number<std::int64_t>(1, engine::kMaxPassRows))
      ->type_name("N");
  command.add_option("--context", served.max_positions, "The longest text (default: as the model declares)")
      ->check(whole_number<std::int64_t>(1, kMaxTokens))
      ->type_name("N");
  command
      .add_option("--kv-memory", arguments.kv_gibibytes,
                  "Memory for keys and values (default: what --max-batch answers of full length need, but on a CPU at "
                  "most a quarter of the memory available, on a GPU nine tenths of what the weights leave free)")
      ->check(real_number(1e-6, 1e6))
      ->type_name("GIB");
  command.add_option("--page-size", served.engine.page_size, "Tokens in a page of keys and values, a power of two")
      ->check(whole_number<std::int32_t>(engine::kMinPageSize, engine::kMaxPageSize))
      ->check(CLI::Validator(problem_of_power, ""))
      ->type_name("N")
      ->capture_default_str();
  command.add_flag("--no-prefix-cache", arguments.no_prefix_cache, "Compute the beginning of every prompt anew");
  add_number<int>(command, "--speculate", served.engine.speculation, 0, engine::kMaxSpeculation,
                  "Tokens to guess ahead from the text itself and check in one pass");
  command.footer(
      "None of --max-queue, --max-batch, --max-rows, --kv-memory, --page-size, --no-prefix-cache, --speculate,\n"
      "--threads, --isa, --tensor-parallel and, with the same --numerics, --device changes an answer.");
}

}  // namespace

void add_serve_command(CLI::App& app) {
  auto arguments = std::make_shared<ServeArguments>();
  CLI::App* command = app.add_subcommand("serve", "Answer over HTTP, by the OpenAI API, and show a page to chat");
  add_model_option(*command, arguments->model);
  command
      ->add_option("--served-model-name", arguments->served.name, "What clients call it (default: the folder's name)")
      ->type_name("NAME");
  command
      ->add_option("--date", arguments->date,
                   fmt::format("What a chat template sees as today (default: {})", text::to_string(text::DateTime{})))
      ->type_name("DATE");
  command
      ->add_option("--receipt-dir", arguments->receipt_folder,
                   "Folder that keeps every receipt that clients ask for; REPROFUSE_KEY names the file of the key")
      ->type_name("DIR");
  add_special_tokens_option(*command, arguments->special_tokens);
  add_network_options(*command, *arguments);
  add_engine_options(*command, *arguments);
  add_device_options(*command, arguments->device);
  add_rank_options(*command, arguments->ranks);
  command->callback([arguments] { run_serve_command(*arguments); });
}

}  // namespace reprofuse::cli
