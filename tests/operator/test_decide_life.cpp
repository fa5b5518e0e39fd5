// The operator's decisions about the life of a job beside its failures: suspension, deadlines, ends, sizes, gangs and
// waiting.
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
using testing::UnorderedElementsAre;

TEST(Decide, SuspendDeletesPodsAndKeepsTheRest) {
  Scene scene(kScheduler);
  scene.start();
  scene.seen.job.spec.suspend = true;
  EXPECT_THAT(described(scene.step()),
              UnorderedElementsAre("delete Pod a-scheduler-0", "delete Pod a-worker-0", "delete Pod a-worker-1"));
  EXPECT_EQ(scene.status().phase, "Suspended");
  EXPECT_FALSE(scene.status().start_time);
  scene.step();  // the Pods are gone
  EXPECT_FALSE(scene.decide_now().status);
  scene.seen.job.spec.suspend = false;
  scene.now += 100s;
  EXPECT_THAT(described(scene.step()),
              ElementsAre("create Pod a-scheduler-0", "create Pod a-worker-0", "create Pod a-worker-1"));
  EXPECT_EQ(scene.status().attempt, 2);
  EXPECT_EQ(scene.status().restarts, 0);
  EXPECT_EQ(scene.status().start_time, std::chrono::floor<std::chrono::seconds>(scene.now));
}

TEST(Decide, AJobThatIsCreatedSuspendedMakesNothing) {
  Scene scene(std::string("{runPolicy: {suspend: true}, replicaSpecs: {Worker: {template: WORKER}}}"));
  EXPECT_THAT(described(scene.step()), IsEmpty());
  EXPECT_EQ(scene.status().phase, "Suspended");
  EXPECT_EQ(scene.status().attempt, 0);
}

TEST(Decide, TheDeadlineCountsFromTheStart) {
  Scene scene("{runPolicy: {activeDeadlineSeconds: 60}, replicaSpecs: {Worker: {template: WORKER}}}");
  EXPECT_EQ(scene.step().again, 60s);
  scene.run_all();
  scene.now += 59s;
  EXPECT_EQ(scene.step().again, 1s);
  scene.now += 1s;
  EXPECT_THAT(described(scene.step()), ElementsAre("delete Pod a-worker-0"));
  EXPECT_EQ(scene.status().find(kFailed)->reason, "DeadlineExceeded");
}

TEST(Decide, WhatIsLeftOfAnEndedJob) {
  const struct {
    const char* policy;
    std::vector<std::string> left;
  } rows[] = {{"Running", {"a-worker-0"}}, {"All", {}}, {"None", {"a-worker-0", "a-worker-1"}}};
  for (const auto& row : rows) {
    Scene scene(fmt::format(
        "{{runPolicy: {{cleanPodPolicy: {}}}, replicaSpecs: {{Worker: {{replicas: 2, template: WORKER}}}}}}",
        row.policy));
    scene.start();
    scene.end("a-worker-0", 0);
    scene.step();
    EXPECT_EQ(scene.names(), row.left) << row.policy;
    EXPECT_EQ(scene.status().replicas.at(Role::worker).active, 0);
    const auto after = scene.step();
    EXPECT_FALSE(after.status);
    EXPECT_TRUE(after.actions.empty());
  }
}

TEST(Decide, AnEndedJobIsDeletedAfterItsTime) {
  Scene scene("{runPolicy: {ttlSecondsAfterFinished: 30}, replicaSpecs: {Worker: {template: WORKER}}}");
  scene.start();
  scene.end("a-worker-0", 0);
  EXPECT_EQ(scene.step().again, 30s);
  scene.now += 30s;
  EXPECT_THAT(described(scene.step()), ElementsAre("delete LockstepJob a"));
}

TEST(Decide, FinalStaysFinal) {
  Scene scene(kTwo);
  scene.start();
  scene.end("a-worker-0", 0);
  scene.step();
  scene.seen.pods.clear();
  scene.seen.job.spec.suspend = true;
  EXPECT_FALSE(scene.decide_now().status);
  scene.seen.job.spec.suspend = false;
  EXPECT_TRUE(scene.decide_now().actions.empty());
}

TEST(Decide, AnInvalidSpecFailsUntilItChanges) {
  Scene scene("{mode: Nonsense, replicaSpecs: {Worker: {template: WORKER}}}");
  scene.step();
  EXPECT_EQ(scene.status().find(kFailed)->reason, "InvalidSpec");
  EXPECT_THAT(scene.status().find(kFailed)->message, HasSubstr("spec.mode"));
  EXPECT_FALSE(scene.decide_now().status);
  Scene fixed(kTwo);
  fixed.seen.job.status = scene.status();
  fixed.seen.job.generation = 2;
  EXPECT_EQ(fixed.step().actions.size(), 4U);
  EXPECT_FALSE(fixed.status().holds(kFailed));
}

TEST(Decide, ASpecThatBecomesInvalidStopsNothing) {
  Scene scene(kTwo);
  scene.start();
  scene.seen.job.problems = {"spec.mode: nonsense"};
  scene.seen.job.generation = 2;
  const auto decision = scene.step();
  EXPECT_THAT(decision.actions, IsEmpty());
  EXPECT_EQ(scene.status().phase, "Running");
  EXPECT_THAT(scene.events, testing::Contains("InvalidSpec"));
  EXPECT_FALSE(scene.decide_now().status);
}

TEST(Decide, AnObstacleEndsTheJob) {
  Scene scene(kTwo);
  scene.seen.obstacle = Obstacle{"NameConflict", "Service 'a' is there already"};
  scene.step();
  EXPECT_EQ(scene.status().find(kFailed)->reason, "NameConflict");
}

TEST(Decide, ElasticJobsGrowAndShrinkFromTheEnd) {
  Scene scene("{elastic: {minReplicas: 1, maxReplicas: 4}, replicaSpecs: {Worker: {replicas: 2, template: WORKER}}}");
  scene.start();
  scene.seen.job.spec.roles[Role::worker].replicas = 3;
  EXPECT_THAT(described(scene.step()), ElementsAre("replace a", "create Pod a-worker-2"));
  scene.run_all();
  scene.seen.job.spec.roles[Role::worker].replicas = 1;
  EXPECT_THAT(described(scene.step()), ElementsAre("delete Pod a-worker-1", "delete Pod a-worker-2", "replace a"));
  EXPECT_EQ(scene.status().restarts, 0);
  EXPECT_EQ(scene.status().phase, "Running");
}

TEST(Decide, OtherJobsKeepTheirNumberUntilTheyStartAgain) {
  Scene scene(kTwo);
  scene.start();
  scene.seen.job.spec.roles[Role::worker].replicas = 3;
  EXPECT_THAT(described(scene.step()), IsEmpty());
  scene.end("a-worker-0", 137);
  scene.step();
  scene.step();
  EXPECT_EQ(scene.seen.pods.size(), 3U);
}

TEST(Decide, AGangOfVolcanoIsQueuedFirst) {
  Scene scene("{runPolicy: {schedulingPolicy: {queue: q}}, replicaSpecs: {Worker: {replicas: 2, template: WORKER}}}");
  scene.seen.gang = GangScheduler::volcano;
  EXPECT_THAT(described(scene.step()), ElementsAre("create Service a", "create ConfigMap a", "create PodGroup a"));
  EXPECT_THAT(described(scene.step()), IsEmpty());
  scene.seen.pod_group->data = {{"phase", "Inqueue"}};
  EXPECT_THAT(described(scene.step()), ElementsAre("create Pod a-worker-0", "create Pod a-worker-1"));
  scene.seen.job.spec.suspend = true;
  EXPECT_THAT(described(scene.step()), testing::Contains("delete PodGroup a"));
}

TEST(Decide, WithoutASchedulerOfGangsTheJobSaysSo) {
  Scene scene("{runPolicy: {schedulingPolicy: {}}, replicaSpecs: {Worker: {template: WORKER}}}");
  scene.step();
  EXPECT_THAT(scene.events, testing::Contains("NoGangScheduler"));
  EXPECT_EQ(scene.seen.pods.size(), 1U);
}

TEST(Decide, AnOldStatusTouchesNoNewerPods) {
  Scene scene(kTwo);
  scene.start();
  scene.pod("a-worker-0").attempt = 2;
  const auto decision = scene.decide_now();
  EXPECT_FALSE(decision.status);
  EXPECT_TRUE(decision.actions.empty());
  EXPECT_TRUE(decision.again);
}

TEST(Decide, ADeletedJobIsLeftToTheCollector) {
  Scene scene(kTwo);
  scene.seen.job.deleting = true;
  const auto decision = scene.decide_now();
  EXPECT_FALSE(decision.status);
  EXPECT_TRUE(decision.actions.empty());
}

TEST(Decide, TheStateOfADeletedJobIsClearedOnceItsPodsAreGone) {
  Scene scene(
      "{mode: Scheduler, security: {tls: Insecure}, recovery: {path: 'etcd://e/job', clear: true}, replicaSpecs: "
      "{Worker: {template: WORKER}}}");
  scene.seen.job.finalizers = {"a/b"};
  EXPECT_THAT(described(scene.step()),
              ElementsAre("finalizers [a/b, lockstep.dev/recovery-state]", "create Service a", "create ConfigMap a",
                          "create Pod a-scheduler-0", "create Pod a-worker-0"));
  scene.run_all();
  EXPECT_THAT(described(scene.step()), IsEmpty());
  scene.seen.job.deleting = true;
  EXPECT_THAT(described(scene.step(/*slowly=*/true)), ElementsAre("delete Pod a-scheduler-0", "delete Pod a-worker-0"));
  EXPECT_THAT(described(scene.step()), IsEmpty());  // they still end, and the scheduler writes
  scene.seen.pods.clear();
  scene.seen.job.status.attempt = 2;
  EXPECT_THAT(described(scene.step()),
              ElementsAre("clear etcd://e/job", "clear etcd://e/job/attempt-2", "finalizers [a/b]"));
  EXPECT_THAT(described(scene.step()), IsEmpty());
}

TEST(Decide, TheStepIsTheSchedulersLastWord) {
  Scene scene(kScheduler);
  scene.start();
  EXPECT_FALSE(scene.status().step);
  scene.seen.step = 7;
  scene.step();
  EXPECT_EQ(scene.status().step, 7);
  EXPECT_FALSE(scene.decide_now().status);
  scene.seen.step.reset();  // another operator, which has not asked yet
  EXPECT_FALSE(scene.decide_now().status);
  scene.seen.step = 5;  // all ranks began again from a checkpoint
  scene.step();
  EXPECT_EQ(scene.status().step, 5);
}

TEST(Decide, APodThatSomebodyDeletesIsMadeAgainAndCountsNothing) {
  Scene scene(kTwo);
  scene.start();
  scene.pod("a-worker-1").deleting = true;
  EXPECT_THAT(described(scene.step()), IsEmpty());
  scene.end("a-worker-1", 75);
  EXPECT_THAT(described(scene.step()), IsEmpty());
  std::erase_if(scene.seen.pods, [](const PodView& pod) { return pod.index == 1; });
  EXPECT_THAT(described(scene.step()), ElementsAre("create Pod a-worker-1"));
  EXPECT_EQ(scene.status().restarts, 0);
}

TEST(Waiting, AnImageThatCannotBePulledIsSaidOnce) {
  Scene scene(kTwo);
  scene.step();
  EXPECT_EQ(scene.status().find(kRunning), nullptr);
  scene.pod("a-worker-1").waits_for = "ErrImagePull";
  scene.pod("a-worker-1").waits_message = "image 'nowhere' not found";
  const auto decision = scene.step();
  EXPECT_THAT(decision.events, ElementsAre(EventNote{true, "PodCannotStart",
                                                     "a-worker-1 cannot start: ErrImagePull: image 'nowhere' not "
                                                     "found"}));
  EXPECT_EQ(scene.status().find(kRunning)->reason, "PodCannotStart");
  EXPECT_EQ(scene.status().phase, "Pending");
  scene.pod("a-worker-1").waits_for = "ImagePullBackOff";
  EXPECT_THAT(scene.step().events, IsEmpty());
  scene.pod("a-worker-1").waits_for = "";
  scene.step();
  EXPECT_EQ(scene.status().find(kRunning)->reason, "RanksMissing");
  scene.run_all();
  scene.step();
  EXPECT_EQ(scene.status().phase, "Running");
}

TEST(Scaling, BeyondTheLimitsIsSaid) {
  Scene scene("{elastic: {minReplicas: 1, maxReplicas: 3}, replicaSpecs: {Worker: {replicas: 2, template: WORKER}}}");
  scene.start();
  scene.seen.job.spec.roles.at(Role::worker).replicas = 9;
  scene.seen.job.generation += 1;
  const auto decision = scene.step();
  EXPECT_EQ(scene.names().size(), 3U);
  EXPECT_THAT(decision.events,
              testing::Contains(EventNote{true, "ReplicasOutOfLimits",
                                          "replicas is 9, and elastic.maxReplicas is 3: the job has 3 workers"}));
  EXPECT_THAT(scene.step().events, IsEmpty());

  Scene fixed(kTwo);
  fixed.start();
  fixed.seen.job.spec.roles.at(Role::worker).replicas = 4;
  fixed.seen.job.generation += 1;
  EXPECT_THAT(fixed.step().events, testing::Contains(testing::Field(&EventNote::reason, "ReplicasOfTheNextStart")));
  EXPECT_EQ(fixed.names().size(), 2U);
}

}  // namespace
}  // namespace lockstep::kube
