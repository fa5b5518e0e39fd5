// LockstepJobs as values: defaults, what is wrong with a spec, and the status as it is stored.
#include <apps/operator/job/convert.h>
#include <apps/operator/job/job.h>
#include <apps/operator/job/json.h>
#include <apps/operator/job/names.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/job_text.h"

namespace lockstep::kube {
namespace {

using test::job_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(JobSpec, Defaults) {
  const Job job = job_of("{replicaSpecs: {Worker: {template: WORKER}}}");
  EXPECT_THAT(job.problems, IsEmpty());
  EXPECT_EQ(job.spec.mode, Mode::run);
  EXPECT_EQ(job.spec.wanted(Role::worker), 1);
  EXPECT_EQ(job.spec.wanted(Role::scheduler), 0);
  EXPECT_EQ(job.spec.backoff_limit, 6);
  EXPECT_EQ(job.spec.tls, TlsSource::insecure);
  EXPECT_EQ(job.spec.roles.at(Role::worker).restart, RestartPolicy::on_failure);
}

TEST(JobSpec, ASchedulerRoleMakesTheModeAndTakesTheWorkersTemplate) {
  const Job job = job_of("{replicaSpecs: {Scheduler: {}, Worker: {replicas: 3, template: WORKER}}}");
  EXPECT_THAT(job.problems, IsEmpty());
  EXPECT_EQ(job.spec.mode, Mode::scheduler);
  EXPECT_EQ(job.spec.tls, TlsSource::automatic);
  EXPECT_EQ(job.spec.roles.at(Role::scheduler).pod_template, job.spec.roles.at(Role::worker).pod_template);
}

TEST(JobSpec, EachMistakeNamesItsField) {
  const struct {
    const char* spec;
    const char* problem;
  } rows[] = {
      {"{replicaSpecs: {}}", "spec.replicaSpecs.Worker: a job needs workers"},
      {"{replicaSpecs: {Worker: {}}}", "spec.replicaSpecs.Worker.template.spec.containers"},
      {"{replicaSpecs: {Master: {template: WORKER}, Worker: {template: WORKER}}}", "spec.replicaSpecs.Master"},
      {"{replicaSpecs: {Worker: {replicas: -1, template: WORKER}}}", "spec.replicaSpecs.Worker.replicas: -1"},
      {"{mode: Sheduler, replicaSpecs: {Worker: {template: WORKER}}}", "did you mean 'Scheduler'"},
      {"{mode: None, replicaSpecs: {Worker: {replicas: 2, template: WORKER}}}", "mode None is for one worker"},
      {"{mode: Run, replicaSpecs: {Scheduler: {}, Worker: {template: WORKER}}}",
       "spec.replicaSpecs.Scheduler: this role"},
      {"{replicaSpecs: {Scheduler: {replicas: 2}, Worker: {template: WORKER}}}", "a job has one scheduler"},
      {"{elastic: {minReplicas: 3, maxReplicas: 2}, replicaSpecs: {Worker: {template: WORKER}}}",
       "spec.elastic.minReplicas"},
      {"{mode: Scheduler, elastic: {maxReplicas: 2}, replicaSpecs: {Worker: {template: WORKER}}}", "spec.elastic: "},
      {"{mode: Scheduler, recovery: {enabled: true}, replicaSpecs: {Worker: {template: WORKER}}}",
       "spec.recovery.path"},
      {"{mode: Scheduler, recovery: {path: /state, clear: true}, replicaSpecs: {Worker: {template: WORKER}}}",
       "spec.recovery.clear: only a key of an etcd"},
      {"{mode: Scheduler, recovery: {path: 'etcd://e', clear: true}, replicaSpecs: {Worker: {template: WORKER}}}",
       "spec.recovery.path"},
      {"{runPolicy: {backoffLimit: many}, replicaSpecs: {Worker: {template: WORKER}}}", "spec.runPolicy.backoffLimit"},
      {"{replicaSpecs: {Worker: {template: {spec: {containers: [{name: x}, {name: y}]}}}}}",
       "must be named 'lockstep'"},
      {"{security: {tls: My Secret}, replicaSpecs: {Worker: {template: WORKER}}}", "spec.security.tls"},
  };
  for (const auto& row : rows) {
    const Job job = job_of(row.spec);
    ASSERT_FALSE(job.problems.empty()) << row.spec;
    EXPECT_THAT(job.problems.front(), HasSubstr(row.problem)) << row.spec;
  }
}

TEST(JobSpec, NamesThatCannotBeHostNames) {
  const nlohmann::json spec =
      parse_yaml_documents("{replicaSpecs: {Worker: {template: {spec: {containers: [{name: x}]}}}}}", "").at(0);
  const auto problem = [&](const std::string& name) {
    std::vector<std::string> problems;
    parse_spec(spec, name, problems);
    return problems.empty() ? "" : problems.front();
  };
  EXPECT_EQ(problem("resnet-50"), "");
  EXPECT_THAT(problem("my.job"), HasSubstr("no DNS label"));
  EXPECT_THAT(problem("1a"), HasSubstr("no DNS label"));
  EXPECT_EQ(problem(std::string(51, 'a')), "");
  EXPECT_THAT(problem(std::string(55, 'a')), HasSubstr("shorten it by 4"));  // -scheduler-0
}

TEST(JobSpec, AnElasticJobKeepsItsLimits) {
  const auto wanted = [](const char* replicas) {
    return job_of(
               std::string(
                   "{elastic: {minReplicas: 2, maxReplicas: 4}, replicaSpecs: {Worker: {template: WORKER, replicas: ") +
               replicas + "}}}")
        .spec.wanted(Role::worker);
  };
  EXPECT_EQ(wanted("1"), 2);
  EXPECT_EQ(wanted("3"), 3);
  EXPECT_EQ(wanted("9"), 4);
}

TEST(JobStatus, IsTheSameAfterItWasStored) {
  const auto now = *parse_time("2026-03-01T12:00:00Z");
  Status status;
  status.observed_generation = 3;
  status.phase = "Restarting";
  status.start_time = now;
  status.attempt = 2;
  status.restarts = 4;
  status.workers = 8;
  status.step = 100;
  status.last_error = "why";
  status.selector = "a=b";
  status.first_failure = Failure{"a-worker-1", "u", Role::worker, 1, "n", 137, "OOMKilled", "words", 1};
  status.set(kCreated, true, "JobCreated", "text", now);
  status.set(kRunning, true, "AllRanksRun", "", now);
  status.set(kRunning, false, "JobRestarting", "", now);
  status.replicas[Role::worker] = {1, 2, 3, 4};
  status.replacements[Role::worker] = {{0, 1}, {5, 2}};
  status.completed[Role::worker] = {0, 1, 2, 7};
  EXPECT_EQ(parse_status(to_json(status)), status);
  status.first_failure->message.clear();
  EXPECT_EQ(to_json(status).dump().find("\"\""), std::string::npos) << to_json(status);
  EXPECT_EQ(parse_status(to_json(status)), status);
  EXPECT_EQ(parse_status(nlohmann::json()), Status());
}

TEST(JobStatus, AConditionsTimeChangesWithItsValueOnly) {
  const auto first = *parse_time("2026-03-01T12:00:00Z");
  const auto second = first + std::chrono::seconds(5);
  Status status;
  status.set(kSucceeded, false, "", "", first);
  EXPECT_THAT(status.conditions, IsEmpty());  // one that never held says nothing
  status.set(kRunning, true, "A", "", first);
  status.set(kRunning, true, "B", "", second);
  EXPECT_EQ(status.find(kRunning)->since, first);
  EXPECT_EQ(status.find(kRunning)->reason, "B");
  status.set(kRunning, false, "C", "", second);
  EXPECT_EQ(status.find(kRunning)->since, second);
}

TEST(JobStatus, IndexesAsText) {
  EXPECT_EQ(print_indexes({0, 1, 2, 7, 9, 10}), "0-2,7,9-10");
  EXPECT_THAT(parse_indexes("0-2,7"), ElementsAre(0, 1, 2, 7));
  EXPECT_THAT(parse_indexes("x,3-1,-,5"), ElementsAre(5));
  EXPECT_THAT(parse_indexes("0-99999999999"), IsEmpty());
}

TEST(Times, AsKubernetesWritesThem) {
  const auto time = parse_time("2026-02-28T23:59:59Z");
  ASSERT_TRUE(time);
  EXPECT_EQ(time_text(*time), "2026-02-28T23:59:59Z");
  EXPECT_EQ(micro_time_text(*time), "2026-02-28T23:59:59.000000Z");
  EXPECT_EQ(parse_time("2026-02-28T23:59:59.123456Z"), time);
  for (const char* bad :
       {"", "2026-02-30T00:00:00Z", "2026-02-28 23:59:59Z", "2026-02-28T23:59:59", "2026-02-28T23:59:59.Z"}) {
    EXPECT_FALSE(parse_time(bad)) << bad;
  }
}

TEST(Yaml, IsReadAsItWasPrinted) {
  const auto value = nlohmann::ordered_json::parse(
      R"({"a":"true","b":true,"c":[1,-2.5,"x: y","",{"d":[],"e":{}},[["f"]]],"g":null,"h":"1","i":{"j/k":"l m"},"n":"a\nb #c"})");
  const auto text = print_yaml_of(value);
  EXPECT_EQ(parse_yaml_documents(text, "f").at(0), value) << text;
}

TEST(Yaml, SeveralDocuments) {
  const auto documents = parse_yaml_documents("---\na: 1\n---\n# nothing\n---\nb: 2\n", "f");
  ASSERT_EQ(documents.size(), 2U);
  EXPECT_EQ(documents[1]["b"], 2);
}

/// What is wrong with a converted job.
std::vector<std::string> problems_of(const Converted& converted) {
  std::vector<std::string> problems;
  parse_spec(nlohmann::json(converted.job["spec"]), converted.job["metadata"]["name"], problems);
  return problems;
}

TEST(Convert, AnMsJob) {
  const auto object = parse_yaml_documents(R"(
apiVersion: mindspore.gitee.com/v1
kind: MSJob
metadata: {name: lenet}
spec:
  successPolicy: AllWorkers
  enableDynamicWorker: true
  runPolicy: {cleanPodPolicy: None, backoffLimit: 2}
  msReplicaSpecs:
    Scheduler: {replicas: 1, template: {spec: {containers: [{name: mindspore, image: i}]}}}
    Worker: {replicas: 4, restartPolicy: ExitCode, template: {spec: {containers: [{name: mindspore, image: i}]}}}
)",
                                           "f");
  const auto converted = convert_msjob(object.at(0));
  const auto& spec = converted.job["spec"];
  EXPECT_EQ(converted.job["kind"], "LockstepJob");
  EXPECT_EQ(spec["mode"], "Scheduler");
  EXPECT_EQ(spec["successPolicy"], "AllWorkers");
  EXPECT_EQ(spec["runPolicy"]["backoffLimit"], 2);
  EXPECT_EQ(spec["replicaSpecs"]["Scheduler"]["restartPolicy"], "Never");
  EXPECT_EQ(spec["replicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["name"], "lockstep");
  EXPECT_THAT(converted.remarks, testing::Contains(HasSubstr("enableDynamicWorker")));
  EXPECT_THAT(problems_of(converted), IsEmpty());
}

TEST(Convert, APyTorchJob) {
  const auto object = parse_yaml_documents(R"(
kind: PyTorchJob
metadata: {name: mnist}
spec:
  nprocPerNode: "2"
  elasticPolicy: {minReplicas: 1, maxReplicas: 4, rdzvBackend: c10d, maxRestarts: 5}
  runPolicy: {managedBy: x}
  pytorchReplicaSpecs:
    Master: {replicas: 1, template: {spec: {containers: [{name: pytorch, image: i}]}}}
    Worker: {replicas: 3, template: {spec: {containers: [{name: pytorch, image: i}]}}}
)",
                                           "f");
  const auto converted = convert_pytorchjob(object.at(0));
  const auto& spec = converted.job["spec"];
  EXPECT_EQ(spec["mode"], "Run");
  EXPECT_EQ(spec["replicaSpecs"]["Worker"]["replicas"], 4);
  EXPECT_EQ(spec["elastic"]["maxReplicas"], 4);
  EXPECT_EQ(spec["replicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["env"][0]["value"], "2");
  EXPECT_EQ(spec["runPolicy"]["backoffLimit"], 5);
  EXPECT_THAT(converted.remarks, testing::Contains(HasSubstr("runPolicy.managedBy")));
  EXPECT_THAT(converted.remarks, testing::Contains(HasSubstr("its command must be 'torchrun ...'")));
  EXPECT_THAT(converted.remarks, testing::Not(testing::Contains(HasSubstr("elasticPolicy"))));
  EXPECT_THAT(problems_of(converted), IsEmpty());
  EXPECT_ANY_THROW(convert_msjob(object.at(0)));
}

const nlohmann::ordered_json* variable(const nlohmann::ordered_json& job, std::string_view name) {
  for (const auto& one : job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["env"]) {
    if (one["name"] == name) return &one;
  }
  return nullptr;
}

// One rank in each Pod, as its programs expect it.
TEST(Convert, APyTorchJobWithoutALauncherGivesEachPodItsRank) {
  const auto object = parse_yaml_documents(R"(
kind: PyTorchJob
metadata: {name: mnist}
spec:
  pytorchReplicaSpecs:
    Master: {replicas: 1, template: {spec: {containers: [{name: pytorch, image: i, command: [python, train.py]}]}}}
    Worker: {replicas: 1, template: {spec: {containers: [{name: pytorch, image: i, command: [python, train.py]}]}}}
)",
                                           "f");
  const auto converted = convert_pytorchjob(object.at(0));
  EXPECT_THAT(problems_of(converted), IsEmpty());
  ASSERT_NE(variable(converted.job, "RANK"), nullptr);
  EXPECT_EQ((*variable(converted.job, "RANK"))["valueFrom"]["fieldRef"]["fieldPath"],
            "metadata.labels['" + std::string(kIndexLabel) + "']");
  EXPECT_EQ((*variable(converted.job, "WORLD_SIZE"))["value"], "2");
  EXPECT_EQ((*variable(converted.job, "MASTER_ADDR"))["value"], "mnist-worker-0.mnist");
  EXPECT_EQ((*variable(converted.job, "MASTER_PORT"))["value"], "23456");
  EXPECT_THAT(converted.remarks, testing::Contains(HasSubstr("each Pod is one rank")));
}

TEST(Convert, ATrainJob) {
  const auto object = parse_yaml_documents(R"(
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: mnist, namespace: team}
spec:
  runtimeRef: {name: torch-distributed}
  suspend: true
  initializer: {model: {storageUri: "hf://m"}}
  trainer:
    image: i
    command: [torchrun, train.py]
    numNodes: 3
    numProcPerNode: 2
    resourcesPerNode: {limits: {cpu: "4"}}
    env: [{name: A, value: b}]
)",
                                           "f");
  const auto converted = convert_trainjob(object.at(0));
  EXPECT_THAT(problems_of(converted), IsEmpty());
  const auto& spec = converted.job["spec"];
  const auto& worker = spec["replicaSpecs"]["Worker"];
  EXPECT_EQ(spec["mode"], "Run");
  EXPECT_EQ(spec["runPolicy"]["suspend"], true);
  EXPECT_EQ(worker["replicas"], 3);
  EXPECT_EQ(worker["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"], "4");
  EXPECT_EQ((*variable(converted.job, "PET_NPROC_PER_NODE"))["value"], "2");
  EXPECT_EQ((*variable(converted.job, "A"))["value"], "b");
  EXPECT_EQ(variable(converted.job, "RANK"), nullptr);
  EXPECT_THAT(converted.remarks, testing::Contains(HasSubstr("initializer")));
  EXPECT_THAT(converted.remarks, testing::Not(testing::Contains(HasSubstr("image"))));
  EXPECT_ANY_THROW(convert_pytorchjob(object.at(0)));

  const auto bare = parse_yaml_documents("{kind: TrainJob, metadata: {name: a}, spec: {runtimeRef: {name: r}}}", "f");
  const auto of_runtime = convert_trainjob(bare.at(0));
  EXPECT_THAT(of_runtime.remarks, testing::Contains(HasSubstr("the image is that of the runtime 'r'")));
  EXPECT_THAT(of_runtime.remarks, testing::Contains(HasSubstr("the command is that of the runtime 'r'")));
}

}  // namespace
}  // namespace lockstep::kube
