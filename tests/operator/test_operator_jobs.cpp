// Whole operators, as processes, with a real API server; the test is the kubelets.
#include <apps/operator/controller/manifests.h>
#include <apps/operator/job/json.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lockstep/base/crypto.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/base/text.h>
#include <lockstep/net/certificates/certificates.h>
#include <lockstep/net/http_client.h>

#include <sys/wait.h>

#include <atomic>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "operator/faulty_server.h"
#include "operator/job_driver.h"
#include "operator/operator_process.h"
#include "support/port.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using kube::Role;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

class OperatorJobs : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = KubeServer::obstacle()) GTEST_SKIP() << *why;
    space_ = KubeServer::get().new_space();
  }
  void start_operator(std::vector<std::string> more = {"--no-leader-election"}) {
    operator_.emplace(KubeServer::get().kubeconfig(), space_, std::move(more));
  }
  JobDriver start_job(json object) {
    JobDriver job(space_, object["metadata"]["name"]);
    job.create(std::move(object));
    return job;
  }
  /// As start_job(), until all Pods run.
  JobDriver run_job(const json& object, std::size_t pods) {
    JobDriver job = start_job(object);
    EXPECT_TRUE(job.wait_pods(pods)) << job.describe();
    job.run_all();
    EXPECT_TRUE(job.wait_phase("Running")) << job.describe();
    return job;
  }

  std::string space_;
  std::optional<OperatorProcess> operator_;
};

TEST_F(OperatorJobs, AJobGoesThroughItsConditionsToSuccess) {
  start_operator();
  JobDriver job = start_job(simple_job("mlp", 2));
  ASSERT_TRUE(job.wait_pods(2)) << job.describe();
  EXPECT_EQ(job.status().phase, "Pending");
  const json service = job.find(kube::services(), "mlp");
  EXPECT_EQ(service["spec"]["clusterIP"], "None");
  EXPECT_EQ(service["spec"]["publishNotReadyAddresses"], true);
  EXPECT_EQ(job.find(kube::config_maps(), "mlp")["data"]["hosts"],
            fmt::format("mlp-worker-0.mlp.{0}.svc\nmlp-worker-1.mlp.{0}.svc\n", space_));
  const auto uid = kube::uid_of(job.object());
  for (const json& owned : {service, job.pod("worker-0"), job.find(kube::config_maps(), "mlp")}) {
    EXPECT_EQ(kube::controller_uid(owned), uid);
  }
  job.run_all();
  ASSERT_TRUE(job.wait_phase("Running")) << job.describe();
  EXPECT_EQ(job.status().replicas[Role::worker].ready, 2);
  job.end_pod("worker-1", 0);
  job.end_pod("worker-0", 0);
  ASSERT_TRUE(job.wait_phase("Succeeded")) << job.describe();
  const auto status = job.status();
  EXPECT_TRUE(status.holds(kube::kCreated));
  EXPECT_FALSE(status.holds(kube::kRunning));
  EXPECT_TRUE(status.completion_time);
  EXPECT_EQ(status.restarts, 0);
  EXPECT_TRUE(job.wait([&] { return job.event_reasons().size() == 2; }));
  EXPECT_THAT(job.event_reasons(), IsSupersetOf({"PodCreated", "Succeeded"}));
  EXPECT_EQ(operator_->stop(), ExitStatus{});
}

TEST_F(OperatorJobs, AFailedJobNamesTheRankThatFailedFirstAndWhy) {
  start_operator();
  auto object = simple_job("mlp", 2);
  object["spec"]["runPolicy"]["backoffLimit"] = 0;
  JobDriver job = run_job(object, 2);
  job.end_pod("worker-1", 1, R"({"message":{"message":"[train] rank 0 is lost","extraInfo":{"kind":"peer_lost"}}})");
  job.end_pod("worker-0", 1,
              R"({"message":{"message":"[train] the loss is NaN in step 7","extraInfo":{"kind":"numeric"}}})");
  ASSERT_TRUE(job.wait_phase("Failed")) << job.describe();
  const auto status = job.status();
  EXPECT_EQ(status.find(kube::kFailed)->reason, "BackoffLimitExceeded");
  ASSERT_TRUE(status.first_failure);
  EXPECT_EQ(status.first_failure->pod, "mlp-worker-0");
  EXPECT_EQ(status.first_failure->reason, "numeric");
  EXPECT_EQ(status.first_failure->exit_code, 1);
  EXPECT_THAT(status.last_error,
              AllOf(HasSubstr("Worker 0 (Pod mlp-worker-0 on node node-1): exit code 1"), HasSubstr("NaN in step 7")));
  EXPECT_TRUE(job.wait([&] { return testing::Value(job.event_reasons(), IsSupersetOf({"PodFailed", "Failed"})); }));
  EXPECT_THAT(KubeServer::get().kubectl({"describe", "lsj", "mlp", "-n", space_}).out,
              HasSubstr("the loss is NaN in step 7"));
}

TEST_F(OperatorJobs, ALostRankStartsAllAgain) {
  start_operator();
  JobDriver job = run_job(simple_job("mlp", 2), 2);
  const auto first = kube::uid_of(job.pod("worker-0"));
  job.end_pod("worker-1", 137, "", "OOMKilled");
  ASSERT_TRUE(job.wait([&] { return job.pod("worker-1").is_null(); })) << job.describe();
  EXPECT_EQ(job.status().phase, "Restarting");
  EXPECT_EQ(kube::uid_of(job.pod("worker-0")), first);  // it still ends
  job.finish_deletions();
  ASSERT_TRUE(job.wait_pods(2)) << job.describe();
  EXPECT_NE(kube::uid_of(job.pod("worker-0")), first);
  job.run_all();
  ASSERT_TRUE(job.wait_phase("Running")) << job.describe();
  EXPECT_EQ(job.status().restarts, 1);
  EXPECT_EQ(job.status().attempt, 2);
  EXPECT_EQ(job.status().first_failure->reason, "OOMKilled");
}

TEST_F(OperatorJobs, WithASchedulerAndRecoveryTheLostWorkerAloneIsReplaced) {
  start_operator();
  auto object = simple_job("mlp", 2, "Scheduler");
  object["spec"]["recovery"] = {{"path", "/state"}};
  JobDriver job = run_job(object, 3);
  // Mutual TLS, without anybody calling openssl.
  const json data = job.find(kube::secrets(), "mlp-tls")["data"];
  const auto part = [&](const char* name) { return from_base64(data.value(name, "")).value_or(""); };
  auto password = part("password");
  password.pop_back();
  EXPECT_TRUE(net::read_p12(part("server.p12"), password).certificate);
  EXPECT_TRUE(net::read_p12(part("client.p12"), password).key);
  EXPECT_THAT(part("config.json"), HasSubstr("server.p12"));

  const auto kept = kube::uid_of(job.pod("worker-0"));
  job.end_pod("worker-1", 137);
  ASSERT_TRUE(job.wait([&] {
    return kube::text_at(kube::object_at(job.pod("worker-1"), "status"), "phase") == "Pending";
  })) << job.describe();
  job.run_all();
  ASSERT_TRUE(job.wait_phase("Running")) << job.describe();
  EXPECT_EQ(kube::uid_of(job.pod("worker-0")), kept);
  EXPECT_EQ(job.status().restarts, 1);
  EXPECT_EQ(job.status().attempt, 1);
  job.end_pod("scheduler-0", 0);
  ASSERT_TRUE(job.wait_phase("Succeeded")) << job.describe();
}

TEST_F(OperatorJobs, SuspendAndScale) {
  start_operator();
  auto object = simple_job("mlp", 2);
  object["spec"]["elastic"] = {{"maxReplicas", 4}};
  JobDriver job = run_job(object, 2);
  EXPECT_TRUE(KubeServer::get().kubectl({"scale", "lsj/mlp", "--replicas=3", "-n", space_}).status.ok());
  ASSERT_TRUE(job.wait_pods(3)) << job.describe();
  job.run_all();
  EXPECT_TRUE(KubeServer::get().kubectl({"scale", "lsj/mlp", "--replicas=1", "-n", space_}).status.ok());
  ASSERT_TRUE(job.wait([&] {
    job.finish_deletions();
    return job.pods().size() == 1;
  })) << job.describe();
  EXPECT_FALSE(job.pod("worker-0").is_null());

  job.patch({{"spec", {{"runPolicy", {{"suspend", true}}}}}});
  ASSERT_TRUE(job.wait([&] {
    job.finish_deletions();
    return job.pods().empty();
  })) << job.describe();
  EXPECT_EQ(job.status().phase, "Suspended");
  EXPECT_FALSE(job.find(kube::services(), "mlp").is_null());
  job.patch({{"spec", {{"runPolicy", {{"suspend", false}}}}}});
  ASSERT_TRUE(job.wait_pods(1)) << job.describe();
  job.run_all();
  ASSERT_TRUE(job.wait_phase("Running")) << job.describe();
  EXPECT_EQ(job.status().restarts, 0);
  EXPECT_THAT(job.event_reasons(), IsSupersetOf({"Suspended", "Resumed"}));
}

TEST_F(OperatorJobs, AnEndedJobIsDeletedAfterItsTimeAndAllWithIt) {
  start_operator();
  auto object = simple_job("mlp", 1);
  object["spec"]["runPolicy"] = {{"ttlSecondsAfterFinished", 1}};
  JobDriver job = run_job(object, 1);
  job.end_pod("worker-0", 0);
  ASSERT_TRUE(job.wait([&] { return job.object().is_null(); }));
  // The collector begins up to 30 s after a kind is new.
  EXPECT_TRUE(job.wait([&] { return job.pods().empty(); }) || job.wait([&] { return job.pods().empty(); }))
      << job.describe();
  // The name is free for another job.
  job.create(simple_job("mlp", 1));
  EXPECT_TRUE(job.wait_pods(1)) << job.describe();
}

TEST_F(OperatorJobs, ADeadlineEndsIt) {
  start_operator();
  auto object = simple_job("mlp", 1);
  object["spec"]["runPolicy"] = {{"activeDeadlineSeconds", 2}, {"cleanPodPolicy", "All"}};
  JobDriver job = start_job(object);
  ASSERT_TRUE(job.wait_phase("Failed")) << job.describe();
  EXPECT_EQ(job.status().find(kube::kFailed)->reason, "DeadlineExceeded");
  EXPECT_TRUE(job.wait_pods(0)) << job.describe();
}

TEST_F(OperatorJobs, WhatCanNeverWorkFailsAtOnceAndSaysWhy) {
  auto admin = KubeServer::get().client();
  ASSERT_TRUE(admin
                  .create(path_of(kube::services(), space_),
                          {{"metadata", {{"name", "taken"}}}, {"spec", {{"clusterIP", "None"}}}})
                  .ok());
  start_operator();
  JobDriver taken = start_job(simple_job("taken", 1));
  ASSERT_TRUE(taken.wait_phase("Failed")) << taken.describe();
  EXPECT_EQ(taken.status().find(kube::kFailed)->reason, "NameConflict");

  auto dotted = simple_job("my.job", 1);
  JobDriver invalid = start_job(dotted);
  ASSERT_TRUE(invalid.wait_phase("Failed")) << invalid.describe();
  EXPECT_THAT(invalid.status().last_error, HasSubstr("no DNS label"));

  auto bad = simple_job("bad", 1);
  bad["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = "Sometimes";
  JobDriver refused = start_job(bad);
  ASSERT_TRUE(refused.wait_phase("Failed")) << refused.describe();
  EXPECT_EQ(refused.status().find(kube::kFailed)->reason, "PodRefused");
  EXPECT_THAT(refused.status().last_error, HasSubstr("Sometimes"));

  // Correcting the spec of an invalid job is enough.
  auto fixable = simple_job("fixable", 2, "None");
  JobDriver fixed = start_job(fixable);
  ASSERT_TRUE(fixed.wait_phase("Failed")) << fixed.describe();
  fixed.patch({{"spec", {{"mode", "Run"}}}});
  EXPECT_TRUE(fixed.wait_pods(2)) << fixed.describe();
}

TEST_F(OperatorJobs, OfTwoOperatorsTheSecondTakesOver) {
  start_operator({});
  JobDriver job = run_job(simple_job("mlp", 2), 2);
  OperatorProcess second(KubeServer::get().kubeconfig(), space_);
  operator_->kill();
  job.end_pod("worker-0", 0);
  ASSERT_TRUE(job.wait_phase("Succeeded")) << job.describe();
}

TEST_F(OperatorJobs, AnOperatorThatWasStoppedForTooLongEnds) {
  start_operator({});
  JobDriver job = run_job(simple_job("mlp", 2), 2);
  operator_->child().signal_group(SIGSTOP);
  siginfo_t stopped{};  // once all threads are stopped: until then, one of them may still act
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(operator_->child().pid()), &stopped, WSTOPPED | WNOWAIT), 0);
  OperatorProcess second(KubeServer::get().kubeconfig(), space_);
  job.end_pod("worker-0", 0);
  ASSERT_TRUE(job.wait_phase("Succeeded")) << job.describe();
  operator_->child().signal_group(SIGCONT);
  EXPECT_EQ(operator_->child().wait_for(30s), (ExitStatus{1, 0}));  // another one has the Lease
}

TEST_F(OperatorJobs, GoesOnWhenTheApiServerIsBack) {
  start_operator();
  JobDriver job = run_job(simple_job("mlp", 2), 2);
  KubeServer::get().take_away();
  std::this_thread::sleep_for(1s);
  KubeServer::get().bring_back();
  job.end_pod("worker-1", 137);
  ASSERT_TRUE(job.wait([&] {
    job.finish_deletions();
    job.run_all();
    return job.status().attempt == 2 && job.status().phase == "Running";
  })) << job.describe();
  job.end_pod("worker-0", 0);
  ASSERT_TRUE(job.wait_phase("Succeeded")) << job.describe();
  EXPECT_EQ(job.status().restarts, 1);
}

TEST_F(OperatorJobs, FaultsOfAllKindsOnlyDelayIt) {
  std::mt19937 random(7);
  std::mutex mutex;
  FaultyServer faulty([&](const FaultyServer::Request& request) {
    const std::lock_guard lock(mutex);
    FaultyServer::Fault fault;
    if (request.is_watch()) {
      fault.repeat_events = true;
      fault.cut_after = static_cast<int>(random() % 40000);  // in the middle of a line; an event has 5000 bytes
      return fault;
    }
    switch (random() % 30) {  // one in six
      case 0: fault.status = 429; break;
      case 1: fault.status = 500; break;
      case 2: fault.status = request.is_write() ? 409 : 503; break;
      case 3: fault.lose_request = true; break;
      case 4: fault.lose_answer = true; break;
      default: break;
    }
    return fault;
  });
  operator_.emplace(faulty.kubeconfig(), space_, std::vector<std::string>{"--no-leader-election"});
  JobDriver job = start_job(simple_job("mlp", 2));
  ASSERT_TRUE(job.lose_worker_and_end()) << job.describe();
  EXPECT_TRUE(job.status().holds(kube::kSucceeded)) << job.describe();
  EXPECT_EQ(job.status().restarts, 1);
  operator_.reset();  // before its server
}

/// Seconds for an answer, and a server that has none of its own for half of the requests.
TEST_F(OperatorJobs, ASlowServerOnlyDelaysIt) {
  std::atomic<int> requests{0};
  FaultyServer slow([&](const FaultyServer::Request& request) {
    FaultyServer::Fault fault;
    if (!request.is_watch() && ++requests % 2 == 0) fault.before = [] { std::this_thread::sleep_for(700ms); };
    return fault;
  });
  operator_.emplace(slow.kubeconfig(), space_, std::vector<std::string>{"--no-leader-election"});
  JobDriver job = start_job(simple_job("mlp", 2));
  ASSERT_TRUE(job.lose_worker_and_end()) << job.describe();
  EXPECT_TRUE(job.status().holds(kube::kSucceeded)) << job.describe();
  EXPECT_EQ(job.status().restarts, 1);
  operator_.reset();  // before its server
}

/// Versions that are too old in all ways: a watch that is answered 410, and one that says so in a line (the real server
/// does that), make it list again.
TEST_F(OperatorJobs, WatchesThatAreTooOldBeginAnew) {
  std::atomic<int> watches{0};
  FaultyServer forgetful([&](const FaultyServer::Request& request) {
    FaultyServer::Fault fault;
    if (request.is_watch() && ++watches % 2 == 0) fault.status = 410;
    if (request.is_watch() && fault.status == 0) fault.cut_after = 20000;
    return fault;
  });
  operator_.emplace(forgetful.kubeconfig(), space_, std::vector<std::string>{"--no-leader-election"});
  JobDriver job = start_job(simple_job("mlp", 2));
  ASSERT_TRUE(job.lose_worker_and_end()) << job.describe();
  EXPECT_TRUE(job.status().holds(kube::kSucceeded)) << job.describe();
  EXPECT_EQ(job.status().restarts, 1);
  EXPECT_GT(watches, 10);
  operator_.reset();  // before its server
}

/// Both act, as when one has lost the Lease and does not know it yet.
TEST_F(OperatorJobs, TwoThatActAtOnceDoNothingTwice) {
  start_operator();
  OperatorProcess second(KubeServer::get().kubeconfig(), space_, {"--no-leader-election"});
  std::set<std::string> uids;
  JobDriver job = start_job(simple_job("mlp", 2));
  ASSERT_TRUE(job.lose_worker_and_end([&] {
    for (const json& pod : job.pods()) uids.insert(kube::uid_of(pod));
  })) << job.describe();
  EXPECT_TRUE(job.status().holds(kube::kSucceeded)) << job.describe();
  EXPECT_EQ(job.status().restarts, 1);
  EXPECT_LE(uids.size(), 4U) << "more Pods than ranks";
}

/// The definition of a PodGroup, as far as the operator knows it.
void serve_pod_groups(const kube::Resource& resource) {
  auto admin = KubeServer::get().client();
  const json schema = {{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}};
  const json version = {{"name", resource.version},
                        {"served", true},
                        {"storage", true},
                        {"subresources", {{"status", json::object()}}},
                        {"schema", {{"openAPIV3Schema", schema}}}};
  const auto made = admin.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                                 {{"apiVersion", "apiextensions.k8s.io/v1"},
                                  {"kind", "CustomResourceDefinition"},
                                  {"metadata", {{"name", resource.plural + "." + resource.group}}},
                                  {"spec",
                                   {{"group", resource.group},
                                    {"scope", "Namespaced"},
                                    {"names",
                                     {{"kind", resource.kind},
                                      {"listKind", resource.kind + "List"},
                                      {"plural", resource.plural},
                                      {"singular", "podgroup"}}},
                                    {"versions", json::array({version})}}}});
  ASSERT_TRUE(made.ok() || made.outcome == kube::Outcome::exists) << made.text();
  const auto is_listed = [&] { return admin.get("/apis").object.dump().find(resource.group) != std::string::npos; };
  while (!admin.get(path_of(resource, "")).ok() || !is_listed()) std::this_thread::sleep_for(20ms);
}

TEST_F(OperatorJobs, GangsOfTheCoschedulingPluginAndOfVolcano) {
  for (const kube::Resource* resource : {&kube::scheduling_pod_groups(), &kube::volcano_pod_groups()}) {
    const bool volcano = *resource == kube::volcano_pod_groups();
    serve_pod_groups(*resource);
    start_operator();
    const std::string name = volcano ? "queued" : "together";
    auto object = simple_job(name, 2, "Scheduler");
    object["spec"]["runPolicy"] = {{"schedulingPolicy", {{"queue", "q"}, {"scheduleTimeoutSeconds", 60}}}};
    JobDriver job = start_job(object);
    ASSERT_TRUE(job.wait([&] { return !job.find(*resource, name).is_null(); })) << job.describe();
    const json group = job.find(*resource, name);
    EXPECT_EQ(group["spec"]["minMember"], 3);
    EXPECT_EQ(kube::controller_uid(group), kube::uid_of(job.object()));
    if (volcano) {
      EXPECT_EQ(group["spec"]["queue"], "q");
      EXPECT_TRUE(job.pods().empty());  // until the queue has taken it
      KubeServer::get().client().patch(path_of(*resource, space_, name, "status"),
                                       {{"status", {{"phase", "Inqueue"}}}});
    }
    ASSERT_TRUE(job.wait_pods(3)) << job.describe();
    const json pod = job.pod("worker-0");
    if (volcano) {
      EXPECT_EQ(pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"], name);
      EXPECT_EQ(pod["spec"]["schedulerName"], "volcano");
    } else {
      EXPECT_EQ(kube::label_of(pod, "scheduling.x-k8s.io/pod-group"), name);
    }
    job.patch({{"spec", {{"runPolicy", {{"suspend", true}}}}}});
    ASSERT_TRUE(job.wait([&] {
      job.finish_deletions();
      return job.pods().empty() && job.find(*resource, name).is_null();
    })) << job.describe();
    EXPECT_THAT(job.event_reasons(), Not(Contains("NoGangScheduler")));
  }
}

/// The bases as a user applies them, to a real API server.
TEST_F(OperatorJobs, TheBasesCanBeApplied) {
  const auto& server = KubeServer::get();
  const auto apply = [&](const std::string& folder) {
    const auto done = server.kubectl({"apply", "-k", folder});
    EXPECT_TRUE(done.status.ok()) << folder << ": " << done.out << done.err;
    return done.out;
  };
  const std::string deploy = LOCKSTEP_SOURCE_DIR "/deploy";
  EXPECT_THAT(apply(deploy + "/cluster"), AllOf(HasSubstr("deployment.apps/lockstep-operator"),
                                                HasSubstr("networkpolicy"), HasSubstr("namespace/lockstep-system")));
  EXPECT_THAT(server
                  .kubectl({"auth", "can-i", "create", "pods", "-A", "--as",
                            "system:serviceaccount:lockstep-system:lockstep-operator"})
                  .out,
              HasSubstr("yes"));
  const auto done = server.kubectl({"apply", "-n", space_, "-k", deploy + "/namespaced"});
  EXPECT_TRUE(done.status.ok()) << done.err;
  const auto account = fmt::format("system:serviceaccount:{}:lockstep-operator", space_);
  const auto may = [&](const std::string& verb, const std::string& what, const std::string& space) {
    return server.kubectl({"auth", "can-i", verb, what, "-n", space, "--as", account}).out;
  };
  EXPECT_THAT(may("create", "pods", space_), HasSubstr("yes"));
  EXPECT_THAT(may("patch", "lockstepjobs.lockstep.dev", space_), HasSubstr("yes"));
  EXPECT_THAT(may("get", "secrets", "default"), HasSubstr("no"));
}

TEST_F(OperatorJobs, TheExamplesCanBeApplied) {
  const auto done =
      KubeServer::get().kubectl({"apply", "-n", space_, "-f", LOCKSTEP_SOURCE_DIR "/examples/kubernetes"});
  EXPECT_TRUE(done.status.ok()) << done.err;
  EXPECT_THAT(done.out, HasSubstr("lockstepjob.lockstep.dev/recovery created"));
}

/// The operator as a cluster has it: with a service account that may do what the manifests grant, and no more.
TEST_F(OperatorJobs, ItsRightsAreEnough) {
  auto admin = KubeServer::get().client();
  const auto manifests = kube::deployment_manifests();
  for (const json object : manifests.at("namespaced/rbac.yaml")) {
    const auto kind = object["kind"].get<std::string>();
    const std::string path = kind == "ServiceAccount"
                                 ? fmt::format("/api/v1/namespaces/{}/serviceaccounts", space_)
                                 : fmt::format("/apis/rbac.authorization.k8s.io/v1/namespaces/{}/{}", space_,
                                               kind == "Role" ? "roles" : "rolebindings");
    auto made = object;
    if (made.contains("subjects")) made["subjects"][0]["namespace"] = space_;
    const auto answer = admin.create(path, made);
    ASSERT_TRUE(answer.ok()) << answer.text();
  }
  const auto token =
      admin.create(fmt::format("/api/v1/namespaces/{}/serviceaccounts/lockstep-operator/token", space_),
                   {{"apiVersion", "authentication.k8s.io/v1"}, {"kind", "TokenRequest"}, {"spec", json::object()}});
  ASSERT_TRUE(token.ok()) << token.text();
  TemporaryFolder folder;
  std::ofstream(folder.path() / "token") << token.object["status"]["token"].get<std::string>();
  const auto& server = KubeServer::get();
  std::ofstream(folder.path() / "config")
      << "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u, namespace: " << space_ << "}}]\n"
      << "users: [{name: u, user: {tokenFile: token}}]\nclusters: [{name: k, cluster: {server: '"
      << server.variable("KUBE_SERVER") << "', certificate-authority: " << server.variable("KUBE_CA") << "}}]\n";
  const auto port = free_port();
  operator_.emplace(folder.path() / "config", space_, std::vector<std::string>{"--probe-address", "127.0.0.1:" + port});

  auto object = simple_job("mlp", 2, "Scheduler");
  object["spec"]["recovery"] = {{"path", "/state"}};
  object["spec"]["runPolicy"] = {{"ttlSecondsAfterFinished", 0}};
  JobDriver job = run_job(object, 3);
  job.end_pod("worker-1", 137);
  ASSERT_TRUE(job.wait([&] {
    return kube::text_at(kube::object_at(job.pod("worker-1"), "status"), "phase") == "Pending";
  })) << job.describe();
  net::HttpClient probes({"127.0.0.1", static_cast<std::uint16_t>(*parse_integer(port))}, nullptr, 1 << 20);
  const auto soon = [] { return std::chrono::steady_clock::now() + 30s; };
  EXPECT_EQ(probes.get("/healthz", soon()).status, 200U);
  EXPECT_EQ(probes.get("/readyz", soon()).status, 200U);
  const auto metrics = probes.get("/metrics", soon()).body;
  EXPECT_THAT(metrics, AllOf(HasSubstr("lockstep_operator_jobs{phase="), HasSubstr("outcome=\"done\""),
                             Not(HasSubstr("forbidden"))));
  job.end_pod("scheduler-0", 0);
  ASSERT_TRUE(job.wait([&] { return job.object().is_null(); })) << job.describe();
  EXPECT_THAT(probes.get("/metrics", soon()).body, Not(HasSubstr("forbidden")));
}

}  // namespace
}  // namespace lockstep::test
