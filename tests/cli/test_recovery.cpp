// Workers that die in the middle of a run, and what becomes of it.
#include "chaos/disk.h"
#include "cli/supervised_job.h"
#include "support/etcd_server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <thread>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr auto kLimit = 180s;
constexpr int kWorkers = 3;

/// 24 steps, with a batch and a checkpoint at the end of each of the 12 epochs.
constexpr int kSteps = 24;
const Words kRun = {"data.batch_size=6", "train.epochs=12", "train.eval_every=1", "callbacks.loss_every=1",
                    "callbacks.metrics_every=1"};

/// The hash of a run that nothing happens to. The network adds in another order than shared memory does.
std::string hash_of_peace(const Words& keys, const std::string& backend) {
  static std::map<std::pair<Words, std::string>, std::string> known;
  auto& hash = known[{keys, backend == "tcp" ? "tcp" : "shm"}];
  if (!hash.empty()) return hash;
  const Workbench bench;
  auto words = bench.train(keys);
  words.insert(words.begin(), {LOCKSTEP_BINARY, "run", "--nproc-per-node", std::to_string(kWorkers)});
  const auto ran = run_program(words, {{"LOCKSTEP_BACKEND", backend == "tcp" ? "tcp" : "shm"}});
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  return hash = hash_in(bench.work_dir());
}

std::string undisturbed_hash(const std::string& backend) { return hash_of_peace(kRun, backend); }

Words run_with(Words keys) {
  keys.insert(keys.begin(), kRun.begin(), kRun.end());
  return keys;
}

/// One line for each step, in order.
void expect_a_line_for_each_step(const std::filesystem::path& work_dir) {
  std::istringstream lines(read_file(work_dir / "metrics.jsonl"));
  std::vector<int> steps;
  for (std::string line; std::getline(lines, line);) steps.push_back(nlohmann::json::parse(line).at("step"));
  std::vector<int> all(kSteps);
  std::iota(all.begin(), all.end(), 1);
  EXPECT_EQ(steps, all);
}

/// Whether it comes to be so, before it is over or too late.
template <typename Condition, typename Over>
bool comes_to_be(Condition condition, Over over) {
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  while (std::chrono::steady_clock::now() < deadline) {
    if (condition()) return true;
    if (over()) return false;
    std::this_thread::sleep_for(20ms);
  }
  return false;
}

constexpr auto kNever = [] { return false; };

/// All workers, one of them with an order to fail. In a hierarchy, two ranks are on one "host", the third on another.
void start_workers(SupervisedJob& job, const std::string& backend, int faulty, const std::string& fault) {
  for (int number = 0; number < kWorkers; ++number) {
    Environment more;
    if (backend == "hierarchy") more["LOCKSTEP_HOST_ID"] = number < 2 ? "a" : "b";
    if (number == faulty) more["LOCKSTEP_FAULT"] = fault;
    job.start_worker(number, more);
  }
  job.start_all();
}

struct FaultCase {
  const char* name;
  const char* fault;
  int worker;           ///< that has it
  bool dies;            ///< else it only loses the others
  const char* backend;  ///< "" is auto
  Words keys = {};
};

class Recovery : public testing::TestWithParam<FaultCase> {};

TEST_P(Recovery, GoesOnAndEndsAsIfNothingHadHappened) {
  const FaultCase& one = GetParam();
  const Workbench bench;
  Environment variables;
  if (*one.backend != 0) variables["LOCKSTEP_BACKEND"] = one.backend;
  SupervisedJob job(bench.path() / "logs", bench.train(run_with(one.keys)), kWorkers, variables);
  start_workers(job, one.backend, one.worker, one.fault);
  EXPECT_TRUE(job.tend_to_the_end(kLimit)) << job.last_words();
  EXPECT_EQ(job.restarts(), one.dies ? 1 : 0) << job.last_words();
  const int survivor = one.worker == 0 ? 1 : 0;
  EXPECT_THAT(read_file(bench.work_dir() / "log" / fmt::format("rank.{}", survivor)), HasSubstr("going on after step"))
      << job.last_words();
  EXPECT_EQ(hash_in(bench.work_dir()), hash_of_peace(run_with(one.keys), one.backend)) << job.last_words();
  expect_a_line_for_each_step(bench.work_dir());
}

/// Ranks that meet in forward, too, and change buffers there.
const Words kRendezvous = {"model.name=resnet20", "parallel.sync_batch_norm=true"};
/// What auto makes of a plan that is data parallel.
const Words kAuto = {"model.name=resnet20", "parallel.mode=auto", "parallel.mesh={data: 3}"};

INSTANTIATE_TEST_SUITE_P(
    EachPlaceOfAStep, Recovery,
    testing::Values(FaultCase{"Backward", "rank=2,step=9,action=kill,place=backward", 2, true, ""},
                    FaultCase{"Updated", "rank=0,step=9,action=kill,place=updated", 0, true, ""},
                    FaultCase{"OneStepApart", "rank=1,step=9,action=lose,place=reduced", 1, false, ""},
                    FaultCase{"Hierarchy", "rank=2,step=9,action=kill,place=backward", 2, true, "hierarchy"},
                    FaultCase{"BatchNormsForward", "rank=1,step=9,action=kill,place=begin", 1, true, "", kRendezvous}),
    [](const auto& one) { return one.param.name; });
INSTANTIATE_TEST_SUITE_P(
    Thorough, Recovery,
    testing::Values(FaultCase{"Begin", "rank=1,step=9,action=kill,place=begin", 1, true, ""},
                    FaultCase{"Forward", "rank=0,step=9,action=kill,place=forward", 0, true, ""},
                    FaultCase{"Reduced", "rank=1,step=9,action=kill,place=reduced", 1, true, ""},
                    FaultCase{"Evaluate", "rank=2,step=8,action=kill,place=evaluate", 2, true, ""},
                    FaultCase{"Save", "rank=0,step=8,action=kill,place=save", 0, true, ""},
                    FaultCase{"TheFirstStep", "rank=1,step=1,action=kill,place=backward", 1, true, ""},
                    FaultCase{"TheLastStep", "rank=0,step=24,action=kill,place=reduced", 0, true, ""},
                    FaultCase{"AnException", "rank=1,step=9,action=throw", 1, true, ""},
                    FaultCase{"Tcp", "rank=1,step=9,action=kill,place=backward", 1, true, "tcp"},
                    FaultCase{"TcpOneStepApart", "rank=0,step=9,action=lose,place=reduced", 0, false, "tcp"},
                    FaultCase{"BatchNormsTcp", "rank=0,step=9,action=kill,place=backward", 0, true, "tcp", kRendezvous},
                    FaultCase{"AutoIsDataParallel", "rank=2,step=9,action=kill,place=backward", 2, true, "", kAuto}),
    [](const auto& one) { return one.param.name; });

/// All have completed the last step of an epoch, and none has noted that the epoch is over.
TEST(RecoveryOfAll, ThoroughAllLoseEachOtherAtTheEndOfAnEpoch) {
  const Workbench bench;
  SupervisedJob job(bench.path() / "logs", bench.train(kRun), kWorkers);
  for (int number = 0; number < kWorkers; ++number) {
    job.start_worker(number,
                     {{"LOCKSTEP_FAULT", fmt::format("rank={},step=8,action=lose,place=updated,ms=300", number)}});
  }
  job.start_all();
  EXPECT_TRUE(job.tend_to_the_end(kLimit)) << job.last_words();
  EXPECT_EQ(job.restarts(), 0) << job.last_words();
  EXPECT_THAT(read_file(bench.work_dir() / "log" / "rank.1"), HasSubstr("going on after step 8")) << job.last_words();
  EXPECT_THAT(job.log_of_worker(0), Not(HasSubstr(": 0 steps in"))) << "an epoch that has nothing left";
  EXPECT_EQ(hash_in(bench.work_dir()), undisturbed_hash("")) << job.last_words();
  expect_a_line_for_each_step(bench.work_dir());
}

struct PartsCase {
  const char* name;
  Words keys;
  const char* fault;
  int worker;           ///< that has it, and dies
  const char* backend;  ///< "" is auto
};

/// Runs in which each rank has something for itself.
class RecoveryOfParts : public testing::TestWithParam<PartsCase> {};

TEST_P(RecoveryOfParts, TheNextRankHasKeptIt) {
  const PartsCase& one = GetParam();
  const Workbench bench;
  Environment variables;
  if (*one.backend != 0) variables["LOCKSTEP_BACKEND"] = one.backend;
  SupervisedJob job(bench.path() / "logs", bench.train(run_with(one.keys)), kWorkers, variables);
  start_workers(job, one.backend, one.worker, one.fault);
  EXPECT_TRUE(job.tend_to_the_end(kLimit)) << job.last_words();
  EXPECT_EQ(job.restarts(), 1) << job.last_words();
  const int next = (one.worker + 1) % kWorkers;
  const auto log = read_file(bench.work_dir() / "log" / fmt::format("rank.{}", next));
  EXPECT_THAT(log,
              ContainsRegex(fmt::format("going on after step [0-9]+ with what the ranks have in memory; rank {} has "
                                        "kept rank {}'s part",
                                        next, one.worker)));
  EXPECT_THAT(log, Not(HasSubstr("the newest checkpoint is used instead")));
  EXPECT_EQ(hash_in(bench.work_dir()), hash_of_peace(run_with(one.keys), one.backend)) << job.last_words();
  expect_a_line_for_each_step(bench.work_dir());
}

const Words kShards = {"parallel.shard_optimizer=true"};
const Words kAdam = {"parallel.shard_optimizer=true", "optimizer.name=adam", "optimizer.momentum=null",
                     "optimizer.lr=0.001"};
const Words kGroups = {"parallel.shard_optimizer=true",
                       "optimizer.name=rmsprop",
                       "optimizer.momentum=0.5",
                       "optimizer.lr=0.001",
                       "optimizer.weight_decay=0.01",
                       "optimizer.no_decay=[biases]",
                       "optimizer.groups=[{match: fc1.weight, lr_factor: 2}]",
                       "model.freeze=[fc1.bias]"};
const Words kLocal = {"model.name=resnet20", "parallel.buffers=local"};
const Words kBoth = {"model.name=resnet20", "parallel.buffers=local", "parallel.shard_optimizer=true"};

INSTANTIATE_TEST_SUITE_P(
    EachKind, RecoveryOfParts,
    testing::Values(PartsCase{"ShardsReduced", kShards, "rank=1,step=9,action=kill,place=reduced", 1, ""},
                    PartsCase{"BuffersAndShards", kBoth, "rank=0,step=9,action=kill,place=reduced", 0, ""}),
    [](const auto& one) { return one.param.name; });
INSTANTIATE_TEST_SUITE_P(
    Thorough, RecoveryOfParts,
    testing::Values(PartsCase{"ShardsBackward", kShards, "rank=2,step=9,action=kill,place=backward", 2, ""},
                    PartsCase{"ShardsUpdated", kShards, "rank=0,step=9,action=kill,place=updated", 0, ""},
                    PartsCase{"ShardsTheFirstStep", kShards, "rank=1,step=1,action=kill,place=backward", 1, ""},
                    PartsCase{"ShardsAdam", kAdam, "rank=0,step=9,action=kill,place=reduced", 0, ""},
                    PartsCase{"ShardsOfGroups", kGroups, "rank=1,step=9,action=kill,place=reduced", 1, ""},
                    PartsCase{"ShardsTcp", kShards, "rank=1,step=9,action=kill,place=reduced", 1, "tcp"},
                    PartsCase{"ShardsHierarchy", kShards, "rank=2,step=9,action=kill,place=reduced", 2, "hierarchy"},
                    PartsCase{"BuffersForward", kLocal, "rank=0,step=9,action=kill,place=forward", 0, ""},
                    PartsCase{"BuffersReduced", kLocal, "rank=0,step=9,action=kill,place=reduced", 0, ""},
                    PartsCase{"BuffersUpdated", kLocal, "rank=0,step=9,action=kill,place=updated", 0, ""},
                    PartsCase{"BuffersEvaluate", kLocal, "rank=0,step=8,action=kill,place=evaluate", 0, ""},
                    PartsCase{"BuffersTcp", kLocal, "rank=0,step=9,action=kill,place=reduced", 0, "tcp"}),
    [](const auto& one) { return one.param.name; });

/// Neighbours take a part along: the checkpoint has all of it.
TEST(RecoveryOfNeighbours, TwoTakeAPartAlong) {
  const Workbench bench;
  SupervisedJob job(bench.path() / "logs", bench.train(run_with(kShards)), kWorkers);
  for (const int number : {1, 2}) {
    job.start_worker(number, {{"LOCKSTEP_FAULT", fmt::format("rank={},step=9,action=stop,place=begin", number)}});
  }
  job.start_all();
  // Both have completed step 8, and neither sees the other die.
  for (const int number : {1, 2}) {
    ASSERT_TRUE(comes_to_be([&] { return job.is_stopped(number); }, kNever)) << job.last_words();
  }
  for (const int number : {1, 2}) job.signal_worker(number, SIGKILL);
  EXPECT_TRUE(job.tend_to_the_end(kLimit)) << job.last_words();
  EXPECT_EQ(job.restarts(), 2) << job.last_words();
  EXPECT_THAT(read_file(bench.work_dir() / "log" / "rank.0"),
              HasSubstr("rank 1's part of the state after step 8 is lost, with its copy on rank 2, the newest "
                        "checkpoint is used instead"));
  EXPECT_EQ(hash_in(bench.work_dir()), hash_of_peace(run_with(kShards), "")) << job.last_words();
}

TEST(RecoveryOfTrust, ASurvivorWhoseStateDiffersIsNotGoneOnWith) {
  const Workbench bench;
  SupervisedJob job(bench.path() / "logs", bench.train(kRun), kWorkers);
  job.start_worker(1, {{"LOCKSTEP_FAULT", "rank=1,step=9,action=corrupt,place=begin"}});
  job.start_worker(2, {{"LOCKSTEP_FAULT", "rank=2,step=9,action=kill,place=begin"}});
  job.start_all();
  EXPECT_TRUE(job.tend_to_the_end(kLimit)) << job.last_words();
  EXPECT_EQ(job.restarts(), 1) << job.last_words();
  for (const int survivor : {0, 1}) {
    const auto log = read_file(bench.work_dir() / "log" / fmt::format("rank.{}", survivor));
    EXPECT_THAT(
        log, ContainsRegex("after step 8 the state of rank 1 .SHA-256 [0-9a-f]{12}. differs from that of rank 0 "
                           ".[0-9a-f]{12}.; no state in memory can be trusted, the newest checkpoint is used instead"));
    EXPECT_THAT(log, Not(HasSubstr("going on after step")));
  }
  EXPECT_THAT(job.log_of_worker(0), ContainsRegex("going on from .*step_0*8.sharded"));
  EXPECT_EQ(hash_in(bench.work_dir()), undisturbed_hash("")) << job.last_words();
  expect_a_line_for_each_step(bench.work_dir());
}

/// Whether the run comes so far; nobody is replaced meanwhile.
bool reaches(const SupervisedJob& job, std::int64_t step) {
  return comes_to_be(
      [&] {
        const auto asked = lockstep({"status", "--json"}, job.variables());
        if (!asked.status.ok()) return false;
        const auto status = nlohmann::json::parse(asked.out);
        return !status["step"].is_null() && status["step"] >= step;
      },
      kNever);
}

bool contains(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

/// Whether the scheduler comes to say it, while nobody is replaced.
bool scheduler_says_untended(const SupervisedJob& job, const std::string& words) {
  return comes_to_be([&] { return contains(job.log_of_scheduler(), words); }, kNever);
}

/// Whether it does before the job is over.
bool scheduler_says(SupervisedJob& job, const std::string& words) {
  return comes_to_be([&] { return contains(job.log_of_scheduler(), words); }, [&] { return job.tend(); });
}

class AloneAhead : public testing::TestWithParam<bool> {};

/// Worker 0 completes step 9 and nobody else does: worker 1 loses the others before, and worker 2 stops and is killed.
TEST_P(AloneAhead, ThoroughGoesBackWithTheOthers) {
  const bool corrupt = GetParam();
  const Workbench bench;
  SupervisedJob job(bench.path() / "logs", bench.train(kRun), kWorkers);
  if (corrupt) job.start_worker(0, {{"LOCKSTEP_FAULT", "rank=0,step=9,action=corrupt,place=updated"}});
  job.start_worker(1, {{"LOCKSTEP_FAULT", "rank=1,step=9,action=lose,place=reduced,ms=2000"}});
  job.start_worker(2, {{"LOCKSTEP_FAULT", "rank=2,step=9,action=stop,place=reduced"}});
  job.start_all();
  const auto log_of = [&](int rank) { return read_file(bench.work_dir() / "log" / fmt::format("rank.{}", rank)); };
  const auto keep = "this one keeps its state";
  for (const int survivor : {0, 1}) {
    ASSERT_TRUE(comes_to_be([&] { return contains(log_of(survivor), keep); }, kNever)) << job.last_words();
  }
  job.signal_worker(2, SIGKILL);
  EXPECT_TRUE(job.tend_to_the_end(kLimit)) << job.last_words();
  EXPECT_EQ(job.restarts(), 1) << job.last_words();
  for (const int survivor : {0, 1}) {
    EXPECT_THAT(log_of(survivor),
                HasSubstr("going on after step 8 with what rank 1 has in memory: rank 0 alone has completed step 9, "
                          "which is repeated"));
  }
  EXPECT_THAT(job.log_of_worker(0), Not(ContainsRegex("going on from .*step_0*8.sharded")));
  EXPECT_EQ(hash_in(bench.work_dir()), undisturbed_hash("")) << job.last_words();
  expect_a_line_for_each_step(bench.work_dir());
}

INSTANTIATE_TEST_SUITE_P(RecoveryOfTrust, AloneAhead, testing::Bool(),
                         [](const auto& one) { return one.param ? "Corrupt" : "Sound"; });

TEST(RecoveryFromHangs, AnEndlessLoopIsNamedAndReplaced) {
  const Workbench bench;
  SupervisedJob job(bench.path() / "logs", bench.train(kRun), kWorkers,
                    {{"LOCKSTEP_TIMEOUT_S", "8"}, {"LOCKSTEP_HANG_TIMEOUT_S", "6"}});
  job.start_worker(1, {{"LOCKSTEP_FAULT", "rank=1,step=9,action=loop"}});
  job.start_all();
  EXPECT_TRUE(job.tend_to_the_end(kLimit)) << job.last_words();
  EXPECT_EQ(job.restarts(), 1) << job.last_words();
  EXPECT_EQ(hash_in(bench.work_dir()), undisturbed_hash("")) << job.last_words();
  // The others name it, with the collective that it does not come to; it says where it is itself.
  const std::string log = job.log_of_scheduler();
  EXPECT_THAT(log,
              ContainsRegex("of group \"world\" on rank [02] of 3 did not finish within .*: rank 1 .* did not take "
                            "part in it in time"));
  EXPECT_THAT(log, ContainsRegex("worker 'worker_1' .*failed: it hangs: it had completed step 8 and had finished "
                                 "[a-z_]+ [0-9]+ of group \"world\"; its stack is:\n"));
  EXPECT_THAT(log, HasSubstr("lockstep::train::Session::")) << "a stack";
}

/// It is seated while it is stopped, so that the others wait for it where the ranks meet; then it dies.
void expect_others_notice_the_death_of(int number) {
  const Workbench bench;
  SupervisedJob job(bench.path() / "logs", bench.train(kRun), kWorkers);
  job.start_scheduler();
  job.start_worker(number);
  ASSERT_TRUE(scheduler_says_untended(job, fmt::format("worker 'worker_{}' (pid", number))) << job.last_words();
  job.signal_worker(number, SIGSTOP);
  for (int other = 0; other < kWorkers; ++other) {
    if (other != number) job.start_worker(other);
  }
  ASSERT_TRUE(scheduler_says_untended(job, "has rank 2 of 3, generation 1")) << job.last_words();
  job.signal_worker(number, SIGKILL);
  EXPECT_TRUE(job.tend_to_the_end(kLimit)) << job.last_words();
  EXPECT_EQ(job.restarts(), 1) << job.last_words();
  // The scheduler says it, or rank 0, which heard it first, takes the store with it.
  const auto why = fmt::format(
      "the rendezvous of generation 1 failed: .*(worker 'worker_{0}' .rank {0}. is lost|the connection to the store "
      "broke)",
      number);
  for (int other = 0; other < kWorkers; ++other) {
    if (other == number) continue;
    EXPECT_THAT(job.log_of_worker(other), ContainsRegex(why));
  }
  EXPECT_EQ(hash_in(bench.work_dir()), undisturbed_hash("")) << job.last_words();
}

TEST(RecoveryOfRendezvous, TheOthersWaitForAPresence) { expect_others_notice_the_death_of(1); }
TEST(RecoveryOfRendezvous, ThoroughTheOthersWaitForTheStore) { expect_others_notice_the_death_of(0); }

/// In a PID namespace of its own, as on another host: the others cannot see its end.
Words unseen(Words words) {
  // A process of its own in it, as the first one cannot be killed from inside.
  Words all = {"unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", "\"$@\"; exit $?", "bash"};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

bool can_hide_processes() { return run_program(unseen({"true"})).status.ok(); }

/// It is known to the others, and they wait for its connection; then it dies.
void expect_others_notice_the_death_before_connecting(int number, const Environment& backend) {
  if (!can_hide_processes()) GTEST_SKIP() << "no PID namespaces here";
  const Workbench bench;
  SupervisedJob job(bench.path() / "logs", bench.train(kRun), kWorkers, backend, [number](int process, Words words) {
    return process == number ? unseen(std::move(words)) : words;
  });
  for (int one = 0; one < kWorkers; ++one) {
    Environment more;
    if (backend.contains("LOCKSTEP_BACKEND") && backend.at("LOCKSTEP_BACKEND") == "hierarchy") {
      more["LOCKSTEP_HOST_ID"] = one == number ? "b" : "a";
    }
    if (one == number) more["LOCKSTEP_FAULT"] = fmt::format("rank={},step=1,action=kill,place=connect", number);
    job.start_worker(one, more);
  }
  job.start_all();
  // Nobody comes in its place yet: this is what they know of its death alone.
  for (int other = 0; other < kWorkers; ++other) {
    if (other == number) continue;
    const std::string failed = "the rendezvous of generation 1 failed";
    ASSERT_TRUE(comes_to_be([&] { return contains(job.log_of_worker(other), failed); }, kNever)) << job.last_words();
    // One of them says it, the others hear it of that one or of the scheduler.
    EXPECT_THAT(job.log_of_worker(other),
                ContainsRegex(fmt::format("{}: .*worker 'worker_{}' .rank {}. is lost", failed, number, number)));
  }
  EXPECT_TRUE(job.tend_to_the_end(kLimit)) << job.last_words();
  EXPECT_EQ(job.restarts(), 1) << job.last_words();
  const auto name = find(backend, "LOCKSTEP_BACKEND").value_or("");
  EXPECT_EQ(hash_in(bench.work_dir()), undisturbed_hash(std::string(name))) << job.last_words();
}

TEST(RecoveryOfRendezvous, ThoroughTheOthersWaitForAnAddressOverTcp) {
  expect_others_notice_the_death_before_connecting(1, {{"LOCKSTEP_BACKEND", "tcp"}});
}
TEST(RecoveryOfRendezvous, ThoroughTheOthersWaitForAnotherHost) {
  expect_others_notice_the_death_before_connecting(2, {{"LOCKSTEP_BACKEND", "hierarchy"}});
}
TEST(RecoveryOfRendezvous, ThoroughTheOthersWaitForANeighbour) {
  expect_others_notice_the_death_before_connecting(1, {{"LOCKSTEP_BACKEND", "shm"}});
}

/// So long that there is time to break it, however fast the machine is: with a worker that is slow.
const Environment kSlow = {{"LOCKSTEP_FAULT", "rank=0,step=1,action=slow,ms=15"}};

Words long_run(Words more) {
  more.insert(more.begin(), {"data.batch_size=6", "train.epochs=300", "train.eval_every=0", "checkpoint.every_epochs=0",
                             "callbacks.loss_every=0"});
  return more;
}

Environment slow_and_watched() {
  Environment variables = kSlow;
  variables.insert({"MS_NODE_TIMEOUT", "5"});
  return variables;
}

std::string hash_of_long_run() { return hash_of_peace(long_run({}), "shm"); }

TEST(RecoveryOfAll, FromTheNewestCheckpoint) {
  const Workbench bench;
  SupervisedJob job(bench.path() / "logs", bench.train(long_run({"checkpoint.every_steps=50"})), kWorkers, kSlow);
  job.start_all();
  ASSERT_TRUE(reaches(job, 60)) << job.last_words();
  for (int number = 0; number < kWorkers; ++number) job.signal_worker(number, SIGKILL);
  EXPECT_TRUE(job.tend_to_the_end(kLimit)) << job.last_words();
  EXPECT_EQ(job.restarts(), kWorkers);
  EXPECT_THAT(read_file(bench.work_dir() / "log" / "rank.0"), HasSubstr("going on from "));
  EXPECT_EQ(hash_in(bench.work_dir()), hash_of_long_run()) << job.last_words();
}

TEST(RecoveryOfAll, ThoroughTheSchedulerDiesAndThenAWorker) {
  const Workbench bench;
  SupervisedJob job(bench.path() / "logs", bench.train(long_run({})), kWorkers, slow_and_watched());
  job.start_all();
  ASSERT_TRUE(reaches(job, 1)) << job.last_words();
  job.kill_scheduler();
  job.signal_worker(1, SIGKILL);
  EXPECT_TRUE(job.tend_to_the_end(kLimit)) << job.last_words();
  EXPECT_EQ(job.restarts(), 1) << job.last_words();
  EXPECT_EQ(hash_in(bench.work_dir()), hash_of_long_run()) << job.last_words();
}

TEST(RecoveryOfAll, TheSchedulersStateIsInEtcd) {
  if (const auto why = EtcdServer::obstacle()) GTEST_SKIP() << *why;
  EtcdServer etcd;
  const Workbench bench;
  auto variables = slow_and_watched();
  variables["LOCKSTEP_FAULT"] = "rank=0,step=1,action=slow,ms=40";  // it outlives two restarts of others
  variables["MS_RECOVERY_PATH"] = "etcd://" + etcd.endpoints() + "/jobs/one";
  SupervisedJob job(bench.path() / "logs", bench.train(long_run({})), kWorkers, variables);
  job.start_all();
  ASSERT_TRUE(reaches(job, 1)) << job.last_words();
  // Without etcd the job goes on, and its state follows.
  etcd.kill();
  ASSERT_TRUE(job.signal_worker(2, SIGKILL));
  EXPECT_TRUE(scheduler_says(job, "the state of the job is not saved")) << job.last_words();
  etcd.start();
  EXPECT_TRUE(scheduler_says(job, "the state of the job is saved again")) << job.last_words();
  job.kill_scheduler();
  job.signal_worker(1, SIGKILL);
  EXPECT_TRUE(job.tend_to_the_end(kLimit)) << job.last_words();
  EXPECT_THAT(job.log_of_scheduler(), HasSubstr("from /jobs/one in the etcd at " + etcd.endpoints()));
  EXPECT_EQ(job.restarts(), 2) << job.last_words();
  EXPECT_EQ(hash_in(bench.work_dir()), hash_of_long_run()) << job.last_words();
}

TEST(RecoveryOfAll, AStoppedWorkerIsReplaced) {
  const Workbench bench;
  SupervisedJob job(bench.path() / "logs", bench.train(long_run({})), kWorkers, slow_and_watched());
  job.start_all();
  ASSERT_TRUE(reaches(job, 1)) << job.last_words();
  ASSERT_TRUE(job.signal_worker(2, SIGSTOP));
  ASSERT_TRUE(scheduler_says(job, "it sent nothing for 5 s")) << job.last_words();
  job.signal_worker(2, SIGKILL);
  EXPECT_TRUE(job.tend_to_the_end(kLimit)) << job.last_words();
  EXPECT_EQ(job.restarts(), 1) << job.last_words();
  EXPECT_EQ(hash_in(bench.work_dir()), hash_of_long_run()) << job.last_words();
}

/// Whether the logs of the ranks come to say it.
bool ranks_say(SupervisedJob& job, const Workbench& bench, int rank, const std::string& words) {
  const auto file = bench.work_dir() / "log" / fmt::format("rank.{}", rank);
  return comes_to_be([&] { return contains(read_file(file), words); }, [&] { return job.tend(); });
}

TEST(RecoveryOfAll, ThoroughAFullDiskEndsNothing) {
  const Workbench bench;
  Disk disk(bench.path() / "disk");
  if (!disk.obstacle().empty()) GTEST_SKIP() << "no small disk here: " << disk.obstacle();
  const auto checkpoints = disk.folder() / "checkpoints";
  auto variables = kSlow;
  variables["MS_RECOVERY_PATH"] = disk.folder() / "state";
  SupervisedJob job(bench.path() / "logs",
                    bench.train(long_run({"checkpoint.every_steps=20", "checkpoint.folder=" + checkpoints.string()})),
                    kWorkers, variables);
  job.start_all();
  ASSERT_TRUE(reaches(job, 30)) << job.last_words();
  disk.fill();
  EXPECT_TRUE(ranks_say(job, bench, 0, "training goes on without")) << job.last_words();
  EXPECT_EQ(job.restarts(), 0) << job.last_words();
  // Who saves dies; the one in its place cannot save either.
  job.signal_worker(0, SIGKILL);
  EXPECT_TRUE(ranks_say(job, bench, 0, "nothing can be saved just now")) << job.last_words();
  disk.free();
  EXPECT_TRUE(job.tend_to_the_end(kLimit)) << job.last_words();
  EXPECT_EQ(job.restarts(), 1) << job.last_words();
  EXPECT_EQ(hash_in(bench.work_dir()), hash_of_long_run()) << job.last_words();
  EXPECT_TRUE(std::filesystem::exists(checkpoints / "step_00000600.sharded")) << job.last_words();
}

}  // namespace
}  // namespace lockstep::test
