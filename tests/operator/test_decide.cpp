// The operator's decisions, as tables: what is observed, and what is to be done.
#include <apps/operator/decide/decide.h>
#include <apps/operator/decide/objects.h>
#include <apps/operator/job/json_fields.h>
#include <apps/operator/job/names.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/job_text.h"

namespace lockstep::kube {
namespace {

using namespace std::chrono_literals;
using test::job_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

const Time kNow = *parse_time("2026-03-01T12:00:00Z");

/// A job, its Pods, and a world that carries decisions out at once.
class Scene {
 public:
  explicit Scene(const std::string& spec) { seen.job = job_of(spec); }

  Decision decide_now() {
    Decision decision = decide(seen, now);
    if (decision.status) seen.job.status = *decision.status;
    for (const EventNote& note : decision.events) events.push_back(note.reason);
    return decision;
  }

  /// Decides, and does all of it; Pods that are deleted are gone, or end slowly.
  Decision step(bool slowly = false) {
    Decision decision = decide_now();
    for (const Action& action : decision.actions) act(action, slowly);
    return decision;
  }

  PodView& pod(const std::string& name) {
    for (PodView& each : seen.pods) {
      if (each.name == name) return each;
    }
    throw std::runtime_error("there is no Pod " + name);
  }
  void run_all() {
    for (PodView& each : seen.pods) {
      if (each.phase == PodPhase::pending) each.phase = PodPhase::running;
    }
  }
  void end(const std::string& name, std::optional<int> code, const std::string& kind = "") {
    PodView& ended = pod(name);
    ended.phase = code == 0 ? PodPhase::succeeded : PodPhase::failed;
    ended.exit_code = code;
    ended.kind = kind;
    ended.ended = std::chrono::floor<std::chrono::seconds>(now);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const PodView& each : seen.pods) all.push_back(each.name);
    return all;
  }
  const Status& status() const { return seen.job.status; }
  void start() {
    step();
    run_all();
    step();
    ASSERT_EQ(status().phase, "Running");
  }

  Observed seen;
  Time now = kNow;
  std::vector<std::string> events;

 private:
  void act(const Action& action, bool slowly) {
    if (const auto* made = std::get_if<CreateObject>(&action)) {
      auto object = made->object;
      object["metadata"]["uid"] = fmt::format("uid-{}", ++uids_);
      if (*made->resource == pods()) seen.pods.push_back(*view_pod(object, seen.job.uid));
      if (*made->resource == services()) seen.service = Part{"s", {}};
      if (*made->resource == config_maps()) seen.config_map = Part{"c", object["data"]};
      if (made->resource->plural == "podgroups") seen.pod_group = Part{"g", nlohmann::json::object()};
    } else if (const auto* list = std::get_if<SetFinalizers>(&action)) {
      seen.job.finalizers = list->finalizers;
    } else if (std::get_if<CreateCertificates>(&action) != nullptr) {
      seen.secret = Part{"t", {}};
    } else if (const auto* changed = std::get_if<ReplaceObject>(&action)) {
      seen.config_map = Part{"c", changed->object["data"]};
    } else if (const auto* gone = std::get_if<DeleteObject>(&action)) {
      if (*gone->resource == pods() && slowly) pod(gone->name).deleting = true;
      if (*gone->resource == pods() && !slowly)
        std::erase_if(seen.pods, [&](const PodView& p) { return p.uid == gone->uid; });
      if (gone->resource->plural == "podgroups") seen.pod_group.reset();
    }
  }

  int uids_ = 0;
};

constexpr const char* kTwo = "{replicaSpecs: {Worker: {replicas: 2, template: WORKER}}}";
constexpr const char* kAllWorkers =
    "{successPolicy: AllWorkers, replicaSpecs: {Worker: {replicas: 2, template: WORKER}}}";
constexpr const char* kScheduler = "{mode: Scheduler, replicaSpecs: {Worker: {replicas: 2, template: WORKER}}}";
constexpr const char* kRecovery =
    "{mode: Scheduler, recovery: {path: /state}, replicaSpecs: {Worker: {replicas: 2, template: WORKER}}}";

std::vector<std::string> described(const Decision& decision) {
  std::vector<std::string> texts;
  for (const Action& action : decision.actions) {
    if (const auto* made = std::get_if<CreateObject>(&action)) {
      texts.push_back(fmt::format("create {} {}", made->resource->kind, name_of(made->object)));
    } else if (const auto* secret = std::get_if<CreateCertificates>(&action)) {
      texts.push_back("create certificates " + secret->name);
    } else if (const auto* gone = std::get_if<DeleteObject>(&action)) {
      texts.push_back(fmt::format("delete {} {}", gone->resource->kind, gone->name));
    } else if (const auto* list = std::get_if<SetFinalizers>(&action)) {
      texts.push_back(fmt::format("finalizers [{}]", fmt::join(list->finalizers, ", ")));
    } else if (const auto* state = std::get_if<ClearState>(&action)) {
      texts.push_back("clear " + state->url);
    } else {
      texts.push_back("replace " + name_of(std::get<ReplaceObject>(action).object));
    }
  }
  return texts;
}

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

std::string variable(const nlohmann::json& pod, const std::string& name) {
  for (const auto& each : pod["spec"]["containers"][0]["env"]) {
    if (each["name"] == name)
      return each.contains("value") ? each["value"].get<std::string>() : each["valueFrom"].dump();
  }
  return "";
}

nlohmann::json pod_of(const std::string& spec, Role role, int index) {
  Scene scene(spec);
  scene.decide_now();
  return make_pod(scene.seen.job, scene.status(), GangScheduler::none, role, index);
}

TEST(MakePod, VariablesOfAScheduler) {
  const auto worker = pod_of(kRecovery, Role::worker, 1);
  EXPECT_EQ(variable(worker, "MS_ROLE"), "MS_WORKER");
  EXPECT_EQ(variable(worker, "MS_WORKER_NUM"), "2");
  EXPECT_EQ(variable(worker, "MS_SCHED_HOST"), "a-scheduler-0.a.team.svc");
  EXPECT_EQ(variable(worker, "MS_SCHED_PORT"), "6667");
  EXPECT_EQ(variable(worker, "MS_RECOVERY_PATH"), "/state");
  EXPECT_EQ(variable(worker, "LOCKSTEP_CLUSTER_CONFIG"), "/etc/lockstep/tls/config.json");
  EXPECT_EQ(variable(worker, "TORCHELASTIC_ERROR_FILE"), "/dev/termination-log");
  EXPECT_THAT(variable(worker, "MS_NODE_ID"), HasSubstr("metadata.name"));
  EXPECT_EQ(worker["spec"]["hostname"], "a-worker-1");
  EXPECT_EQ(worker["spec"]["subdomain"], "a");
  EXPECT_EQ(worker["spec"]["terminationGracePeriodSeconds"], 120);
  EXPECT_EQ(worker["spec"]["enableServiceLinks"], false) << "a Service named master would set MASTER_PORT";
  const auto scheduler = pod_of(kRecovery, Role::scheduler, 0);
  EXPECT_EQ(variable(scheduler, "MS_ROLE"), "MS_SCHED");
  EXPECT_THAT(variable(scheduler, "MS_SCHED_HOST"), HasSubstr("status.podIP"));
}

TEST(MakePod, EachAttemptHasAStateOfItsOwn) {
  const auto place = [](const char* path, int attempt) {
    Job job = job_of(kRecovery);
    job.spec.recovery_path = path;
    return state_place(job, attempt);
  };
  EXPECT_EQ(place("/state", 1), "/state");
  EXPECT_EQ(place("/state", 3), "/state/attempt-3");
  EXPECT_EQ(place("etcd://e/job", 2), "etcd://e/job/attempt-2");
  EXPECT_EQ(place("etcds://e/job?ca_cert=f", 2), "etcds://e/job/attempt-2?ca_cert=f");
  Scene scene(kRecovery);
  scene.start();
  scene.seen.job.status.attempt = 2;
  EXPECT_EQ(
      variable(make_pod(scene.seen.job, scene.status(), GangScheduler::none, Role::scheduler, 0), "MS_RECOVERY_PATH"),
      "/state/attempt-2");
}

TEST(MakePod, VariablesOfLaunchers) {
  const auto worker = pod_of(
      "{elastic: {minReplicas: 2, maxReplicas: 4}, replicaSpecs: {Worker: {replicas: 3, template: {spec: "
      "{containers: [{name: lockstep, resources: {limits: {nvidia.com/gpu: 8}}}]}}}}}",
      Role::worker, 0);
  EXPECT_EQ(variable(worker, "PET_NNODES"), "2:4");
  EXPECT_EQ(variable(worker, "PET_RDZV_ENDPOINT"), "a-worker-0.a.team.svc:29400");
  EXPECT_EQ(variable(worker, "PET_RDZV_ID"), "job-uid-1");
  EXPECT_EQ(variable(worker, "PET_RDZV_CONF"), "is_host=1");
  EXPECT_EQ(variable(worker, "PET_NPROC_PER_NODE"), "8");
  EXPECT_EQ(variable(worker, "LOCKSTEP_ALLOW_INSECURE"), "1");  // without tls: a network policy is to protect the job
  EXPECT_EQ(variable(worker, "MS_ROLE"), "");
}

TEST(MakePod, TheUsersVariablesWinAndMayReferToOurs) {
  const auto worker = pod_of(
      "{replicaSpecs: {Worker: {template: {metadata: {labels: {team: x, lockstep.dev/role: y}}, spec: "
      "{containers: [{name: c, env: [{name: PET_MAX_RESTARTS, value: '9'}, {name: X, value: $(PET_NNODES)}]}]}}}}}",
      Role::worker, 0);
  EXPECT_EQ(variable(worker, "PET_MAX_RESTARTS"), "9");
  EXPECT_EQ(worker["spec"]["containers"][0]["env"].back()["name"], "X");
  EXPECT_EQ(worker["metadata"]["labels"]["team"], "x");
  EXPECT_EQ(worker["metadata"]["labels"]["lockstep.dev/role"], "Worker");
}

TEST(PodView, OfALauncherWithoutWhichTheJobGoesOnHasSucceeded) {
  auto pod =
      nlohmann::json::parse(R"({"metadata": {"labels": {}}, "status": {"containerStatuses": [{"state": {"terminated":
      {"exitCode": 69, "message": "{\"message\":{\"message\":\"a spare\",\"extraInfo\":{\"kind\":\"unneeded\"}}}"}}}]}})");
  pod["metadata"]["labels"] = {{kRoleLabel, "Worker"}, {kIndexLabel, "1"}, {kJobUidLabel, "uid"}};
  pod["metadata"]["ownerReferences"] = nlohmann::json::array({{{"uid", "uid"}, {"controller", true}}});
  const auto view = view_pod(pod, "uid");
  ASSERT_TRUE(view);
  EXPECT_EQ(view->phase, PodPhase::succeeded);
  EXPECT_EQ(view->exit_code, 69);
}

TEST(PodView, LastWordsComeFromTheErrorFile) {
  const auto ours = read_last_words(R"({"message":{"message":"[train] loss is NaN","extraInfo":{"kind":"numeric"}}})");
  EXPECT_EQ(ours.message, "[train] loss is NaN");
  EXPECT_EQ(ours.kind, "numeric");
  EXPECT_EQ(read_last_words("{\"message\":\"short\"}").message, "short");
  EXPECT_EQ(read_last_words("Traceback ...").message, "Traceback ...");
  EXPECT_EQ(describe_end(139, "Error"), "exit code 139 (SIGSEGV)");
  EXPECT_EQ(describe_end(std::nullopt, "Evicted"), "Evicted");
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

TEST(Waiting, IsReadFromTheContainers) {
  Scene scene(kTwo);
  const auto decision = scene.decide_now();
  for (const Action& action : decision.actions) {
    const auto* made = std::get_if<CreateObject>(&action);
    if (made == nullptr || !(*made->resource == pods())) continue;
    auto pod = made->object;
    pod["status"]["phase"] = "Pending";
    auto& waiting = pod["status"]["containerStatuses"][0]["state"]["waiting"];
    waiting["reason"] = "ContainerCreating";
    EXPECT_EQ(view_pod(pod, scene.seen.job.uid)->waits_for, "");
    waiting = {{"reason", "InvalidImageName"}, {"message", "bad"}};
    EXPECT_EQ(view_pod(pod, scene.seen.job.uid)->waits_for, "InvalidImageName");
    EXPECT_EQ(view_pod(pod, scene.seen.job.uid)->waits_message, "bad");
  }
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
