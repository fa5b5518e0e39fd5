// Jobs whose every port gets one byte from a stranger, and then silence: they end as if nobody had been there.
#include "cli/stranger_at_ports.h"
#include "cli/two_nodes.h"
#include "support/port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

using testing::Contains;
using testing::IsEmpty;
using testing::Key;
using testing::Not;

struct Part {
  Words words;
  Environment variables = {};
};

/// A job that trains in a folder of its own, to its end; the hash it leaves.
std::string hash_of_job(const Workbench& bench, const std::vector<Part>& parts, const Environment& more) {
  std::filesystem::remove_all(bench.work_dir());
  std::vector<std::future<Captured>> running;
  for (const auto& part : parts) {
    running.push_back(std::async(std::launch::async, [&bench, &more, part] {
      auto variables = part.variables;
      variables.insert(more.begin(), more.end());
      return run_in(bench.path(), part.words, variables);
    }));
  }
  for (auto& one : running) {
    const auto ran = one.get();
    EXPECT_TRUE(ran.status.ok()) << describe(ran.status) << "\n" << ran.out << ran.err;
  }
  const auto result = nlohmann::json::parse(read_file(bench.work_dir() / "result.json"), nullptr, false);
  return result.is_discarded() ? "no result" : result["params_sha256"].get<std::string>();
}

Words training(const Workbench& bench) { return bench.train({"data.batch_size=5", "train.epochs=20"}); }

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

struct Seen {
  std::map<std::string, int> visited;    ///< names of processes, with their number of ports
  std::set<std::string> open_to_others;  ///< of those that listen at another address than loopback
};

Seen expect_same_hash_with_a_stranger(const Workbench& bench, const std::vector<Part>& parts,
                                      const std::string& only = "") {
  const auto undisturbed = hash_of_job(bench, parts, {});
  EXPECT_EQ(undisturbed.size(), 64U) << undisturbed;
  const StrangerAtPorts stranger(only);
  auto more = stranger.mark();
  more["LOCKSTEP_FAULT"] = "rank=0,step=1,action=slow,ms=25";  // else it may be over before its ports are found
  EXPECT_EQ(hash_of_job(bench, parts, more), undisturbed);
  return {stranger.visited(), stranger.open_to_others()};
}

TEST(StrangersAtPorts, OfLockstepRun) {
  const Workbench bench;
  const Words run = {"lockstep", "run", "--nproc-per-node", "2"};
  const auto seen = expect_same_hash_with_a_stranger(bench, {{run + training(bench)}});
  EXPECT_THAT(seen.visited, Contains(Key("lockstep")));
  EXPECT_THAT(seen.open_to_others, IsEmpty());
}

TEST(StrangersAtPorts, OfLockstepRunThatLoadsEachRank) {
  const Workbench bench;
  const Words run = {"lockstep", "run", "--start-method", "spawn", "--nproc-per-node", "2"};
  const auto seen = expect_same_hash_with_a_stranger(bench, {{run + training(bench)}});
  EXPECT_THAT(seen.visited, Not(IsEmpty()));
  EXPECT_THAT(seen.open_to_others, IsEmpty());
}

// The store of the launchers, and those of the ranks.
TEST(StrangersAtPorts, OfTwoLaunchers) {
  const Workbench bench;
  const auto port = free_port();
  const Words run = {
      "lockstep",         "run", "--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint",
      "127.0.0.1:" + port};
  const auto visited =
      expect_same_hash_with_a_stranger(bench, {{run + training(bench)}, {run + training(bench)}}).visited;
  const auto ports =
      std::accumulate(visited.begin(), visited.end(), 0, [](int sum, const auto& one) { return sum + one.second; });
  EXPECT_GE(ports, 2);
}

TEST(StrangersAtPorts, LaunchersWithAnotherSecretDoNotMeet) {
  const auto port = free_port();
  const Words run = {
      LOCKSTEP_BINARY,     "run",         "--nnodes",       "2",   "--rdzv-backend", "c10d", "--rdzv-endpoint",
      "127.0.0.1:" + port, "--rdzv-conf", "join_timeout=8", "true"};
  auto first = std::async(std::launch::async, [&] { return run_program(run, {{"LOCKSTEP_STORE_SECRET", "one"}}); });
  std::this_thread::sleep_for(std::chrono::seconds(2));
  const auto second = run_program(run, {{"LOCKSTEP_STORE_SECRET", "another"}});
  EXPECT_FALSE(second.status.ok());
  EXPECT_THAT(second.err, testing::HasSubstr("secret"));
  EXPECT_FALSE(first.get().status.ok());
}

TEST(StrangersAtPorts, OfMpirun) {
  if (!LOCKSTEP_HAS_MPI) GTEST_SKIP() << "this build has no MPI";
  const Workbench bench;
  const auto text = run_program({LOCKSTEP_MPIRUN, "--version"}).out;
  Words mpirun = {LOCKSTEP_MPIRUN, "-n", "2"};
  // The ports of Open MPI itself, of its ranks and its mpirun, do not stand it: it waits for the rest of the message.
  if (text.find("Open") != std::string::npos) {
    mpirun = mpirun + Words{"--oversubscribe", "--allow-run-as-root", "--mca", "btl", "^tcp"};
  }
  const auto visited = expect_same_hash_with_a_stranger(bench, {{mpirun + training(bench)}}, "lockstep").visited;
  EXPECT_THAT(visited, Contains(Key("lockstep")));
}

TEST(StrangersAtPorts, OfRanksByHand) {
  const Workbench bench;
  const auto port = free_port();
  const auto rank = [&](const std::string& number) -> Part {
    return {training(bench),
            {{"RANK", number}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}}};
  };
  EXPECT_THAT(expect_same_hash_with_a_stranger(bench, {rank("0"), rank("1")}).visited, Contains(Key("lockstep")));
}

TEST(StrangersAtPorts, OfASchedulerWithTls) {
  const Workbench bench;
  const auto made = lockstep({"certs", "init", bench.path() / "certs"});
  ASSERT_TRUE(made.status.ok()) << made.err;
  const auto port = free_port();
  const auto part = [&](const std::string& role) -> Part {
    return {training(bench),
            {{"MS_ROLE", role},
             {"MS_WORKER_NUM", "2"},
             {"MS_SCHED_HOST", "localhost"},
             {"MS_SCHED_PORT", port},
             {"LOCKSTEP_ENABLE_SSL", "1"},
             {"LOCKSTEP_CLUSTER_CONFIG", bench.path() / "certs" / "localhost" / "config.json"}}};
  };
  const auto visited =
      expect_same_hash_with_a_stranger(bench, {part("MS_SCHED"), part("MS_WORKER"), part("MS_WORKER")}).visited;
  const auto ports =
      std::accumulate(visited.begin(), visited.end(), 0, [](int sum, const auto& one) { return sum + one.second; });
  EXPECT_GE(ports, 2);  // the scheduler's, and that of rank 0's store
}

}  // namespace
}  // namespace lockstep::test
