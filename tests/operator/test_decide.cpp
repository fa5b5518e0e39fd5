// The operator's decisions about the start, the success and the failures of ranks, as tables: what is observed, and
// what is to be done.
#include <apps/operator/decide/decide.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/scene.h"

namespace lockstep::kube {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Decide, ANewJobGetsItsObjects) {
  Scene scene(kTwo);
  EXPECT_THAT(described(scene.step()),
              ElementsAre("create Service a", "create ConfigMap a", "create Pod a-worker-0", "create Pod a-worker-1"));
  EXPECT_TRUE(scene.status().holds(kCreated));
  EXPECT_EQ(scene.status().attempt, 1);
  EXPECT_EQ(scene.status().phase, "Pending");
  EXPECT_THAT(scene.events, ElementsAre("PodCreated"));
  const auto again = scene.step();
  EXPECT_THAT(described(again), IsEmpty());
}

TEST(Decide, NothingChangesWithoutANewObservation) {
  Scene scene(kTwo);
  scene.start();
  const auto again = scene.decide_now();
  EXPECT_FALSE(again.status);
  EXPECT_TRUE(again.actions.empty());
  EXPECT_TRUE(again.events.empty());
}

TEST(Decide, WithASchedulerItIsFirstAndHasCertificates) {
  Scene scene(kScheduler);
  EXPECT_THAT(described(scene.step()),
              ElementsAre("create certificates a-tls", "create Service a", "create ConfigMap a",
                          "create Pod a-scheduler-0", "create Pod a-worker-0", "create Pod a-worker-1"));
}

TEST(Decide, SuccessIsWorkerZerosOrTheSchedulersOrAllWorkers) {
  const struct {
    const char* spec;
    std::vector<std::string> ended;
    bool succeeded;
  } rows[] = {
      {kTwo, {"a-worker-1"}, false},
      {kTwo, {"a-worker-0"}, true},
      {kScheduler, {"a-worker-0", "a-worker-1"}, false},
      {kScheduler, {"a-scheduler-0"}, true},
      {kAllWorkers, {"a-worker-0"}, false},
      {kAllWorkers, {"a-worker-0", "a-worker-1"}, true},
  };
  for (const auto& row : rows) {
    Scene scene(row.spec);
    scene.start();
    for (const auto& name : row.ended) scene.end(name, 0);
    scene.step();
    EXPECT_EQ(scene.status().holds(kSucceeded), row.succeeded) << row.spec << row.ended.size();
  }
}

TEST(Decide, ARankThatIsDoneStaysSoWithoutItsPod) {
  Scene scene(kAllWorkers);
  scene.start();
  scene.end("a-worker-0", 0);
  scene.step();
  std::erase_if(scene.seen.pods, [](const PodView& pod) { return pod.index == 0; });  // somebody deletes it
  EXPECT_THAT(described(scene.step()), IsEmpty());
  scene.end("a-worker-1", 0);
  scene.step();
  EXPECT_TRUE(scene.status().holds(kSucceeded));
}

TEST(Decide, AFailedRankStartsAllAgainOnceTheOthersAreGone) {
  Scene scene(kTwo);
  scene.start();
  scene.end("a-worker-1", 137);
  EXPECT_THAT(described(scene.step(/*slowly=*/true)), ElementsAre("delete Pod a-worker-0", "delete Pod a-worker-1"));
  EXPECT_EQ(scene.status().attempt, 2);
  EXPECT_EQ(scene.status().restarts, 1);
  EXPECT_EQ(scene.status().phase, "Restarting");
  EXPECT_THAT(described(scene.step()), IsEmpty());  // they still end
  std::erase_if(scene.seen.pods, [](const PodView& pod) { return pod.index == 1; });
  EXPECT_THAT(described(scene.step()), IsEmpty());
  scene.seen.pods.clear();
  EXPECT_THAT(described(scene.step()), ElementsAre("create Pod a-worker-0", "create Pod a-worker-1"));
  scene.run_all();
  scene.step();
  EXPECT_EQ(scene.status().phase, "Running");
  EXPECT_FALSE(scene.status().holds(kRestarting));
  EXPECT_EQ(scene.status().first_failure->exit_code, 137);
}

TEST(Decide, AllFailuresOfAnAttemptCountOnce) {
  Scene scene(kTwo);
  scene.start();
  scene.end("a-worker-0", 137);
  scene.decide_now();  // the status is stored, and the operator dies
  scene.end("a-worker-1", 137);
  scene.step();
  EXPECT_EQ(scene.status().restarts, 1);
  EXPECT_THAT(scene.names(), IsEmpty());
}

TEST(Decide, WhichFailuresAreWorthARestart) {
  const struct {
    const char* policy;
    std::optional<int> code;
    const char* reason;  // of the job's end; empty: it restarts
  } rows[] = {
      {"OnFailure", 1, ""},
      {"OnFailure", 2, "ConfigurationError"},
      {"OnFailure", 75, ""},
      {"Always", 1, ""},
      {"Always", 2, "ConfigurationError"},
      {"Never", 1, "RestartPolicyNever"},
      {"Never", std::nullopt, "RestartPolicyNever"},
      {"ExitCode", 1, "PermanentExitCode"},
      {"ExitCode", 75, ""},
      {"ExitCode", 137, ""},
      {"ExitCode", std::nullopt, ""},
      {"ExitCode", 2, "ConfigurationError"},
  };
  for (const auto& row : rows) {
    Scene scene(
        fmt::format("{{replicaSpecs: {{Worker: {{replicas: 2, restartPolicy: {}, template: WORKER}}}}}}", row.policy));
    scene.start();
    scene.end("a-worker-1", row.code);
    scene.step();
    const Condition* failed = scene.status().find(kFailed);
    EXPECT_EQ(failed == nullptr ? "" : failed->reason, row.reason) << row.policy << " " << row.code.value_or(-1);
    EXPECT_EQ(scene.status().restarts, *row.reason == '\0' ? 1 : 0);
  }
}

TEST(Decide, BackoffLimitCountsStartsAndTheKubeletsRestarts) {
  Scene scene("{runPolicy: {backoffLimit: 1}, replicaSpecs: {Worker: {template: WORKER}}}");
  scene.start();
  scene.end("a-worker-0", 1);
  scene.step();
  scene.step();
  scene.end("a-worker-0", 1);
  scene.step();
  EXPECT_EQ(scene.status().find(kFailed)->reason, "BackoffLimitExceeded");
  EXPECT_THAT(scene.status().find(kFailed)->message,
              HasSubstr("after 1 of 1 restarts: Worker 0 (Pod a-worker-0): exit code 1"));

  Scene other("{runPolicy: {backoffLimit: 1}, replicaSpecs: {Worker: {template: WORKER}}}");
  other.start();
  other.pod("a-worker-0").kubelet_restarts = 1;
  other.end("a-worker-0", 1);
  other.step();
  EXPECT_EQ(other.status().find(kFailed)->reason, "BackoffLimitExceeded");
}

TEST(Decide, ThePodThatFailedBecauseOfAnotherIsNotTheFirst) {
  Scene scene("{runPolicy: {backoffLimit: 0}, replicaSpecs: {Worker: {replicas: 2, template: WORKER}}}");
  scene.start();
  scene.end("a-worker-0", 1, "peer_lost");
  const auto waiting = scene.step();
  EXPECT_FALSE(scene.status().final());
  EXPECT_EQ(waiting.again, 10s);
  scene.now += 3s;
  scene.end("a-worker-1", 1, "numeric");
  scene.step();
  EXPECT_TRUE(scene.status().holds(kFailed));
  EXPECT_EQ(scene.status().first_failure->index, 1);
  EXPECT_EQ(scene.status().first_failure->reason, "numeric");
}

TEST(Decide, ACauseThatNeverShowsIsNotWaitedForForever) {
  Scene scene(kTwo);
  scene.start();
  scene.end("a-worker-0", 1, "peer_lost");
  scene.now += 10s;
  scene.step();
  EXPECT_EQ(scene.status().attempt, 2);
}

TEST(Decide, WithRecoveryTheLostWorkerAloneIsReplaced) {
  Scene scene(kRecovery);
  scene.start();
  scene.end("a-worker-1", 137);
  EXPECT_THAT(described(scene.step()), ElementsAre("delete Pod a-worker-1"));
  EXPECT_EQ(scene.status().attempt, 1);
  EXPECT_EQ(scene.status().restarts, 1);
  EXPECT_EQ(scene.status().phase, "Restarting");
  EXPECT_THAT(described(scene.step()), ElementsAre("create Pod a-worker-1"));
  EXPECT_EQ(scene.pod("a-worker-1").replacement, 1);
  scene.run_all();
  scene.step();
  EXPECT_EQ(scene.status().phase, "Running");
}

TEST(Decide, WhoIsReplacedInPlace) {
  const char* run = "{recovery: {}, replicaSpecs: {Worker: {replicas: 2, template: WORKER}}}";
  constexpr const char* kServers =
      "{mode: Scheduler, recovery: {path: /state}, replicaSpecs: {Worker: {replicas: 2, template: WORKER}, "
      "PS: {replicas: 2, template: WORKER}}}";
  const struct {
    const char* spec;
    const char* pod;
    std::optional<int> code;
    bool in_place;
  } rows[] = {
      {kRecovery, "a-worker-0", 1, true},     {kRecovery, "a-scheduler-0", 137, true},
      {kRecovery, "a-scheduler-0", 1, false}, {kScheduler, "a-worker-0", 137, false},
      {kServers, "a-ps-1", 137, true},        {kServers, "a-ps-0", 1, true},
      {run, "a-worker-1", 137, true},         {run, "a-worker-1", std::nullopt, true},
      {run, "a-worker-1", 1, false},          {run, "a-worker-0", 137, false},
      {kTwo, "a-worker-1", 137, false},
  };
  for (const auto& row : rows) {
    Scene scene(row.spec);
    scene.start();
    scene.end(row.pod, row.code);
    scene.now += 20s;  // also where the scheduler tells of another's end
    scene.step();
    EXPECT_EQ(scene.status().restarts, 1) << row.pod;
    EXPECT_EQ(scene.status().attempt, row.in_place ? 1 : 2) << row.spec << row.pod << row.code.value_or(-1);
  }
}

}  // namespace
}  // namespace lockstep::kube
