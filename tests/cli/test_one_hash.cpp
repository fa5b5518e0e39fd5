// One configuration, one params_sha256: whoever starts the ranks, on however many cores, with whichever backend.
//
// No variable is set that a user would not set; above all none that says how many threads compute.
#include "cli/two_nodes.h"
#include "support/port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::test {
namespace {

using testing::HasSubstr;
using testing::Not;

// Large enough that OpenBLAS would divide its products among threads.
const Words kLarge = {"model.hidden=[64]", "data.batch_size=20"};

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// One of the processes of a job.
struct Process {
  Words words;
  Environment variables = {};
};

std::string log_of(const std::vector<Captured>& ran) {
  std::string log;
  for (const auto& one : ran) log += one.out + one.err;
  return log;
}

/// Runs a job to its end without the variable that other tests have.
std::vector<Captured> run_job(const Workbench& bench, const std::vector<Process>& processes) {
  std::vector<std::future<Captured>> running;
  for (const auto& process : processes) {
    running.push_back(std::async(std::launch::async, [&bench, process] {
      return run_in(bench.path(), Words{"env", "-u", "OMP_NUM_THREADS"} + process.words, process.variables);
    }));
  }
  std::vector<Captured> ran;
  ran.reserve(running.size());
  for (auto& one : running) ran.push_back(one.get());
  for (const auto& one : ran) EXPECT_TRUE(one.status.ok()) << log_of(ran);
  return ran;
}

/// The hash that a job leaves, which trains into a folder of its own.
std::string hash_of(const Workbench& bench, const std::vector<Process>& processes) {
  static int jobs = 0;
  const auto work_dir = bench.path() / ("job_" + std::to_string(++jobs));
  auto all = processes;
  for (auto& process : all) process.words.push_back("system.work_dir=" + work_dir.string());
  const auto ran = run_job(bench, all);
  const auto result = nlohmann::json::parse(read_file(work_dir / "result.json"), nullptr, false);
  if (result.is_discarded()) {
    ADD_FAILURE() << "no result: " << log_of(ran);
    return "";
  }
  return result["params_sha256"];
}

Words started_by_run(int ranks) { return {"lockstep", "run", "--nproc-per-node", std::to_string(ranks)}; }

Words started_by_mpirun(int ranks) {
  static const bool open_mpi = run_program({LOCKSTEP_MPIRUN, "--version"}).out.find("Open") != std::string::npos;
  Words words = {LOCKSTEP_MPIRUN, "-n", std::to_string(ranks)};
  if (open_mpi) words = words + Words{"--oversubscribe", "--allow-run-as-root"};
  return words;
}

TEST(OneHash, WhoeverStartsTheRanks) {
  const Workbench bench;
  const Words train = bench.train(kLarge);
  const std::string hash = hash_of(bench, {{started_by_run(2) + train}});

  EXPECT_EQ(hash_of(bench, {{Words{"taskset", "-c", "0"} + started_by_run(2) + train}}), hash) << "on one core";

  const auto rank = [&](int number, const std::string& init_method) -> Process {
    return {train, {{"RANK", std::to_string(number)}, {"WORLD_SIZE", "2"}, {"LOCKSTEP_INIT_METHOD", init_method}}};
  };
  const std::string file = "file://" + (bench.path() / "meet").string();
  EXPECT_EQ(hash_of(bench, {rank(0, file), rank(1, file)}), hash) << "by hand";

  if (LOCKSTEP_HAS_MPI) {
    EXPECT_EQ(hash_of(bench, {{started_by_mpirun(2) + train}}), hash) << "mpirun";
  }

  ASSERT_TRUE(run_in(bench.path(), {"lockstep", "rank-table", "--device_num", "[0,2)", "--server_ip", "127.0.0.1"})
                  .status.ok());
  const std::string table_port = free_port();
  const auto device = [&](const std::string& number) -> Process {
    return {train,
            {{"RANK_TABLE_FILE", (bench.path() / "hccl_2p_01_127.0.0.1.json").string()},
             {"RANK_ID", number},
             {"RANK_SIZE", "2"},
             {"DEVICE_ID", number},
             {"DEVICE_NUM", "2"},
             {"MASTER_PORT", table_port}}};
  };
  EXPECT_EQ(hash_of(bench, {device("0"), device("1")}), hash) << "rank table";

  const std::string scheduler_port = free_port();
  const auto role = [&](const std::string& name) -> Process {
    return {
        train,
        {{"MS_ROLE", name}, {"MS_WORKER_NUM", "2"}, {"MS_SCHED_HOST", "127.0.0.1"}, {"MS_SCHED_PORT", scheduler_port}}};
  };
  EXPECT_EQ(hash_of(bench, {role("MS_SCHED"), role("MS_WORKER"), role("MS_WORKER")}), hash) << "scheduler";

  const Words listed =
      train + Words{"parallel.nodes=[{addr: 127.0.0.2}, {addr: 127.0.0.3}]", "parallel.ctrl_port=" + free_port()};
  const auto nodes = loopback_nodes();
  EXPECT_EQ(hash_of(bench, {{listed, nodes[0]}, {listed, nodes[1]}}), hash) << "a list of nodes";
}

// OpenBLAS would take these, or the number of cores.
TEST(OneHash, WhateverVariablesSayOfThreads) {
  const Workbench bench;
  const Words train = bench.train(kLarge);
  const std::string hash = hash_of(bench, {{train}});
  EXPECT_EQ(hash_of(bench, {{Words{"taskset", "-c", "0"} + train}}), hash);
  const auto with_variables = Words{"env", "OMP_NUM_THREADS=16", "OPENBLAS_NUM_THREADS=16"} + train;
  EXPECT_EQ(hash_of(bench, {{with_variables}}), hash);
  // Whether these bits are others than those of one thread depends on the processor.
  const std::string of_three = hash_of(bench, {{train + Words{"system.threads=3"}}});
  EXPECT_EQ(hash_of(bench, {{Words{"taskset", "-c", "0"} + train + Words{"system.threads=3"}}}), of_three);
  EXPECT_EQ(hash_of(bench, {{started_by_run(1) + train + Words{"system.threads=3"}}}), of_three);
}

TEST(OneHash, SaysWhichVariableIsNotFollowed) {
  const Workbench bench;
  const auto ran = run_job(bench, {{Words{"env", "OMP_NUM_THREADS=16"} + bench.train()}});
  EXPECT_THAT(ran.front().out, HasSubstr("OMP_NUM_THREADS=16 does not count: system.threads is 1"));
  std::filesystem::remove_all(bench.work_dir());
  EXPECT_THAT(run_job(bench, {{bench.train()}}).front().out, Not(HasSubstr("does not count")));
  std::filesystem::remove_all(bench.work_dir());
  const auto limited = run_in(bench.path(), Words{"env", "OMP_THREAD_LIMIT=2"} + bench.train({"system.threads=3"}));
  EXPECT_FALSE(limited.status.ok());
  EXPECT_THAT(limited.err, HasSubstr("OMP_THREAD_LIMIT allows 2 thread(s)"));
}

/// Ranks of `lockstep run` on hosts with these names, one letter for each rank.
Words on_hosts(const std::string& letters, const Words& train) {
  const std::string script =
      "hosts=" + letters + "; export LOCKSTEP_HOST_ID=$(echo $hosts | cut -c$((RANK + 1))); exec \"$@\"";
  return started_by_run(static_cast<int>(letters.size())) + Words{"sh", "-c", script, "sh"} + train;
}

// Four ranks, whose sums have an order that would show.
TEST(OneHash, WhicheverBackendAndHowRanksArePlaced) {
  const Workbench bench;
  const Words train = bench.train({"data.batch_size=5"});
  const std::string hash = hash_of(bench, {{started_by_run(4) + train}});
  EXPECT_EQ(hash_of(bench, {{started_by_run(4) + train + Words{"parallel.backend=tcp"}}}), hash) << "tcp";
  for (const auto* letters : {"aabb", "aaab", "abab"}) {
    EXPECT_EQ(hash_of(bench, {{on_hosts(letters, train)}}), hash) << letters;
  }
  if (LOCKSTEP_HAS_MPI) {
    EXPECT_EQ(hash_of(bench, {{started_by_mpirun(4) + train + Words{"parallel.backend=mpi"}}}), hash) << "mpi";
  }
}

// What a job whose nodes were taken away leaves: some checkpoints, and no result.
void forget_the_end(const std::filesystem::path& work_dir) {
  std::filesystem::remove(work_dir / "result.json");
  std::vector<std::filesystem::path> checkpoints;
  for (const auto& one : std::filesystem::directory_iterator(work_dir / "checkpoints")) {
    checkpoints.push_back(one.path());
  }
  std::sort(checkpoints.begin(), checkpoints.end());
  ASSERT_GT(checkpoints.size(), 1U);
  std::filesystem::remove_all(checkpoints.back());
}

TEST(OneHash, OfARunThatIsResumedElsewhere) {
  const Workbench bench;
  const Words train = bench.train({"data.batch_size=5", "train.epochs=3", "checkpoint.keep=3"});
  const auto result_of = [&](const Words& words) -> std::string {
    const auto ran = run_job(bench, {{words}});
    const auto result = nlohmann::json::parse(read_file(bench.work_dir() / "result.json"), nullptr, false);
    return result.is_discarded() ? log_of(ran) : result["params_sha256"].get<std::string>();
  };
  const std::string hash = result_of(on_hosts("aabb", train));
  ASSERT_NO_FATAL_FAILURE(forget_the_end(bench.work_dir()));
  EXPECT_EQ(result_of(started_by_run(4) + train + Words{"parallel.backend=tcp"}), hash);
  ASSERT_NO_FATAL_FAILURE(forget_the_end(bench.work_dir()));
  EXPECT_EQ(result_of(on_hosts("aaab", train)), hash);
  ASSERT_NO_FATAL_FAILURE(forget_the_end(bench.work_dir()));
  EXPECT_EQ(result_of(started_by_run(4) + train), hash);
}

}  // namespace
}  // namespace lockstep::test
