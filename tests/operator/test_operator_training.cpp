// Jobs that really train: a real API server, an operator, and Pods that run as processes.
#include <apps/operator/job/json.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lockstep/base/environment.h>
#include <lockstep/base/files.h>
#include <lockstep/base/process.h>

#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "operator/job_driver.h"
#include "operator/kubelet_process.h"
#include "operator/operator_process.h"
#include "support/etcd_server.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using kube::Role;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::IsSupersetOf;
using Words = std::vector<std::string>;

/// An MLP on pictures that look like MNIST, some milliseconds a step.
constexpr const char* kRun = R"(
system: {seed: 1}
model: {name: mlp, hidden: [64]}
loss: {name: cross_entropy}
data:
  name: mnist
  root: /data/mnist
  train_transforms: &t [rescale: {scale: 0.00392156862745098}, hwc2chw: {}]
  eval_transforms: *t
optimizer: {name: momentum, lr: 0.05, momentum: 0.9}
train: {epochs: 1}
checkpoint: {every_epochs: 1}
)";

class OperatorTraining : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = KubeServer::obstacle()) GTEST_SKIP() << *why;
    if (const auto why = KubeletProcess::obstacle()) GTEST_SKIP() << *why;
    space_ = KubeServer::get().new_space();
    kubelet_.emplace(space_);
    operator_.emplace(KubeServer::get().kubeconfig(), space_,
                      std::vector<std::string>{"--no-leader-election", "--progress-seconds", "1"});
    std::ofstream(kubelet_->data() / "run.yaml") << kRun;
    ChildOptions synthesize;
    synthesize.arguments = {
        LOCKSTEP_BINARY, "data", "synthesize", "mnist", "--out",  (kubelet_->data() / "mnist").string(),
        "--train",       "2000", "--test",     "100",   "--seed", "1"};
    const auto done = run_and_capture(synthesize, 120s);
    ASSERT_TRUE(done.status.ok()) << done.err;
  }

  /// A job whose workers run these words, and the run's settings; 2000 pictures are 200 steps of 2 x 5. Each step is
  /// slowed down to `ms` milliseconds, so that something can happen in the middle.
  json job(const std::string& name, const std::string& spec, const std::string& words, int ms = 0) {
    std::string line = fmt::format("exec {} --config /data/run.yaml system.work_dir=/data/{} {}", words, name,
                                   words.find("global") == std::string::npos ? "data.batch_size=5" : "");
    json object = simple_job(name, 2);
    object["spec"].update(json(kube::parse_yaml_documents(spec, "spec").at(0)));
    json& pod = object["spec"]["replicaSpecs"]["Worker"]["template"]["spec"];
    pod["terminationGracePeriodSeconds"] = 60;
    json& container = pod["containers"][0];
    container["command"] = {"sh", "-c", line};
    container["volumeMounts"] = {{{"name", "data"}, {"mountPath", "/data"}}};
    if (ms > 0) {
      container["env"] = {{{"name", "LOCKSTEP_FAULT"}, {"value", fmt::format("rank=0,step=1,action=slow,ms={}", ms)}}};
    }
    pod["volumes"] = {{{"name", "data"}, {"persistentVolumeClaim", {{"claimName", "data"}}}}};
    return object;
  }

  JobDriver start(const json& object) {
    JobDriver driver(space_, object["metadata"]["name"]);
    driver.create(object);
    return driver;
  }

  std::string hash(const std::string& name) const {
    const auto text = read_file(kubelet_->data() / name / "result.json");
    return text ? json::parse(*text).value("params_sha256", "") : "";
  }

  std::string logs(JobDriver& driver) {
    std::string text = driver.describe();
    for (const char* suffix : {"scheduler-0", "worker-0", "worker-1", "worker-2"}) {
      text += fmt::format("\n--- {}:\n{}", suffix, kubelet_->log(driver.name() + "-" + suffix));
    }
    return text;
  }

  /// Options of a program outside the cluster, whose environment is as empty as that of a container: variables may
  /// choose other kernels (OPENBLAS_CORETYPE), and so other last bits.
  static ChildOptions as_in_a_container() {
    ChildOptions run;
    run.environment = Environment{{"PATH", find(current_environment(), "PATH").value_or("")}, {"HOME", "/root"}};
    return run;
  }

  /// What a run without a cluster has.
  std::string undisturbed() {
    auto run = as_in_a_container();
    run.arguments = {LOCKSTEP_BINARY,
                     "run",
                     "--nproc-per-node",
                     "2",
                     LOCKSTEP_BINARY,
                     "train",
                     "--config",
                     (kubelet_->data() / "run.yaml").string(),
                     "data.batch_size=5",
                     "data.root=" + (kubelet_->data() / "mnist").string(),
                     "system.work_dir=" + (kubelet_->data() / "undisturbed").string()};
    const auto done = run_and_capture(run, 120s);
    EXPECT_TRUE(done.status.ok()) << done.err;
    return hash("undisturbed");
  }

  static std::string word(const json& pod, const char* section, const char* key) {
    return kube::text_at(kube::object_at(pod, section), key);
  }
  /// All ranks compute.
  bool wait_steps(JobDriver& driver, std::int64_t step) {
    return driver.wait([&] { return driver.status().step.value_or(0) >= step || driver.status().final(); });
  }

  std::string space_;
  std::optional<KubeletProcess> kubelet_;
  std::optional<OperatorProcess> operator_;
};

constexpr const char* kTwenty = "step_00000020.sharded";

/// Of this machine, by their command lines.
int processes_with(const std::string& words) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto line = read_file(entry.path() / "cmdline").value_or("");
    count += line.find(words) != std::string::npos && line.find("lockstep") != std::string::npos ? 1 : 0;
  }
  return count;
}

constexpr const char* kScheduled = "{mode: Scheduler, recovery: {path: /data/state}}";

TEST_F(OperatorTraining, DataParallelByLaunchersHasTheHashOfAnyOtherStart) {
  JobDriver driver = start(job("launched", "{mode: Run}", "lockstep run lockstep train"));
  ASSERT_TRUE(driver.wait_phase("Succeeded")) << logs(driver);
  EXPECT_EQ(driver.status().restarts, 0);
  EXPECT_FALSE(hash("launched").empty());
  EXPECT_EQ(hash("launched"), undisturbed());
}

TEST_F(OperatorTraining, AKilledWorkerIsReplacedInPlaceAndNoStepIsLost) {
  JobDriver driver = start(job("killed", kScheduled, "lockstep train cluster.dashboard=0", 20));
  ASSERT_TRUE(wait_steps(driver, 30)) << logs(driver);
  const auto kept = kube::uid_of(driver.pod("worker-0"));
  const auto lost = kube::uid_of(driver.pod("worker-1"));
  kubelet_->command("kill killed-worker-1");
  // Before the job's end, when Pods may be removed.
  ASSERT_TRUE(driver.wait([&] {
    const auto replaced = kube::uid_of(driver.pod("worker-1"));
    return !replaced.empty() && replaced != lost;
  })) << logs(driver);
  EXPECT_EQ(kube::uid_of(driver.pod("worker-0")), kept);
  ASSERT_TRUE(driver.wait_phase("Succeeded")) << logs(driver);
  const auto status = driver.status();
  EXPECT_EQ(status.restarts, 1) << logs(driver);
  EXPECT_EQ(status.attempt, 1);
  EXPECT_THAT(status.first_failure->message + status.last_error, HasSubstr("137"));
  EXPECT_EQ(hash("killed"), undisturbed()) << logs(driver);
  // The scheduler's live page showed it, and stays as a file.
  EXPECT_THAT(kubelet_->log("killed-scheduler-0"), HasSubstr("the live page of this job: http://127.0.0.1:"));
  const auto page = read_file(kubelet_->data() / "killed" / "dashboard.html").value_or("");
  EXPECT_THAT(page, HasSubstr("killed-worker-1")) << logs(driver);
  EXPECT_THAT(page, HasSubstr("takes part again")) << logs(driver);
}

TEST_F(OperatorTraining, ThoroughAKilledParameterServerIsReplacedInPlaceAndNoStepIsLost) {
  const auto recommend = [&](const Words& words) {
    auto run = as_in_a_container();
    run.arguments = words;
    const auto done = run_and_capture(run, 120s);
    EXPECT_TRUE(done.status.ok()) << done.err;
  };
  const auto data = (kubelet_->data() / "criteo").string();
  recommend({LOCKSTEP_BINARY, "data", "synthesize", "criteo", "--rows", "900", "--test", "100", "--seed", "1", "--out",
             data});
  std::filesystem::copy(LOCKSTEP_SOURCE_DIR "/configs/recsys/wide_and_deep_criteo.yaml",
                        kubelet_->data() / "tables.yaml");
  const Words small = {"data.rows=20000",  "data.min_count=2", "data.global_batch_size=30",
                       "model.rows=20000", "model.dim=3",      "model.hidden=[8]",
                       "train.epochs=3"};
  Words alone = {LOCKSTEP_BINARY,
                 "run",
                 "--nproc-per-node",
                 "2",
                 LOCKSTEP_BINARY,
                 "train",
                 "--config",
                 (kubelet_->data() / "tables.yaml").string(),
                 "parallel.mode=data_parallel",
                 "data.root=" + data,
                 "system.work_dir=" + (kubelet_->data() / "alone").string()};
  alone.insert(alone.end(), small.begin(), small.end());
  recommend(alone);

  auto object = job("served", kScheduled, "lockstep train", 30);
  auto& roles = object["spec"]["replicaSpecs"];
  roles["Worker"]["template"]["spec"]["containers"][0]["command"] = {
      "sh", "-c",
      fmt::format("exec lockstep train --config /data/tables.yaml data.root=/data/criteo system.work_dir=/data/served "
                  "parallel.server.replicas=2 {}",
                  fmt::join(small, " "))};
  roles["PS"] = roles["Worker"];
  JobDriver driver = start(object);
  ASSERT_TRUE(wait_steps(driver, 20)) << logs(driver);
  const auto kept = kube::uid_of(driver.pod("ps-0"));
  kubelet_->command("kill served-ps-1");
  ASSERT_TRUE(driver.wait([&] { return driver.status().restarts == 1; })) << logs(driver);
  EXPECT_EQ(kube::uid_of(driver.pod("ps-0")), kept);  // while the job runs: its end removes Pods that still do
  ASSERT_TRUE(driver.wait_phase("Succeeded")) << logs(driver) << kubelet_->log("served-ps-1");
  EXPECT_EQ(driver.status().restarts, 1) << logs(driver);
  EXPECT_EQ(driver.status().attempt, 1);
  EXPECT_THAT(kubelet_->log("served-worker-0"), HasSubstr("going on after step")) << logs(driver);
  EXPECT_EQ(hash("served"), hash("alone")) << logs(driver);
}

TEST_F(OperatorTraining, ThoroughAnEvictedWorkerAndADrainedNodesComeBack) {
  JobDriver driver = start(job("moved", kScheduled, "lockstep train", 30));
  ASSERT_TRUE(wait_steps(driver, 20)) << logs(driver);
  kubelet_->command("evict moved-worker-1");
  ASSERT_TRUE(driver.wait([&] { return driver.status().restarts == 1 && driver.status().phase == "Running"; }))
      << logs(driver);
  EXPECT_EQ(driver.status().first_failure->reason, "Evicted");
  const auto from = word(driver.pod("worker-0"), "spec", "nodeName");
  const auto drained = KubeServer::get().kubectl(
      {"drain", from, "--force", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s"});
  EXPECT_TRUE(drained.status.ok()) << drained.out << drained.err;
  ASSERT_TRUE(driver.wait_phase("Succeeded")) << logs(driver);
  for (const json& pod : driver.pods()) EXPECT_NE(word(pod, "spec", "nodeName"), from) << kube::name_of(pod);
  EXPECT_EQ(driver.status().attempt, 1);
  EXPECT_EQ(hash("moved"), undisturbed()) << logs(driver);
}

TEST_F(OperatorTraining, ThoroughASuspendedJobGoesOnFromWhereItSaved) {
  JobDriver driver = start(job("paused", kScheduled, "lockstep train", 20));
  ASSERT_TRUE(wait_steps(driver, 30)) << logs(driver);
  driver.patch({{"spec", {{"runPolicy", {{"suspend", true}}}}}});
  ASSERT_TRUE(driver.wait_pods(0)) << logs(driver);
  const auto saved = driver.status().step.value_or(0);
  EXPECT_EQ(driver.status().phase, "Suspended");
  EXPECT_THAT(kubelet_->log("paused-worker-0"), HasSubstr("checkpoint"));
  driver.patch({{"spec", {{"runPolicy", {{"suspend", false}}}}}});
  ASSERT_TRUE(driver.wait_phase("Succeeded")) << logs(driver);
  EXPECT_EQ(driver.status().restarts, 0);
  EXPECT_GE(driver.status().step.value_or(0), saved);
  EXPECT_EQ(hash("paused"), undisturbed()) << logs(driver);
}

TEST_F(OperatorTraining, AnElasticJobGrowsWhileItTrains) {
  JobDriver driver = start(job("grown", "{mode: Run, elastic: {minReplicas: 2, maxReplicas: 3}}",
                               "lockstep run --rdzv_conf $PET_RDZV_CONF,last_call_timeout=1 lockstep train "
                               "data.global_batch_size=10 checkpoint.every_steps=10",
                               20));
  ASSERT_TRUE(driver.wait_phase("Running")) << logs(driver);
  ASSERT_TRUE(driver.wait([&] { return kubelet_->log("grown-worker-0").find("rank 0 of 2") != std::string::npos; }))
      << logs(driver);
  EXPECT_TRUE(KubeServer::get().kubectl({"scale", "lsj/grown", "--replicas=3", "-n", space_}).status.ok());
  ASSERT_TRUE(driver.wait_phase("Succeeded")) << logs(driver);
  EXPECT_THAT(kubelet_->log("grown-worker-0"), HasSubstr("of 3")) << logs(driver);
  EXPECT_EQ(driver.status().restarts, 0);
}

TEST_F(OperatorTraining, ThoroughWithoutRecoveryAllGoOnFromTheCheckpoint) {
  JobDriver driver = start(job("again", "{mode: Run}", "lockstep run lockstep train checkpoint.every_steps=20", 20));
  const auto is_saved = [&] { return std::filesystem::exists(kubelet_->data() / "again" / "checkpoints" / kTwenty); };
  ASSERT_TRUE(driver.wait(is_saved)) << logs(driver);
  kubelet_->command("kill again-worker-1");
  ASSERT_TRUE(driver.wait_phase("Succeeded")) << logs(driver);
  EXPECT_EQ(driver.status().restarts, 1) << logs(driver);
  EXPECT_EQ(driver.status().attempt, 2);
  EXPECT_THAT(kubelet_->log("again-worker-0"), HasSubstr("going on from")) << logs(driver);
  EXPECT_EQ(hash("again"), undisturbed()) << logs(driver);
}

TEST_F(OperatorTraining, ALostNodesPodsComeBackElsewhereOnceTheyAreGivenUp) {
  JobDriver driver = start(job("lost", kScheduled, "lockstep train", 20));
  ASSERT_TRUE(wait_steps(driver, 20)) << logs(driver);
  const auto node = word(driver.pod("worker-1"), "spec", "nodeName");
  kubelet_->command("lose " + node);
  for (const json& pod : driver.pods()) {
    if (word(pod, "spec", "nodeName") != node) continue;
    KubeServer::get().kubectl({"delete", "pod", "--force", "--grace-period=0", "-n", space_, kube::name_of(pod)});
  }
  ASSERT_TRUE(driver.wait_phase("Succeeded")) << logs(driver);
  EXPECT_NE(word(driver.pod("worker-1"), "spec", "nodeName"), node);
  EXPECT_EQ(driver.status().attempt, 1);
  EXPECT_EQ(hash("lost"), undisturbed()) << logs(driver);
}

TEST_F(OperatorTraining, ItTrainsWithoutOperatorAndApiServerAndNothingIsForgotten) {
  JobDriver driver = start(job("alone", kScheduled, "lockstep train", 30));
  ASSERT_TRUE(wait_steps(driver, 10)) << logs(driver);
  operator_->kill();
  KubeServer::get().take_away();
  kubelet_->command("kill alone-worker-1");
  std::this_thread::sleep_for(2s);
  KubeServer::get().bring_back();
  operator_.emplace(KubeServer::get().kubeconfig(), space_, std::vector<std::string>{"--no-leader-election"});
  ASSERT_TRUE(driver.wait_phase("Succeeded")) << logs(driver);
  EXPECT_EQ(driver.status().restarts, 1) << logs(driver);
  EXPECT_EQ(driver.status().attempt, 1);
  EXPECT_EQ(hash("alone"), undisturbed()) << logs(driver);
}

TEST_F(OperatorTraining, ADeletedJobLeavesNoProcessAndItsNameIsFree) {
  const auto object = job("gone", kScheduled, "lockstep train", 20);
  JobDriver driver = start(object);
  ASSERT_TRUE(wait_steps(driver, 5)) << logs(driver);
  const auto first = kube::uid_of(driver.pod("worker-0"));
  driver.remove();
  driver.create(object);
  ASSERT_TRUE(driver.wait([&] {
    const json pod = driver.pod("worker-0");
    return !pod.is_null() && kube::uid_of(pod) != first;
  })) << logs(driver);
  ASSERT_TRUE(driver.wait_phase("Running")) << logs(driver);
  driver.remove();
  ASSERT_TRUE(driver.wait_pods(0)) << logs(driver);
  EXPECT_EQ(processes_with("system.work_dir=/data/gone"), 0);
}

TEST_F(OperatorTraining, TheStatusNamesTheRankThatFailedFirstAndItsOwnWords) {
  auto object = job("broken", "{mode: Scheduler, runPolicy: {backoffLimit: 0}}", "lockstep train");
  json& container = object["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["containers"][0];
  container["env"] = {{{"name", "LOCKSTEP_FAULT"}, {"value", "rank=1,step=5,action=throw"}}};
  JobDriver driver = start(object);
  ASSERT_TRUE(driver.wait_phase("Failed")) << logs(driver);
  const auto status = driver.status();
  ASSERT_TRUE(status.first_failure) << logs(driver);
  EXPECT_EQ(status.first_failure->pod, "broken-worker-1") << logs(driver);
  EXPECT_EQ(status.first_failure->exit_code, 1);
  EXPECT_THAT(status.first_failure->message, HasSubstr("LOCKSTEP_FAULT")) << logs(driver);
  EXPECT_THAT(status.last_error, HasSubstr("Worker 1 (Pod broken-worker-1 on node")) << logs(driver);
}

TEST_F(OperatorTraining, TheStateInEtcdGoesWithTheJob) {
  if (const auto why = EtcdServer::obstacle()) GTEST_SKIP() << *why;
  EtcdServer etcd;
  JobDriver driver = start(job(
      "cleared", fmt::format("{{mode: Scheduler, recovery: {{path: 'etcd://{}/job', clear: true}}}}", etcd.endpoints()),
      "lockstep train"));
  const auto keys = [&] {
    ChildOptions ask;
    ask.arguments = {"curl", "-s", fmt::format("http://{}/v3/kv/range", etcd.endpoints()), "-d",
                     R"({"key":"L2pvYg=="})"};
    return json::parse(run_and_capture(ask, 30s).out).value("count", "0");
  };
  ASSERT_TRUE(driver.wait_phase("Succeeded")) << logs(driver);
  EXPECT_EQ(keys(), "1");
  EXPECT_EQ(driver.status().attempt, 1);
  driver.remove();
  ASSERT_TRUE(driver.wait([&] { return driver.object().is_null(); })) << logs(driver);
  EXPECT_EQ(keys(), "0");
}

}  // namespace
}  // namespace lockstep::test
