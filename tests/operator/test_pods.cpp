// Pods as they are made for a job, and as decisions see them.
#include <apps/operator/decide/objects.h>
#include <apps/operator/decide/pod_failures.h>
#include <apps/operator/job/names.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/scene.h"

namespace lockstep::kube {
namespace {

using test::job_of;
using testing::HasSubstr;

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

}  // namespace
}  // namespace lockstep::kube
