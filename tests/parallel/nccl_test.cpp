// Gathers by NCCL, with a stand-in for the library that runs in host memory and fails on demand.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "model/runner.hpp"
#include "ops/contract.hpp"
#include "parallel/communicator.hpp"
#include "parallel/stand_in_nccl.hpp"
#include "parallel/thread_ranks.hpp"
#include "study/probe/probe.hpp"
#include "study/seeded/models.hpp"
#include "support/host_backend.hpp"
#include "support/messages.hpp"

namespace reprofuse::parallel {
namespace {

constexpr const char* kVariable = "REPROFUSE_NCCL_LIBRARY";

// What ranks on devices compute: digests of a model, the way that they chose, and what went wrong on each.
struct Computed {
  std::vector<std::string> digests;
  std::string way;
  std::string error;                // of rank 0
  std::vector<std::string> errors;  // of the others
  int replays = 0;                  // of graphs, by rank 0
  std::int64_t gathered_bytes = 0;  // by rank 0
};

class Nccl : public testing::Test {
 protected:
  void SetUp() override {
    setenv(kVariable, REPROFUSE_STAND_IN_NCCL, 1);
    stand_in_reset();
  }
  void TearDown() override {
    unsetenv(kVariable);
    stand_in_reset();
  }

  static study::ModelCase small_case(std::size_t index = 0) {
    study::ModelCase spec = study::model_cases().at(index);
    spec.tokens = 20;
    return spec;
  }

  static Computed compute(int ranks, const study::ModelCase& spec, const std::vector<study::PassPlan>& plans,
                          bool share_one_device = false) {
    Computed computed;
    std::shared_ptr<test::HostBackend> of_leader;
    const auto make_share = [&](const model::TeamPlace& place) {
      const auto backend = std::make_shared<test::HostBackend>();
      backend->device = share_one_device ? "device" : "device " + std::to_string(place.team->rank());
      if (place.team->leads()) of_leader = backend;
      return study::make_model(make_context(backend, find_contract("fma-1")), spec, place);
    };
    computed.errors = with_ranks(ranks, make_share, [&](const std::shared_ptr<model::Team>& team) {
      try {
        const auto model = make_share({team, 0});
        computed.way = team->gather_transport().description;
        for (const study::PassPlan& plan : plans) computed.digests.push_back(study::logits_digest(*model, spec, plan));
      } catch (const Error& error) {
        computed.error = error.what();
        team->communicator().break_off();
      }
      computed.gathered_bytes = team->traffic()[0].gathered_bytes;
    });
    computed.replays = of_leader->replays;
    return computed;
  }

  static std::string expected(const study::ModelCase& spec) {
    return study::logits_digest(*study::make_model(Context::cpu(), spec), spec, {});
  }
};

TEST_F(Nccl, GathersOnTheStreamAndInGraphsMoveNoBit) {
  for (const std::size_t index : {0, 3}) {
    const study::ModelCase spec = small_case(index);
    const std::string digest = expected(spec);
    for (int ranks = 2; ranks <= 4; ++ranks) {
      const Computed found = compute(ranks, spec, {{}, {.chunk = 1}, {.chunk = 7, .companions = 2}});
      EXPECT_EQ(found.way, "by NCCL 2.28.3, on the stream");
      EXPECT_EQ(found.digests, std::vector(3, digest)) << spec.name << " on " << ranks << " ranks: " << found.error;
      EXPECT_GT(found.replays, 0) << "single tokens are replayed";
    }
  }
  EXPECT_GT(stand_in_calls("ncclAllGather"), 0) << "equal shares";
  EXPECT_GT(stand_in_calls("ncclBroadcast"), 0) << "shares of other sizes";
  EXPECT_GT(stand_in_calls("ncclSend"), 0);
  EXPECT_EQ(stand_in_calls("ncclCommAbort"), 0);
}

TEST_F(Nccl, WhatGraphsGatherIsCountedAtEachReplay) {
  const study::ModelCase spec = small_case();
  const Computed on_stream = compute(2, spec, {{.chunk = 1}});
  const Computed by_host = compute(2, spec, {{.chunk = 1}}, true);
  EXPECT_GT(on_stream.gathered_bytes, 0);
  EXPECT_EQ(on_stream.gathered_bytes, by_host.gathered_bytes);
}

// The negative control.
TEST_F(Nccl, ABitThatArrivesOtherwiseMovesTheDigest) {
  const study::ModelCase spec = small_case();
  stand_in_alter(true);
  EXPECT_NE(compute(2, spec, {{}}).digests, std::vector{expected(spec)});
}

TEST_F(Nccl, RanksThatShareADeviceGatherThroughTheHost) {
  const study::ModelCase spec = small_case();
  const Computed found = compute(2, spec, {{}, {.chunk = 1}}, true);
  EXPECT_EQ(found.way, "by MPI, through host memory: ranks 0 and 1 share the device device");
  EXPECT_EQ(found.digests, std::vector(2, expected(spec)));
  EXPECT_EQ(stand_in_calls("ncclCommInitRank"), 0);
  EXPECT_EQ(found.replays, 0);
}

TEST_F(Nccl, WithoutALibraryThatCanBeUsedGathersGoThroughTheHostAndSayWhy) {
  const study::ModelCase spec = small_case();
  const struct {
    const char* file;
    const char* why;
  } cases[] = {
      {"/nowhere/libnccl.so.2",
       "/nowhere/libnccl.so.2 cannot be loaded (/nowhere/libnccl.so.2: cannot open shared "
       "object file: No such file or directory); it comes with NVIDIA's package libnccl2, and "
       "REPROFUSE_NCCL_LIBRARY may name its file"},
      {REPROFUSE_STAND_IN_NCCL_WITHOUT_SEND, REPROFUSE_STAND_IN_NCCL_WITHOUT_SEND " has no ncclSend"},
      {REPROFUSE_STAND_IN_NCCL_OLD, REPROFUSE_STAND_IN_NCCL_OLD " is NCCL 2.8.4; 2.13 or a later 2 is needed"},
  };
  for (const auto& [file, why] : cases) {
    setenv(kVariable, file, 1);
    const Computed found = compute(2, spec, {{}});
    EXPECT_EQ(found.way, std::string("by MPI, through host memory: rank 0 on a thread: ") + why);
    EXPECT_EQ(found.digests, std::vector{expected(spec)}) << file;
  }
  setenv(kVariable, REPROFUSE_STAND_IN_NCCL, 1);
  stand_in_fail("ncclGetVersion", -1, nccl::kInternalError);
  EXPECT_EQ(error_of([] { NcclLibrary(REPROFUSE_STAND_IN_NCCL); }),
            REPROFUSE_STAND_IN_NCCL ": ncclGetVersion failed: another error");
}

TEST_F(Nccl, ARankThatCannotJoinIsNamedByAll) {
  stand_in_fail("ncclGetUniqueId", -1, nccl::kSystemError);
  const std::string no_id =
      "rank 0 on a thread: ncclGetUniqueId failed: unhandled system error (the stand-in was asked to)";
  Computed found = compute(3, small_case(), {{}});
  EXPECT_EQ(found.error, no_id);
  EXPECT_EQ(found.errors[2], no_id);
  stand_in_reset();
  stand_in_fail("ncclCommInitRank", 1, nccl::kSystemError);
  found = compute(3, small_case(), {{}});
  const std::string joined =
      "rank 1 on a thread: ncclCommInitRank failed: unhandled system error (the stand-in was asked to)";
  EXPECT_EQ(found.error, joined);
  EXPECT_EQ(found.errors, (std::vector<std::string>{"", joined, joined}));
  EXPECT_EQ(stand_in_calls("ncclCommAbort"), 2) << "by those that had joined";
}

// Each call, on each rank: that rank names it, the others learn that one has failed, and nobody waits for ever.
TEST_F(Nccl, ACallThatFailsEndsAllRanks) {
  const study::ModelCase spec = small_case();
  const std::string remote =
      "a gather by NCCL failed, on another rank or on the way to it: remote process exited or there was a network "
      "error (the stand-in was asked to)";
  for (const char* call : {"ncclAllGather", "ncclBroadcast", "ncclSend", "ncclRecv", "ncclCommGetAsyncError"})
    for (int rank = 0; rank < 3; ++rank) {
      const std::string name = call;
      if ((name == "ncclRecv" && rank != 0) || (name == "ncclSend" && rank == 0)) continue;
      stand_in_reset();
      stand_in_fail(call, rank, nccl::kSystemError);
      const Computed found = compute(3, spec, {{}});
      const std::string own = rank == 0 ? found.error : found.errors[static_cast<std::size_t>(rank)];
      EXPECT_EQ(own, fmt::format("rank {} on a thread: {} failed: unhandled system error (the stand-in was asked to)",
                                 rank, call));
      EXPECT_TRUE(found.digests.empty()) << call;
      if (rank != 0 && name != "ncclCommGetAsyncError") {
        EXPECT_EQ(found.error, "rank 0 on a thread: " + remote) << call << " on rank " << rank;
      }
    }
  for (const char* call : {"ncclGroupStart", "ncclGroupEnd"}) {
    stand_in_reset();
    stand_in_fail(call, -1, nccl::kInvalidUsage);
    EXPECT_EQ(compute(3, spec, {{}}).error,
              fmt::format("rank 0 on a thread: {} failed: another error (the stand-in was asked to)", call));
  }
}

TEST_F(Nccl, AnErrorThatIsFoundLaterEndsThePass) {
  const study::ModelCase spec = small_case();
  for (const auto& [result, text] :
       {std::pair(nccl::kSystemError, "a gather by NCCL failed: unhandled system error (the stand-in was asked to)"),
        std::pair(nccl::kRemoteError,
                  "a gather by NCCL failed, on another rank or on the way to it: remote process exited or there was a "
                  "network error (the stand-in was asked to)")}) {
    stand_in_reset();
    stand_in_fail("async", 0, result);
    const Computed found = compute(2, spec, {{}});
    EXPECT_EQ(found.error, std::string("rank 0 on a thread: ") + text);
    EXPECT_TRUE(found.digests.empty());
  }
}

TEST_F(Nccl, BroadcastBarrierAndAbort) {
  constexpr int kRanks = 3;
  const auto meeting = std::make_shared<Meeting>(kRanks);
  const auto library = std::make_shared<const NcclLibrary>(REPROFUSE_STAND_IN_NCCL);
  std::vector<std::uint32_t> got(kRanks);
  std::vector<std::string> refusals(kRanks);
  const auto work = [&](int rank) {
    ThreadCommunicator host(meeting, rank);
    const auto gathers = open_nccl(library, host);
    std::uint32_t word = rank == 0 ? 42 : 0;
    gathers->broadcast(&word, 1, nullptr);
    got[static_cast<std::size_t>(rank)] = word;
    std::vector<std::uint32_t> room(kRanks);
    gathers->barrier(room.data(), nullptr);
    gathers->check();
    host.barrier();
    gathers->abort();
    gathers->abort();
    refusals[static_cast<std::size_t>(rank)] = error_of([&] { gathers->broadcast(&word, 1, nullptr); });
  };
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < kRanks; ++rank) threads.emplace_back(work, rank);
  }
  EXPECT_EQ(got, (std::vector<std::uint32_t>(kRanks, 42)));
  EXPECT_EQ(refusals[1], "rank 1 on a thread: gathers by NCCL were given up");
  EXPECT_EQ(stand_in_calls("ncclCommAbort"), kRanks) << "once by each";
}

// A pass that cannot end, since a rank has gone. One rank is enough to see what the wait does.
class Gone : public Communicator {
 public:
  explicit Gone(std::string lost) : lost_(std::move(lost)) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string name_of(int) const override { return "rank 0 on a test"; }
  int ranks_of_host() const override { return 1; }
  int cores() const override { return 1; }
  std::chrono::seconds timeout() const override { return std::chrono::seconds(0); }
  void all_gather(void*, std::span<const std::int64_t>, Wait) override {}
  void gather_to_first(void*, std::span<const std::int64_t>) override {}
  void broadcast(void*, std::int64_t, Wait) override {}
  void barrier() override { ++barriers; }
  void break_off() noexcept override {}
  bool is_broken() const noexcept override { return false; }
  std::string lost_rank() const override { return lost_; }
  bool leader_reported_failure() const noexcept override { return false; }
  [[noreturn]] void abort() noexcept override { std::abort(); }

  int barriers = 0;

 private:
  std::string lost_;
};

TEST_F(Nccl, APassThatCannotEndIsGivenUp) {
  for (const std::string lost : {"rank 1 on a test (process 7) has ended", ""}) {
    stand_in_reset();
    auto made = std::make_unique<Gone>(lost);
    const Gone& host = *made;
    const auto team = std::make_shared<model::Team>(std::move(made), "test");
    const auto backend = std::make_shared<test::HostBackend>();
    backend->device = "device";
    const Context context = make_context(backend, find_contract("fma-1"));
    model::choose_gather_transport(*team, *backend);
    const model::Exchange exchange(team, study::model_cases().front().config);
    const Workspace workspace(context, 256);
    exchange.wait_for({context, workspace, nullptr});  // the control: all is there
    EXPECT_EQ(stand_in_calls("ncclCommAbort"), 0);
    backend->is_stuck = true;
    const std::string message = error_of([&] { exchange.wait_for({context, workspace, nullptr}); });
    EXPECT_EQ(message, lost.empty() ? "a pass has not ended within 0 s on any rank" : lost);
    EXPECT_EQ(host.barriers, lost.empty() ? 1 : 0) << "where nobody is known to have ended, those that are there meet";
    EXPECT_EQ(stand_in_calls("ncclCommAbort"), 1);
  }
}

}  // namespace
}  // namespace reprofuse::parallel
