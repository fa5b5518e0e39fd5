// Jobs with parameter servers: whoever starts them, and when one of their processes dies.
#include "chaos/disk.h"
#include "cli/replaced_ranks.h"
#include "cli/supervised_job.h"
#include "support/port.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

/// Clicks for a small model with tables, and the folders of runs on them.
class ServerJobs : public testing::Test {
 protected:
  ServerJobs() {
    const auto made = lockstep({"data", "synthesize", "criteo", "--rows", "900", "--test", "100", "--scale", "0.001",
                                "--seed", "1", "--out", (folder_.path() / "data").string()});
    EXPECT_TRUE(made.status.ok()) << made.err;
  }

  std::filesystem::path work_dir(const std::string& job) const { return folder_.path() / job; }

  Words train(const std::string& job, const Words& more = {}) const {
    Words words = {LOCKSTEP_BINARY,
                   "train",
                   "--config",
                   LOCKSTEP_SOURCE_DIR "/configs/recsys/wide_and_deep_criteo.yaml",
                   "data.root=" + (folder_.path() / "data").string(),
                   "system.work_dir=" + work_dir(job).string(),
                   "data.rows=20000",
                   "data.min_count=2",
                   "data.global_batch_size=60",
                   "model.rows=20000",
                   "model.dim=3",
                   "model.hidden=[8]",
                   "train.epochs=2",
                   "callbacks.metrics_every=1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  /// Two workers and two servers under `lockstep run`.
  Words launched_with_servers(const Words& flags, const Words& program) const {
    Words all = {"--servers", "2"};
    all.insert(all.end(), flags.begin(), flags.end());
    return launched(2, all, program);
  }

  std::string hash_of_data_parallel() const {
    const auto ran = run_program(launched(2, {}, train("data_parallel", {"parallel.mode=data_parallel"})));
    EXPECT_TRUE(ran.status.ok()) << ran.err;
    return hash_in(work_dir("data_parallel"));
  }

  bool has_made_steps(const std::string& job, int steps) const {
    return wait_until([&] {
      const auto text = read_file(work_dir(job) / "metrics.jsonl");
      return std::count(text.begin(), text.end(), '\n') >= steps;
    });
  }

  Child start(const Words& words, const Environment& more, const std::string& log) const {
    ChildOptions options;
    options.arguments = {"bash", "-c", "exec \"$@\" > \"$0\" 2>&1", (folder_.path() / log).string()};
    options.arguments.insert(options.arguments.end(), words.begin(), words.end());
    options.environment = environment_with(more);
    return Child(options);
  }

  std::string log(const std::string& name) const { return read_file(folder_.path() / name); }

  TemporaryFolder folder_;
};

TEST_F(ServerJobs, HaveTheSameParametersWhoeverStartsThem) {
  const auto hash = hash_of_data_parallel();
  const auto ran = run_program(launched_with_servers({}, train("run")));
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  const auto result = json::parse(read_file(work_dir("run") / "result.json"));
  EXPECT_EQ(result["params_sha256"], hash);
  EXPECT_EQ(result["world_size"], 2);
  EXPECT_TRUE(result.contains("eval_auc")) << result;

  // As MindSpore's scripts do: five processes with roles, and what `lockstep status` says of them.
  const Environment job = {
      {"MS_SERVER_NUM", "2"}, {"MS_WORKER_NUM", "2"}, {"MS_SCHED_HOST", "127.0.0.1"}, {"MS_SCHED_PORT", free_port()}};
  std::vector<Child> processes;
  const auto add = [&](const std::string& role) {
    auto variables = job;
    variables["MS_ROLE"] = role;
    variables["LOCKSTEP_FAULT"] = "rank=0,step=1,action=slow,ms=300";  // 9 s, to be asked in
    processes.push_back(start(train("roles"), variables, fmt::format("{}.{}", role, processes.size())));
  };
  for (const auto* role : {"MS_PSERVER", "MS_WORKER", "MS_SCHED", "MS_PSERVER", "MS_WORKER"}) add(role);
  ASSERT_TRUE(has_made_steps("roles", 2)) << log("MS_WORKER.1") << log("MS_PSERVER.0");
  const auto table = lockstep({"status"}, job);
  EXPECT_TRUE(table.status.ok()) << table.err;
  EXPECT_THAT(table.out, HasSubstr("4 of 4 processes (2 of them servers)"));
  EXPECT_THAT(table.out, HasSubstr("parameter servers:\n"));
  const auto asked = lockstep({"status", "--json"}, job);
  ASSERT_TRUE(asked.status.ok()) << asked.err;
  const auto status = json::parse(asked.out);
  EXPECT_EQ(status["workers"].size(), 2U) << status;
  ASSERT_EQ(status["servers"].size(), 2U) << status;
  for (const int server : {0, 1}) {
    EXPECT_EQ(status["servers"][static_cast<std::size_t>(server)]["rank"], server) << status;
    EXPECT_EQ(status["servers"][static_cast<std::size_t>(server)]["state"], "running") << status;
  }
  for (std::size_t i = 0; i < processes.size(); ++i) {
    const auto end = processes[i].wait_for(120s);
    EXPECT_TRUE(end && end->ok()) << i << log("MS_WORKER.1") << log("MS_PSERVER.0");
  }
  EXPECT_EQ(hash_in(work_dir("roles")), hash);
}

struct LossCase {
  const char* name;
  const char* fault;
  int rank;  ///< that is killed: workers are 0 and 1, servers 2 to 4
  Words keys = {};
  const char* said = "going on after step";  ///< by rank 0, or by rank 1 where that is lost
};

class LossInServerJobs : public ServerJobs, public testing::WithParamInterface<LossCase> {};

TEST_P(LossInServerJobs, OneProcessIsStartedAgainAndTheOthersGoOn) {
  const LossCase& one = GetParam();
  Words keys = {"checkpoint.every_steps=6"};
  keys.insert(keys.end(), one.keys.begin(), one.keys.end());
  auto words = launched(2, {"--servers", "3"}, train("lost", keys));
  const auto ran = run_program(words, {{"LOCKSTEP_FAULT", one.fault}});
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr(fmt::format("lockstep run: rank {} (pid", one.rank)));
  EXPECT_THAT(ran.err, HasSubstr(kReplaced));
  EXPECT_THAT(ran.err, Not(HasSubstr("restarted")));
  const auto said = read_file(work_dir("lost") / "log" / (one.rank == 0 ? "rank.1" : "rank.0"));
  EXPECT_THAT(said, HasSubstr(one.said)) << ran.err;
  EXPECT_EQ(hash_in(work_dir("lost")), hash_of_data_parallel()) << ran.err;
}

constexpr auto kFromCheckpoint = "the newest checkpoint is used instead";
const Words kReplicas = {"parallel.server.replicas=2"};
const Words kWholeNetwork = {"parallel.server.replicas=2", "parallel.server.parameters=[\"*\"]",
                             "parallel.server.slice_kb=1"};

INSTANTIATE_TEST_SUITE_P(
    Ways, LossInServerJobs,
    testing::Values(LossCase{"WorkerBackward", "rank=1,step=8,action=kill,place=backward", 1},
                    LossCase{"ServerAsked", "rank=3,step=8,action=kill,place=forward", 3, {}, kFromCheckpoint},
                    LossCase{"CopyUpdated", "rank=4,step=8,action=kill,place=updated", 4, kReplicas},
                    LossCase{"NetworkGathered", "rank=2,step=8,action=kill,place=reduced", 2, kWholeNetwork}),
    [](const auto& one) { return one.param.name; });
INSTANTIATE_TEST_SUITE_P(
    Thorough, LossInServerJobs,
    testing::Values(LossCase{"WorkerBegin", "rank=1,step=8,action=kill,place=begin", 1},
                    LossCase{"WorkerForward", "rank=0,step=8,action=kill,place=forward", 0},
                    LossCase{"WorkerReduced", "rank=1,step=8,action=kill,place=reduced", 1},
                    LossCase{"WorkerUpdated", "rank=1,step=8,action=kill,place=updated", 1},
                    LossCase{"WorkerSaves", "rank=0,step=12,action=kill,place=save", 0},
                    LossCase{"WorkerLastStep", "rank=1,step=30,action=kill,place=updated", 1},
                    LossCase{"ServerUpdated", "rank=4,step=8,action=kill,place=updated", 4, {}, kFromCheckpoint},
                    LossCase{"CopyAsked", "rank=3,step=8,action=kill,place=forward", 3, kReplicas},
                    LossCase{"CopyGathered", "rank=2,step=8,action=kill,place=reduced", 2, kReplicas},
                    LossCase{"CopySaves", "rank=3,step=12,action=kill,place=save", 3, kReplicas},
                    LossCase{"CopyLastStep", "rank=2,step=30,action=kill,place=updated", 2, kReplicas},
                    LossCase{"CopyWorker", "rank=1,step=8,action=kill,place=reduced", 1, kReplicas},
                    LossCase{"NetworkWorker", "rank=1,step=8,action=kill,place=reduced", 1, kWholeNetwork},
                    LossCase{"NetworkAsked", "rank=4,step=8,action=kill,place=forward", 4, kWholeNetwork},
                    LossCase{"CopyByRange",
                             "rank=3,step=8,action=kill,place=reduced",
                             3,
                             {"parallel.server.replicas=2", "parallel.server.partition=range"}},
                    LossCase{"CopyOverTcp",
                             "rank=3,step=8,action=kill,place=reduced",
                             3,
                             {"parallel.server.replicas=2", "parallel.backend=tcp"}}),
    [](const auto& one) { return one.param.name; });

TEST_F(ServerJobs, ThoroughOfWorkersThatDoNotWaitGoOnFromTheirCheckpoint) {
  const Words keys = {"parallel.server.parameters=[\"*\"]", "parallel.server.consistency=async",
                      "checkpoint.every_steps=6"};
  for (const std::string fault :
       {"rank=1,step=20,action=kill,place=begin", "rank=2,step=20,action=kill,place=forward"}) {
    const auto ran = run_program(launched_with_servers({}, train("apart " + fault, keys)), {{"LOCKSTEP_FAULT", fault}});
    EXPECT_TRUE(ran.status.ok()) << ran.err;
    EXPECT_THAT(ran.out, HasSubstr("workers do not wait for each other"));
    EXPECT_THAT(ran.err, HasSubstr(kReplaced));
    EXPECT_THAT(ran.out, HasSubstr("step_00000018.sharded\n[rank 0] 18 of 30 steps are done"));
    EXPECT_EQ(json::parse(read_file(work_dir("apart " + fault) / "result.json"))["steps"], 30);
  }
}

TEST_F(ServerJobs, WithoutReplacementsALostServerIsNamed) {
  const auto ran = run_program(launched_with_servers({"--max-restarts", "0"}, train("lost")),
                               {{"LOCKSTEP_FAULT", "rank=2,step=5,action=kill,place=forward"}});
  EXPECT_EQ(ran.status.code, 128 + SIGKILL) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("rank 2"));
  EXPECT_FALSE(std::filesystem::exists(work_dir("lost") / "result.json"));
}

TEST_F(ServerJobs, EndTogetherWhenASignalAsksThemAndGoOnLater) {
  const Words program = train("ended", {"checkpoint.every_steps=100"});
  Child job = start(launched_with_servers({"--start-method", "spawn"}, program),
                    {{"LOCKSTEP_FAULT", "rank=0,step=1,action=slow,ms=60"}}, "ended.log");
  ASSERT_TRUE(has_made_steps("ended", 5)) << log("ended.log");
  ::kill(job.pid(), SIGTERM);
  const auto end = job.wait_for(90s);
  ASSERT_TRUE(end) << log("ended.log");
  EXPECT_EQ(end->code, 75) << log("ended.log");
  EXPECT_THAT(log("ended.log"), Not(HasSubstr("exit code 0"))) << "what starts processes again goes by their codes";
  const auto ran = run_program(launched_with_servers({}, program));
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("going on from"));
  EXPECT_EQ(hash_in(work_dir("ended")), hash_of_data_parallel()) << ran.err;
}

TEST_F(ServerJobs, WithOtherSettingsInOneProcessAreRefusedAtOnce) {
  std::vector<Child> processes;
  for (int rank = 0; rank < 4; ++rank) {
    Words keys = {"cluster.server_num=2"};
    if (rank == 3) keys.push_back("parallel.server.replicas=2");
    processes.push_back(start(train("other", keys),
                              {{"RANK", std::to_string(rank)},
                               {"WORLD_SIZE", "4"},
                               {"LOCKSTEP_INIT_METHOD", "file://" + (folder_.path() / "meet").string()}},
                              fmt::format("other.{}", rank)));
  }
  for (int rank = 0; rank < 4; ++rank) {
    const auto end = processes[static_cast<std::size_t>(rank)].wait_for(60s);
    ASSERT_TRUE(end) << log(fmt::format("other.{}", rank));
    EXPECT_FALSE(end->ok()) << rank;
    EXPECT_THAT(log(fmt::format("other.{}", rank)), HasSubstr("rank 3 does not have the settings of rank 0"));
    EXPECT_THAT(log(fmt::format("other.{}", rank)), HasSubstr("replicas"));
  }
}

TEST_F(ServerJobs, OfAnotherModeAreRefused) {
  for (const std::string mode : {"stand_alone", "data_parallel"}) {
    const auto ran = run_program(launched(1, {"--servers", "1"}, train("mode", {"parallel.mode=" + mode})));
    EXPECT_FALSE(ran.status.ok()) << mode;
    EXPECT_THAT(ran.err, HasSubstr(fmt::format("is {}, and 1 of the processes were started as parameter servers; set "
                                               "parallel.mode=parameter_server, or leave out --servers",
                                               mode)));
  }
}

TEST_F(ServerJobs, OfAProgramWithALoopOfItsOwnAreRefused) {
  const auto ran = run_program(launched(1, {"--servers", "1"}, {std::string(LOCKSTEP_EXAMPLES) + "/allgather"}));
  EXPECT_FALSE(ran.status.ok());
  EXPECT_THAT(ran.err, HasSubstr("1 of the processes were started as parameter servers (lockstep run --servers), which "
                                 "this program does not have"));
}

TEST_F(ServerJobs, ThoroughGoOnOnlyWithServersOfTheSameParameters) {
  const Words all = {"parallel.server.parameters=[\"*\"]"};
  ASSERT_TRUE(run_program(launched_with_servers({}, train("same", all))).status.ok());
  const auto refused = [&](const Words& words, const std::string& why) {
    const auto ran = run_program(words);
    EXPECT_FALSE(ran.status.ok());
    EXPECT_THAT(ran.err, HasSubstr(why));
  };
  refused(launched_with_servers({}, train("same", {"train.epochs=3"})), "parallel.server.parameters: [\"*\"] -> []");
  refused(launched_with_servers({}, train("same", {all[0], "train.epochs=3", "parallel.server.slice_kb=1"})),
          "parallel.server.slice_kb");
  refused(launched(2, {}, train("same", {"train.epochs=3"})),
          "Its tables were on parameter servers, so start them again");
  refused(launched_with_servers({}, train("same", {all[0], "parallel.server.staleness=2"})),
          "parallel.server.staleness is 2 and parallel.server.consistency sync");
  refused(launched_with_servers({}, train("ema", {"callbacks.use=[ema]"})), "ema averages parameters of the ranks");
  refused(launched_with_servers({}, train("count", {"cluster.server_num=3"})), "is 3, and 2 servers were started");
  const auto ran = run_program(launched_with_servers({}, train("same", {all[0], "train.epochs=3"})));
  EXPECT_TRUE(ran.status.ok()) << ran.err;
}

TEST_F(ServerJobs, ThoroughGoOnWhileTheirDiskIsFull) {
  Disk disk(folder_.path() / "disk");
  if (!disk.obstacle().empty()) GTEST_SKIP() << "no small disk here: " << disk.obstacle();
  const Words program = train("full", {"checkpoint.every_steps=5", "train.epochs=6",
                                       "checkpoint.folder=" + (disk.folder() / "checkpoints").string()});
  Child job = start(launched_with_servers({"--start-method", "spawn"}, program),
                    {{"LOCKSTEP_FAULT", "rank=0,step=1,action=slow,ms=60"}}, "full.log");
  ASSERT_TRUE(has_made_steps("full", 6)) << log("full.log");
  disk.fill();
  ASSERT_TRUE(wait_until([&] { return log("full.log").find("training goes on without") != std::string::npos; }));
  disk.free();
  const auto end = job.wait_for(120s);
  ASSERT_TRUE(end && end->ok()) << log("full.log");
  const auto peace = run_program(launched(2, {}, train("peace", {"train.epochs=6", "parallel.mode=data_parallel"})));
  ASSERT_TRUE(peace.status.ok()) << peace.err;
  EXPECT_EQ(hash_in(work_dir("full")), hash_in(work_dir("peace"))) << log("full.log");
}

/// A stopped server or worker is what the error names, and not whoever waited for it.
TEST_F(ServerJobs, NameWhoIsWaitedFor) {
  const auto reason_with = [&](const std::string& job, const std::string& fault) {
    const auto ran = run_program(launched_with_servers({"--max-restarts", "0"}, train(job, {"parallel.timeout_s=3"})),
                                 {{"LOCKSTEP_FAULT", fault}});
    EXPECT_FALSE(ran.status.ok());
    return ran.err;
  };
  EXPECT_THAT(reason_with("worker", "rank=1,step=8,action=stop,place=forward"),
              ContainsRegex("reason: .*rank 1 \\(pid [^)]*\\) did not take part in it"));
  EXPECT_THAT(reason_with("server", "rank=3,step=8,action=stop,place=forward"),
              ContainsRegex("reason: .*rank 3 \\(pid [^)]*\\) did not take part in it"));
}

/// Between two requests a worker may do what it likes, for longer than parallel.timeout_s.
TEST_F(ServerJobs, ThoroughWaitForAWorkerThatHasOtherWork) {
  const auto ran = run_program(
      launched(1, {"--servers", "2"}, train("idle", {"parallel.timeout_s=2", "train.steps=12", "train.epochs=null"})),
      {{"LOCKSTEP_FAULT", "rank=0,step=10,action=slow,ms=3500"}});
  EXPECT_TRUE(ran.status.ok()) << ran.err;
}

/// A table that is too large for a process, with the state of its optimizer, and not for servers.
TEST_F(ServerJobs, ThoroughTrainWhatIsTooLargeForOneProcess) {
  const Words large = {"model.rows=8000000", "model.dim=16", "train.epochs=1",
                       "checkpoint.export_weights=false"};  // 544 MB, and twice that of state
  const Words limited = {"bash", "-c", "ulimit -d 1000000; exec \"$@\"", "limited"};
  const auto run = [&](Words words) {
    words.insert(words.begin(), limited.begin(), limited.end());
    return run_program(words);
  };
  auto keys = large;
  keys.push_back("parallel.mode=data_parallel");
  const auto alone = run(launched(1, {}, train("alone", keys)));
  EXPECT_FALSE(alone.status.ok());
  EXPECT_THAT(alone.err, HasSubstr("the optimizer keeps 2 numbers beside each of 128"));
  EXPECT_THAT(alone.err, HasSubstr("bytes of memory are available"));
  EXPECT_THAT(alone.err, HasSubstr("parameter servers"));
  const auto served = run(launched_with_servers({}, train("served", large)));
  EXPECT_TRUE(served.status.ok()) << served.err;
}

/// Killed at random, workers and servers; what is left has the undisturbed result.
TEST_F(ServerJobs, ThoroughOutliveKillsOfAnyOfThem) {
  const auto words =
      launched(2, {"--servers", "3", "--start-method", "spawn", "--max-restarts", "20"},
               train("struck", {"train.epochs=6", "checkpoint.every_steps=10", "parallel.server.replicas=2"}));
  Child job = start(words, {{"LOCKSTEP_FAULT", "rank=0,step=1,action=slow,ms=50"}}, "struck.log");
  for (const int victim : {3, 1, 2, 0, 4, 3}) {
    const auto before = read_file(work_dir("struck") / "metrics.jsonl");
    const auto steps = std::count(before.begin(), before.end(), '\n');
    ASSERT_TRUE(has_made_steps("struck", static_cast<int>(steps) + 3)) << log("struck.log");
    const auto ranks = ranks_below(job.pid());
    ASSERT_TRUE(ranks.contains(victim)) << log("struck.log");
    ::kill(ranks.at(victim), SIGKILL);
  }
  const auto end = job.wait_for(120s);
  ASSERT_TRUE(end && end->ok()) << log("struck.log");
  const auto peace = run_program(launched(2, {}, train("peace", {"train.epochs=6", "parallel.mode=data_parallel"})));
  ASSERT_TRUE(peace.status.ok()) << peace.err;
  EXPECT_EQ(hash_in(work_dir("struck")), hash_in(work_dir("peace"))) << log("struck.log");
}

}  // namespace
}  // namespace lockstep::test
