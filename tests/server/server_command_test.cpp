// `reprofuse serve` as the one who starts it meets it: what it prints, signals, and being started again.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "server/server_test_support.hpp"
#include "support/files.hpp"

namespace reprofuse::server {
namespace {

// The real binary, and what it writes.
class ServeProcess {
 public:
  static constexpr const char* kClosed = "/dev/null";  // as the file of stderr: there is none

  explicit ServeProcess(std::vector<std::string> arguments, const char* key = nullptr, const std::string& err = "") {
    if (!err.empty()) err_ = err;
    if (std::find(arguments.begin(), arguments.end(), "--model") == arguments.end())
      arguments.insert(arguments.begin(), {"--model", REPROFUSE_BUNDLED_MODEL});
    arguments.insert(arguments.begin(), {REPROFUSE_CLI, "serve"});
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::string environment = key == nullptr ? "NO_KEY=1" : std::string("REPROFUSE_API_KEY=") + key;
    char* envp[] = {environment.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    const int flags = O_CREAT | O_WRONLY | O_TRUNC;
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out_.c_str(), flags, 0600);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err_.c_str(), flags, 0600);
    if (err == kClosed) posix_spawn_file_actions_addclose(&actions, STDERR_FILENO);
    EXPECT_EQ(posix_spawn(&process_, REPROFUSE_CLI, &actions, nullptr, argv.data(), envp), 0);
    posix_spawn_file_actions_destroy(&actions);
  }
  ~ServeProcess() {
    if (process_ > 0) end(SIGKILL);
  }
  ServeProcess(const ServeProcess&) = delete;
  ServeProcess& operator=(const ServeProcess&) = delete;

  std::string out() const { return read_whole_file(out_); }
  std::string err() const { return read_whole_file(err_); }

  int port() const {
    EXPECT_TRUE(soon([&] { return contains(out(), "\n"); })) << out();
    const std::string line = out();
    return std::stoi(line.substr(line.rfind(':') + 1));
  }

  pid_t process() const { return process_; }
  void send(int signal) const { kill(process_, signal); }

  // The exit status, or the signal that ended it, negative.
  int wait() {
    int status = 0;
    waitpid(std::exchange(process_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  int end(int signal) {
    send(signal);
    return wait();
  }

 private:
  TemporaryFolder folder_;
  std::string out_ = folder_.file("out");
  std::string err_ = folder_.file("err");
  pid_t process_ = 0;
};

httplib::Client client_of(int port) {
  httplib::Client client("127.0.0.1", port);
  client.set_read_timeout(kPatience);
  return client;
}

TEST(ServeCommand, PrintsWhereItIsAnswersAndEndsWithStatus0) {
  for (const int signal : {SIGTERM, SIGINT}) {
    ServeProcess server({"--port", "0", "--api-key", "on-the-command-line", "--api-key", "another-on-the-command-line",
                         "--allowed-origin", "https://a.example", "--allowed-origin", "https://b.example"},
                        "in-the-environment");
    auto client = client_of(server.port());
    EXPECT_EQ(server.out().find("listening on http://127.0.0.1:"), 0U);
    for (const char* line :
         {"fingerprint  fma-1-", "KV cache     ", " pages of 64 tokens: ", "date         2024-07-26"})
      EXPECT_TRUE(soon([&] { return contains(server.err(), line); })) << line << server.err();
    EXPECT_EQ(server.err().find("numerics     fma-1 on cpu, the default there; --numerics chooses another\n"), 0U);
    for (const char* key : {"on-the-command-line", "another-on-the-command-line", "in-the-environment"}) {
      client.set_bearer_token_auth(key);
      const auto result = post(client, "/v1/completions", {{"prompt", "a secret"}, {"max_tokens", 2}});
      ASSERT_TRUE(result);
      EXPECT_EQ(result->status, 200) << result->body;
    }
    EXPECT_EQ(server.end(signal), 0) << server.err();
    EXPECT_TRUE(contains(server.err(), " 200 POST /v1/completions ")) << server.err();
    for (const char* hidden : {"secret", "command-line", "environment"})
      EXPECT_FALSE(contains(server.err(), hidden)) << server.err();
  }
}

// So that a run of a study tells which servers give its bits.
TEST(ServeCommand, ARunOfAStudyHasItsFingerprint) {
  const TemporaryFolder folder;
  write_file(folder.file("task"), "What is 12 + 30?\n");
  const auto study = [&](const std::string& name, const std::string& options) {
    const std::string command = std::string(REPROFUSE_CLI) +
                                " study run --seeds 1 --max-tokens 1 --numerics fma-1 --model " +
                                REPROFUSE_BUNDLED_MODEL + " --task " + folder.file("task") + " --out " +
                                folder.file(name) + options + " > " + folder.file("out");
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return read_whole_file(folder.file(name));
  };
  ServeProcess server({"--port", "0"});
  auto client = client_of(server.port());
  const std::string fingerprint = Json::parse(client.Get("/v1/models")->body)["data"][0]["system_fingerprint"];
  const std::string field = R"("fingerprint":")" + fingerprint + '"';
  EXPECT_TRUE(contains(study("a.run", ""), field));
  EXPECT_FALSE(contains(study("b.run", " --date 2025-01-01"), field)) << "another date is another setting";
}

// A line of the log for each, of some 200 bytes.
void ask_for_health(int port, int times) {
  auto client = client_of(port);
  client.set_keep_alive(true);
  for (int i = 0; i < times; ++i) {
    const auto health = client.Get("/health", {{"X-Request-Id", std::string(128, 'a')}});
    ASSERT_TRUE(health && health->status == 200);
  }
}

std::string dropped_lines(int port) {
  auto client = client_of(port);
  const std::string text = client.Get("/metrics")->body;
  const std::string name = "reprofuse:dropped_log_lines_total{model_name=\"arithmetic-7m\"} ";
  const std::size_t begin = text.find(name) + name.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

TEST(ServeCommand, ALogThatCannotBeWrittenStopsNothing) {
  ServeProcess server({"--port", "0"}, nullptr, "/dev/full");
  ask_for_health(server.port(), 10);
  EXPECT_TRUE(soon([&] { return std::stod(dropped_lines(server.port())) >= 10; }));
  EXPECT_EQ(server.end(SIGTERM), 0);
}

TEST(ServeCommand, ALogThatNobodyReadsStopsNothing) {
  const TemporaryFolder folder;
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDWR | O_CLOEXEC);  // who never reads
  ASSERT_GE(reader, 0);
  ServeProcess server({"--port", "0"}, nullptr, pipe);
  ask_for_health(server.port(), 2'000);
  EXPECT_EQ(server.end(SIGTERM), 0);
  close(reader);
}

TEST(ServeCommand, ALogWhoseReaderLeftStopsNothing) {
  for (const bool at_once : {false, true}) {
    const TemporaryFolder folder;
    const std::string pipe = folder.file("pipe");
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ASSERT_GE(reader, 0);
    ServeProcess server({"--port", "0"}, nullptr, pipe);
    if (at_once) close(reader);
    const int port = server.port();
    if (!at_once) close(reader);
    ask_for_health(port, 10);
    EXPECT_TRUE(soon([&] { return std::stod(dropped_lines(port)) >= 10; }));
    EXPECT_EQ(server.end(SIGTERM), 0);
  }
}

// Whoever writes beyond the limit of a file's size is ended by SIGXFSZ, unless it asks not to be.
TEST(ServeCommand, ALogThatMayNotGrowStopsNothing) {
  rlimit own = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &own), 0);
  const rlimit small = {.rlim_cur = 64, .rlim_max = own.rlim_max};  // enough for what stdout says
  for (const bool from_the_start : {true, false}) {
    if (from_the_start) setrlimit(RLIMIT_FSIZE, &small);
    ServeProcess server({"--port", "0"});
    setrlimit(RLIMIT_FSIZE, &own);
    const int port = server.port();
    EXPECT_EQ(prlimit(server.process(), RLIMIT_FSIZE, &small, nullptr), 0);
    ask_for_health(port, 10);
    EXPECT_TRUE(soon([&] { return std::stod(dropped_lines(port)) >= 10; }));
    EXPECT_EQ(server.end(SIGTERM), 0);
    EXPECT_EQ(server.err().size() <= 64, from_the_start) << server.err();
    EXPECT_FALSE(contains(server.err(), "stopping"));
  }
}

TEST(ServeCommand, ASecondSignalDoesNotWaitForWhatIsUnderWay) {
  ServeProcess server({"--port", "0", "--quiet"});
  RawClient client(server.port());
  client.send(post_text("/v1/completions", endless_completion(true).dump()));
  EXPECT_TRUE(contains(client.read("data: "), "200 OK"));
  server.send(SIGTERM);
  EXPECT_TRUE(soon([&] { return contains(server.err(), "a second signal breaks them off"); }));
  EXPECT_EQ(server.end(SIGTERM), 128 + SIGTERM);
  EXPECT_FALSE(contains(client.read(), "[DONE]"));
}

TEST(ServeCommand, WhatIsUnderWayHasItsTimeAndNoMore) {
  ServeProcess server({"--port", "0", "--drain-seconds", "0"});
  RawClient client(server.port());
  client.send(post_text("/v1/completions", endless_completion(true).dump()));
  EXPECT_TRUE(contains(client.read("data: "), "200 OK"));
  EXPECT_EQ(server.end(SIGTERM), 1);
  EXPECT_TRUE(contains(server.err(), "1 request was broken off after 0 s")) << server.err();
  EXPECT_TRUE(contains(server.err(), "broken off: the server stopped")) << server.err();
  EXPECT_FALSE(contains(server.err(), "the client left")) << server.err();
}

TEST(ServeCommand, AfterAKillTheSamePortGivesTheSameAnswers) {
  const Json question = {
      {"prompt", "Tom has 3 boxes"}, {"temperature", 1}, {"seed", 7}, {"max_tokens", 8}, {"digest", true}};
  const auto choices_from = [&](int port) {
    auto client = client_of(port);
    return Json::parse(post(client, "/v1/completions", question)->body)["choices"];
  };
  ServeProcess first({"--port", "0"});
  const int port = first.port();
  const Json before = choices_from(port);
  RawClient open(port);
  open.send(post_text("/v1/completions", endless_completion(true).dump()));
  EXPECT_TRUE(contains(open.read("data: "), "200 OK"));
  EXPECT_EQ(first.end(SIGKILL), -SIGKILL);
  const ServeProcess second({"--port", std::to_string(port), "--max-batch", "2", "--speculate", "3"});
  EXPECT_EQ(choices_from(second.port()), before);
  ServeProcess third({"--port", std::to_string(port)});
  EXPECT_EQ(third.wait(), 1);
  EXPECT_TRUE(contains(third.err(), "another program listens there")) << third.err();
}

TEST(ServeCommand, MistakesAreToldBeforeAnythingIsLoaded) {
  ServeProcess open_to_all({"--port", "0", "--host", "0.0.0.0"});
  EXPECT_EQ(open_to_all.wait(), 1);
  EXPECT_TRUE(contains(open_to_all.err(), "there is no key")) << open_to_all.err();
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--port", "99999"}, "--port: '99999' is not a whole number from 0 to 65535\n"},
      {{"--max-rows", "1"}, "--max-rows 1 is below --max-batch 64: each answer needs a row\n"},
      {{"--page-size", "48"}, "--page-size: '48' is not a power of two\n"},
      {{"--kv-memory", "much"}, "--kv-memory: 'much' is not a number from 1e-06 to 1000000\n"},
      {{"--allowed-origin", "foo"}, "--allowed-origin: the allowed origin 'foo' is not one that a browser sends"},
      {{"--api-key", "two words"}, "--api-key: an API key is made of letters"},
      {{"--date", "today"}, "--date: "},
      {{"--prot", "80"}, "serve has no option '--prot'; did you mean '--port'?\n"}};
  for (const auto& [arguments, message] : cases) {
    ServeProcess process(arguments);
    EXPECT_EQ(process.wait(), 2) << message;
    EXPECT_EQ(process.err().find("reprofuse: " + message), 0U) << process.err();
    EXPECT_TRUE(contains(process.err(), "Try 'reprofuse serve --help'.")) << process.err();
    EXPECT_EQ(process.out(), "");
  }
}

TEST(ServeCommand, AClosedStderrIsNoSocket) {
  ServeProcess server({"--port", "0"}, nullptr, ServeProcess::kClosed);
  const int port = server.port();
  const std::string descriptor = "/proc/" + std::to_string(server.process()) + "/fd/2";
  char target[64] = {};
  EXPECT_GT(readlink(descriptor.c_str(), target, sizeof(target) - 1), 0);
  EXPECT_STREQ(target, "/dev/null");
  auto client = client_of(port);
  EXPECT_EQ(client.Get("/health")->status, 200);
  EXPECT_EQ(server.end(SIGTERM), 0);
}

TEST(ServeCommand, SaysThatItListensOnlyWhenRequestsAreAnswered) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--model", "/nowhere"}, {"--context", "99999"}, {"--kv-memory", "0.00001"}}) {
    ServeProcess process({"--port", "0", arguments[0], arguments[1]});
    EXPECT_EQ(process.wait(), 1) << process.err();
    EXPECT_EQ(process.out(), "") << arguments[1];
  }
  const ServeProcess ready({"--port", "0"});
  auto client = client_of(ready.port());  // which is known by what it says
  EXPECT_EQ(client.Get("/health")->status, 200);
}

}  // namespace
}  // namespace reprofuse::server
