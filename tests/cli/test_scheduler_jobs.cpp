// Jobs with a scheduler, as people start them.
#include "cli/read_until.h"
#include "cli/two_nodes.h"
#include "support/port.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;
using testing::StartsWith;

constexpr auto kLimit = 120s;

Words script(const std::string& name, Words more) {
  more.insert(more.begin(), {"bash", LOCKSTEP_SOURCE_DIR "/examples/launch/" + name});
  return more;
}

/// The variables of a job on a free port.
Environment job_of(int workers, const std::string& host = "127.0.0.1") {
  return {{"MS_WORKER_NUM", std::to_string(workers)}, {"MS_SCHED_HOST", host}, {"MS_SCHED_PORT", free_port()}};
}

Environment with(Environment environment, const Environment& more) {
  for (const auto& [name, value] : more) environment.insert_or_assign(name, value);
  return environment;
}

/// A program in the background, whose output goes to a pipe.
Child start(Words words, const Environment& more) {
  ChildOptions child;
  child.arguments = std::move(words);
  child.environment = environment_of_scripts();
  for (const auto& [name, value] : more) child.environment->insert_or_assign(name, value);
  child.out = ChildStream::pipe;
  child.err = ChildStream::pipe;
  return Child(child);
}

/// What a worker of a job said, and how it ended.
std::future<Captured> worker(const Workbench& bench, const Environment& job, Words more = {}) {
  more.insert(more.begin(), "data.batch_size=5");
  return std::async(std::launch::async, [&bench, job, words = bench.train(std::move(more))] {
    return run_in(bench.path(), words, with(job, {{"MS_ROLE", "MS_WORKER"}}));
  });
}

std::optional<json> status_of(const Environment& job, const Environment& more = {}) {
  const auto asked = lockstep({"status", "--json"}, with(job, more));
  return asked.status.ok() ? std::optional(json::parse(asked.out)) : std::nullopt;
}

/// Asks until the status is so, for a while.
template <typename Condition>
json status_when(const Environment& job, Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  for (;;) {
    const auto status = status_of(job);
    if (status && condition(*status)) return *status;
    if (std::chrono::steady_clock::now() > deadline) return status.value_or(json());
    std::this_thread::sleep_for(50ms);
  }
}

// ---- one machine

TEST(SchedulerJobs, TheSameCommandEverywhere) {
  const Workbench bench;
  const Environment job = job_of(2);
  auto first = worker(bench, with(job, {{"MS_NODE_ID", "w0"}}));
  auto scheduler = start(bench.train(), with(job, {{"MS_ROLE", "MS_SCHED"}}));
  const std::string begun = read_until(scheduler.err(), "worker 'w0'");
  EXPECT_THAT(begun, HasSubstr("the scheduler listens on 127.0.0.1:"));
  const auto status = status_when(job, [](const json& s) { return s["present"] == 1; });
  EXPECT_EQ(status["state"], "CLUSTER_STARTING");
  EXPECT_EQ(status["workers"][0]["node_id"], "w0");
  const auto asked = lockstep({"status"}, job);
  EXPECT_THAT(asked.out, AllOf(HasSubstr("1 of 2 workers"), HasSubstr("waiting"), HasSubstr("w0"))) << asked.err;
  const auto curl = run_program({"curl", "-s", "http://127.0.0.1:" + job.at("MS_SCHED_PORT") + "/v1/status"});
  EXPECT_EQ(json::parse(curl.out)["wanted"], 2);

  auto second = worker(bench, with(job, {{"MS_NODE_ID", "w1"}}));
  const auto of_first = first.get();
  const auto of_second = second.get();
  ASSERT_TRUE(of_first.status.ok()) << of_first.err;
  ASSERT_TRUE(of_second.status.ok()) << of_second.err;
  EXPECT_EQ(scheduler.wait_for(kLimit), (ExitStatus{0, 0}));
  EXPECT_THAT(read_until(scheduler.err(), "all 2 worker(s) are done"), HasSubstr("all 2 worker(s) are done"));
  EXPECT_THAT(of_first.out, AllOf(StartsWith("rank 0 of 2 (local 0 of 2)"), HasSubstr("MS_ROLE=MS_WORKER")));
  EXPECT_THAT(of_first.out, HasSubstr("backend shm"));
  expect_result(bench, 2);
}

TEST(SchedulerJobs, TheConfigurationSaysIt) {
  const Workbench bench;
  const Words keys = {"cluster.worker_num=1", "cluster.sched_host=127.0.0.1", "cluster.sched_port=" + free_port()};
  Words scheduler_words = {LOCKSTEP_BINARY, "scheduler"};
  scheduler_words.insert(scheduler_words.end(), keys.begin(), keys.end());
  auto scheduler = start(scheduler_words, {});
  Words train = bench.train(keys);
  train.emplace_back("cluster.role=MS_WORKER");
  const auto ran = run_in(bench.path(), train);
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_EQ(scheduler.wait_for(kLimit), (ExitStatus{0, 0}));
  expect_result(bench, 1);
}

// A worker that comes first tries to connect again and again. From the port that it wants to reach, TCP would connect
// it to itself, and the scheduler could not listen there. A range of one port makes that happen each time.
TEST(SchedulerJobs, AWorkerThatComesFirstDoesNotTakeThePort) {
  if (!run_program({"unshare", "-n", "true"}).status.ok()) GTEST_SKIP() << TwoHosts::kObstacle;
  const Workbench bench;
  const std::string script =
      "ports() { echo \"$1\" >/proc/sys/net/ipv4/ip_local_port_range; }; ip link set lo up && ports '40000 40000' || "
      "exit 99;"
      "export MS_WORKER_NUM=1 MS_SCHED_HOST=127.0.0.1 MS_SCHED_PORT=40000;"
      "MS_ROLE=MS_WORKER \"$@\" & worker=$!; sleep 1; ports '40000 40100';"
      "MS_ROLE=MS_SCHED \"$@\" && wait $worker";
  Words words = {"unshare", "-n", "bash", "-c", script, "job"};
  for (auto& word : bench.train()) words.push_back(word);
  const auto ran = run_in(bench.path(), words);
  EXPECT_TRUE(ran.status.ok()) << ran.out << ran.err;
  expect_result(bench, 1);
}

TEST(SchedulerJobs, AWorkersDeathEndsTheJobWithItsName) {
  const Workbench bench;
  const Environment job = with(job_of(2), {{"LOCKSTEP_FAULT", "rank=1,step=2,action=kill"}});
  auto scheduler = start({LOCKSTEP_BINARY, "scheduler"}, job);
  auto first = worker(bench, with(job, {{"MS_NODE_ID", "w0"}}));
  auto second = worker(bench, with(job, {{"MS_NODE_ID", "w1"}}));
  EXPECT_EQ(second.get().status.signal, SIGKILL);
  const auto survivor = first.get();
  EXPECT_EQ(survivor.status, (ExitStatus{1, 0}));
  EXPECT_THAT(survivor.err, HasSubstr("rank 1 (pid"));
  const std::string said = read_until(scheduler.err(), "the job failed");
  EXPECT_THAT(said, HasSubstr("worker 'w1' (rank 1,"));
  EXPECT_EQ(scheduler.wait_for(kLimit), (ExitStatus{1, 0}));
}

TEST(SchedulerJobs, AnEndlessLoopEndsTheJobWithItsPlace) {
  const Workbench bench;
  const Environment job = with(
      job_of(2),
      {{"LOCKSTEP_FAULT", "rank=1,step=2,action=loop"}, {"LOCKSTEP_TIMEOUT_S", "5"}, {"LOCKSTEP_HANG_TIMEOUT_S", "5"}});
  auto scheduler = start({LOCKSTEP_BINARY, "scheduler"}, job);
  auto first = worker(bench, with(job, {{"MS_NODE_ID", "w0"}}));
  auto second = worker(bench, with(job, {{"MS_NODE_ID", "w1"}}));
  const auto waiting = first.get();
  EXPECT_EQ(waiting.status, (ExitStatus{1, 0}));
  EXPECT_THAT(waiting.err, ContainsRegex("rank 1 .*did not take part in it in time"));
  EXPECT_EQ(second.get().status, (ExitStatus{1, 0}));
  const std::string said = read_until(scheduler.err(), "the job failed");
  EXPECT_THAT(said, ContainsRegex("worker 'w1' .*failed: it hangs: it had completed step 1 and had finished [a-z_]+ "
                                  "[0-9]+ of group \"world\"; its stack is:"));
  EXPECT_THAT(said, HasSubstr("lockstep::train::Session::"));
  EXPECT_EQ(scheduler.wait_for(kLimit), (ExitStatus{1, 0}));
}

TEST(SchedulerJobs, TheStatusNamesASlowWorker) {
  const Workbench bench;
  const Environment job =
      with(job_of(2), {{"LOCKSTEP_FAULT", "rank=1,step=1,action=slow,ms=200"}, {"MS_NODE_TIMEOUT", "10"}});
  const Words endless = bench.train({"data.batch_size=5", "train.epochs=100000", "callbacks.loss_every=0",
                                     "checkpoint.every_epochs=0", "train.eval_every=0"});
  const auto scheduler = start({LOCKSTEP_BINARY, "scheduler"}, job);
  const auto first = start(endless, with(job, {{"MS_ROLE", "MS_WORKER"}, {"MS_NODE_ID", "w0"}}));
  const auto second = start(endless, with(job, {{"MS_ROLE", "MS_WORKER"}, {"MS_NODE_ID", "w1"}}));
  const auto status =
      status_when(job, [](const json& s) { return s["workers"].size() == 2 && s["workers"][1]["straggler"] == true; });
  ASSERT_TRUE(status.is_object());
  const json& fast = status["workers"][0];
  const json& slow = status["workers"][1];
  EXPECT_EQ(slow["straggler"], true) << status.dump(2);
  EXPECT_EQ(fast["straggler"], false) << status.dump(2);
  EXPECT_GE(slow["own_ms"], 200);
  EXPECT_GE(fast["step_ms"], 200) << "it waits for the other";
  EXPECT_LT(fast["own_ms"], fast["step_ms"]);
  EXPECT_THAT(lockstep({"status"}, job).out, ContainsRegex(" w1\n +straggler: the others wait for it\n"));
}

TEST(SchedulerJobs, TheSchedulerMayDieAndComeBack) {
  const Workbench bench;
  // Slow, so that the job outlives the heartbeats that are waited for, however fast the machine is.
  const Environment job = with(job_of(2), {{"MS_ENABLE_RECOVERY", "1"},
                                           {"MS_RECOVERY_PATH", bench.path() / "state"},
                                           {"LOCKSTEP_FAULT", "rank=0,step=1,action=slow,ms=40"}});
  std::optional<Child> scheduler(start({LOCKSTEP_BINARY, "scheduler"}, job));
  const Words longer = {"train.epochs=120", "callbacks.loss_every=0", "checkpoint.every_epochs=0",
                        "train.eval_every=0"};
  auto first = worker(bench, with(job, {{"MS_NODE_ID", "w0"}}), longer);
  auto second = worker(bench, with(job, {{"MS_NODE_ID", "w1"}}), longer);
  const auto before = status_when(job, [](const json& s) { return !s["step"].is_null(); });
  ASSERT_TRUE(before.is_object()) << "no scheduler answered with a step";
  scheduler->signal_group(SIGKILL);
  scheduler.emplace(start({LOCKSTEP_BINARY, "scheduler"}, job));
  const auto after = status_when(job, [&](const json& s) { return s["present"] == 2 && s["step"] > before["step"]; });
  ASSERT_TRUE(after.is_object()) << "the scheduler that came back did not answer";
  EXPECT_EQ(after["job"], before["job"]);
  EXPECT_EQ(after["restarts"], 0);
  EXPECT_TRUE(first.get().status.ok());
  EXPECT_TRUE(second.get().status.ok());
  EXPECT_EQ(scheduler->wait_for(kLimit), (ExitStatus{0, 0}));
  expect_result(bench, 2);
}

TEST(SchedulerJobs, WithTlsFromCertsInit) {
  const Workbench bench;
  const auto made = lockstep({"certs", "init", bench.path() / "certs"});
  ASSERT_TRUE(made.status.ok()) << made.err;
  EXPECT_THAT(made.out, HasSubstr("certs/localhost/: for that node"));
  const auto node = bench.path() / "certs" / "localhost";
  const Environment job =
      with(job_of(2, "localhost"), {{"LOCKSTEP_ENABLE_SSL", "1"}, {"LOCKSTEP_CLUSTER_CONFIG", node / "config.json"}});
  auto scheduler = start({LOCKSTEP_BINARY, "scheduler"}, job);
  auto first = worker(bench, with(job, {{"MS_NODE_ID", "w0"}}));
  EXPECT_EQ(status_when(job, [](const json& s) { return s["present"] == 1; })["secured"], true);
  std::string password = read_file(node / "password");
  password.pop_back();
  const auto url = "https://localhost:" + job.at("MS_SCHED_PORT") + "/v1/status";
  const Words curl = {"curl", "-sS", "--cacert", node / "ca.crt", "--cert-type", "P12", "--cert"};
  Words with_password = curl;
  with_password.insert(with_password.end(), {(node / "client.p12").string() + ":" + password, url});
  const auto asked = run_program(with_password);
  EXPECT_THAT(asked.out, HasSubstr("\"secured\": true")) << asked.err;
  EXPECT_FALSE(lockstep({"status"}, with(job, {{"LOCKSTEP_ENABLE_SSL", "0"}})).status.ok());

  auto second = worker(bench, with(job, {{"MS_NODE_ID", "w1"}}));
  const auto of_first = first.get();
  EXPECT_TRUE(of_first.status.ok()) << of_first.err;
  EXPECT_TRUE(second.get().status.ok());
  EXPECT_EQ(scheduler.wait_for(kLimit), (ExitStatus{0, 0}));
  for (const auto& text : {of_first.out, of_first.err, read_file(bench.work_dir() / "config.yaml")}) {
    EXPECT_THAT(text, Not(HasSubstr(password)));
  }
}

/// The variables of a job with TLS whose file allows so many connections.
Environment job_with_connections(const Workbench& bench, int workers, int connections) {
  EXPECT_TRUE(lockstep({"certs", "init", bench.path() / "certs"}).status.ok());
  const auto file = bench.path() / "certs" / "localhost" / "config.json";
  auto config = json::parse(read_file(file));
  config["connection_num"] = connections;
  std::ofstream(file) << config.dump();
  return with(job_of(workers, "localhost"), {{"LOCKSTEP_ENABLE_SSL", "1"}, {"LOCKSTEP_CLUSTER_CONFIG", file}});
}

TEST(SchedulerJobs, ConnectionNumLimitsConnections) {
  const Workbench bench;
  const Environment job = job_with_connections(bench, 1, 3);
  auto scheduler = start({LOCKSTEP_BINARY, "scheduler"}, job);
  ASSERT_THAT(read_until(scheduler.err(), "listens on"), HasSubstr("listens on"));
  // Five that say nothing. What `read` says of each: 1 is its end, 142 that there is nothing to read.
  const auto strangers =
      run_program({"bash", "-c",
                   "for i in 1 2 3 4 5; do exec {fd}<>/dev/tcp/localhost/$0; all+=($fd); done; "
                   "for i in 0 1 2 3 4; do limit=$((i < 2 ? 60 : 1)); read -t $limit -u ${all[i]}; echo -n "
                   "\"$? \"; done",
                   job.at("MS_SCHED_PORT")});
  EXPECT_EQ(strangers.out, "1 1 142 142 142 ") << strangers.err;
  const auto ran = worker(bench, job).get();
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_EQ(scheduler.wait_for(kLimit), (ExitStatus{0, 0}));
}

TEST(SchedulerJobs, ConnectionNumIsNeverLessThanTheJobNeeds) {
  const Workbench bench;
  auto scheduler = start({LOCKSTEP_BINARY, "scheduler"}, job_with_connections(bench, 2, 1));
  EXPECT_THAT(read_until(scheduler.err(), "that many are allowed"),
              AllOf(HasSubstr("connection_num is 1 in "), HasSubstr("2 workers and a status need 3")));
}

TEST(SchedulerJobs, MistakesAreSaidBeforeAnythingRuns) {
  const auto open = lockstep({"scheduler"}, with(job_of(1), {{"MS_SCHED_HOST", "0.0.0.0"}}));
  EXPECT_EQ(open.status, (ExitStatus{2, 0}));
  EXPECT_THAT(open.err, AllOf(HasSubstr("MS_SCHED_HOST=0.0.0.0 can be reached from other machines"),
                              HasSubstr("cluster.allow_insecure")));
  const auto nowhere = lockstep({"scheduler"});
  EXPECT_EQ(nowhere.status, (ExitStatus{2, 0}));
  EXPECT_THAT(nowhere.err, HasSubstr("MS_WORKER_NUM (or cluster.worker_num)"));
  const Workbench bench;
  const auto shown = lockstep({"train", "--config", bench.config(), "cluster.client_password=secret"});
  EXPECT_EQ(shown.status, (ExitStatus{2, 0}));
  EXPECT_THAT(shown.err, AllOf(HasSubstr("must not be given on the command line"), Not(HasSubstr("=secret"))));
  const auto unknown = lockstep({"train", "--config", bench.config(), "cluster.workers=2"});
  EXPECT_THAT(unknown.err, HasSubstr("there is no key 'cluster.workers'"));
  const auto silent = lockstep({"status"}, job_of(1));
  EXPECT_EQ(silent.status, (ExitStatus{1, 0}));
  EXPECT_THAT(silent.err, HasSubstr("no answer at 127.0.0.1:"));
}

// ---- the scripts

void expect_script(const std::string& name, const Environment& more, const std::string& of_scheduler) {
  const Workbench bench;
  const Environment job = with(job_of(4), more);
  const auto ran = run_in(bench.path(), script(name, {bench.data(), bench.config(), "data.batch_size=2"}), job);
  const auto folder = bench.path() / "device";
  ASSERT_TRUE(ran.status.ok()) << ran.err << read_file(folder / "scheduler.log") << read_file(folder / "worker_0.log");
  EXPECT_THAT(ran.out, StartsWith("start training\n"));
  EXPECT_THAT(read_file(folder / "scheduler.log"),
              AllOf(HasSubstr(of_scheduler), HasSubstr("all 4 worker(s) are done")));
  expect_result(bench, 4);
}

TEST(SchedulerScripts, OneMachine) { expect_script("run_gpu_cluster.sh", {}, "recovery off"); }

TEST(SchedulerScripts, WithRecovery) { expect_script("run_gpu_cluster_recovery.sh", {}, "worker 'worker_3' (rank 3,"); }

TEST(SchedulerScripts, TwoMachines) {
  const TwoHosts hosts;
  if (!hosts.made()) GTEST_SKIP() << TwoHosts::kObstacle;
  const Workbench bench;
  const Environment job = with(job_of(4, TwoHosts::address(0)), {{"LOCKSTEP_ALLOW_INSECURE", "1"}});
  const auto on = [&](int host) {
    const auto folder = bench.path() / std::to_string(host);
    std::filesystem::create_directories(folder);
    const auto name = fmt::format("run_gpu_cluster_{}.sh", host + 1);
    return run_in(folder, TwoHosts::on(host, script(name, {bench.data(), bench.config(), "data.batch_size=2"})), job);
  };
  auto second = std::async(std::launch::async, [&] { return on(1); });
  const auto first = on(0);
  ASSERT_TRUE(first.status.ok()) << read_file(bench.path() / "0/device/scheduler.log")
                                 << read_file(bench.path() / "0/device/worker_0.log");
  EXPECT_TRUE(second.get().status.ok());
  EXPECT_THAT(read_file(bench.path() / "0/device/scheduler.log"),
              AllOf(HasSubstr(" at 10.77.0.2"), HasSubstr("all 4 worker(s) are done")));
  expect_result(bench, 4);
}

}  // namespace
}  // namespace lockstep::test
