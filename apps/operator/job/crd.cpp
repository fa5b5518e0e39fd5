// The OpenAPI v3 schema of LockstepJob, built by small functions per section and field.
#include <apps/operator/api/resource.h>
#include <apps/operator/job/job.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::kube {
namespace {

using Json = nlohmann::ordered_json;
using SchemaFields = std::vector<std::pair<std::string, Json>>;

Json described(const char* type, const char* description) { return {{"type", type}, {"description", description}}; }

Json text(const char* description) { return described("string", description); }

Json number(const char* description, std::int64_t low, std::int64_t high) {
  Json made = described("integer", description);
  made["minimum"] = low;
  made["maximum"] = high;
  return made;
}

Json with_default(Json field, Json value) {
  field["default"] = std::move(value);
  return field;
}

Json choice(const char* description, std::vector<std::string> names) {
  Json made = text(description);
  made["enum"] = std::move(names);
  return made;
}

Json section(const char* description, const SchemaFields& fields, std::vector<std::string> required = {}) {
  Json made = described("object", description);
  if (!required.empty()) made["required"] = std::move(required);
  for (const auto& [name, field] : fields) made["properties"][name] = field;
  return made;
}

Json anything(const char* description) {
  Json made = described("object", description);
  made["x-kubernetes-preserve-unknown-fields"] = true;
  return made;
}

Json map_of(Json item, const char* description) {
  Json made = described("object", description);
  made["additionalProperties"] = std::move(item);
  return made;
}

Json role(const char* description) {
  return section(
      description,
      {{"replicas", with_default(number("Number of Pods.", 0, kMostReplicas), 1)},
       {"restartPolicy",
        with_default(
            choice("Which failures lead to a restart. OnFailure and Always: all but exit code 2, a mistake in the "
                   "configuration. ExitCode: 75, signals (128 and more) and Pods without an exit code. Never: none. "
                   "The operator restarts, not the kubelet: the Pod's own restartPolicy is always Never.",
                   {"OnFailure", "Always", "Never", "ExitCode"}),
            "OnFailure")},
       {"template",
        anything("The Pod, as in a Deployment. The container that trains is named lockstep, or is the only one. "
                 "Variables, labels, certificates and the host name are added; variables given here win.")}});
}

Json scheduling_policy() {
  return section(
      "Start all Pods or none, by a PodGroup, where the cluster has Volcano or the coscheduling plugin.",
      {{"minAvailable", number("Pods that must find room at the same time; all when not given.", 1, kMostReplicas)},
       {"queue", text("The queue of Volcano.")},
       {"priorityClass", text("The PriorityClass of the group (Volcano).")},
       {"minResources", anything("Resources that must be free, such as {cpu: 8}.")},
       {"scheduleTimeoutSeconds",
        number("How long Pods of the group wait for each other (coscheduling plugin).", 0, kMostSeconds)}});
}

Json run_policy() {
  return section(
      "When the job ends, and what is left of it.",
      {{"suspend", with_default(described("boolean",
                                          "true: delete the Pods and wait; false again: go on from the newest "
                                          "checkpoint."),
                                false)},
       {"cleanPodPolicy",
        with_default(choice("Which Pods of an ended job are deleted: those that have not ended, all, or none.",
                            {"Running", "All", "None"}),
                     "Running")},
       {"backoffLimit",
        with_default(number("Restarts of the job, or of single ranks, before it fails.", 0, 1'000'000), 6)},
       {"activeDeadlineSeconds",
        number("The job fails when it has run for this long, without the time in which it was suspended.", 1,
               kMostSeconds)},
       {"ttlSecondsAfterFinished",
        number("The job is deleted this long after its end; never when not given.", 0, kMostSeconds)},
       {"schedulingPolicy", scheduling_policy()}});
}

Json spec() {
  return section(
      "What to run.",
      {{"replicaSpecs",
        section("The job's roles.",
                {{"Worker", role("The ranks.")},
                 {"Scheduler",
                  role("Brings the workers together (mode Scheduler). Its template is the Worker's when not given.")},
                 {"PS", role("Parameter servers (mode Scheduler).")}},
                {"Worker"})},
       {"mode",
        choice("The rendezvous of the ranks. Scheduler: through Lockstep's scheduler in a Pod of its own. Run: each "
               "Pod runs 'lockstep run' or torchrun, with the rendezvous at worker 0. None: one worker, no variables. "
               "Not given: Scheduler when there is that role, else Run.",
               {"Scheduler", "Run", "None"})},
       {"successPolicy", choice("When the job has succeeded. Empty: the scheduler ended with 0 (mode Run: worker 0). "
                                "AllWorkers: all of them did.",
                                {"", "AllWorkers"})},
       {"elastic", section("The number of workers may change while the job runs, by 'kubectl scale' (mode Run).",
                           {{"minReplicas", with_default(number("Fewest workers that train.", 1, kMostReplicas), 1)},
                            {"maxReplicas", number("Most workers.", 1, kMostReplicas)}},
                           {"maxReplicas"})},
       {"recovery",
        section("A lost worker is replaced, and the others go on from memory.",
                {{"enabled", with_default(described("boolean", "Whether single ranks are replaced."), true)},
                 {"path", text("Where the scheduler saves its state (mode Scheduler): a folder of a volume, or "
                               "etcd://HOST:PORT/KEY.")},
                 {"clear", with_default(described("boolean",
                                                  "true: the key in etcd is deleted with the job, which stays until "
                                                  "the operator has done that."),
                                        false)}})},
       {"security",
        section("Encryption between Pods.",
                {{"tls", text("Auto: with certificates that the operator makes, in the Secret NAME-tls. Insecure: "
                              "without TLS. Else the name of a Secret with config.json and what it names. Default: "
                              "Auto in mode Scheduler, Insecure in mode Run.")}})},
       {"runPolicy", run_policy()}},
      {"replicaSpecs"});
}

Json counts() {
  return section("", {{"active", described("integer", "Pods that wait or run.")},
                      {"ready", described("integer", "Pods that are ready.")},
                      {"succeeded", described("integer", "Ranks that are done.")},
                      {"failed", described("integer", "Pods that failed.")}});
}

Json conditions() {
  Json list = described("array", "Created, Running, Restarting, Suspended, Succeeded and Failed.");
  list["x-kubernetes-list-type"] = "map";
  list["x-kubernetes-list-map-keys"] = Json::array({"type"});
  Json time = text("The last change of status.");
  time["format"] = "date-time";
  list["items"] = section("",
                          {{"type", text("The condition.")},
                           {"status", choice("Whether it holds.", {"True", "False", "Unknown"})},
                           {"reason", text("The reason in one word.")},
                           {"message", text("A message for people.")},
                           {"lastTransitionTime", time}},
                          {"type", "status"});
  return list;
}

Json status() {
  Json start = text("When the job began, or went on after it was suspended.");
  Json completion = text("When it ended.");
  start["format"] = "date-time";
  completion["format"] = "date-time";
  return section(
      "The state of the job.",
      {{"observedGeneration", described("integer", "The generation of the spec that this status describes.")},
       {"phase", text("The most important condition: Pending, Running, Restarting, Suspended, Succeeded or Failed.")},
       {"startTime", start},
       {"completionTime", completion},
       {"attempt", described("integer", "Starts of all ranks.")},
       {"restarts", described("integer", "Restarts that count against backoffLimit.")},
       {"workers", described("integer", "Workers that this attempt was started with.")},
       {"step", described("integer", "The last completed step.")},
       {"lastError", text("The newest failure.")},
       {"firstFailure",
        section("The rank that failed first in the newest attempt that failed.",
                {{"pod", text("Its Pod.")},
                 {"uid", text("The Pod's uid.")},
                 {"role", text("Its role.")},
                 {"index", described("integer", "Its number within the role.")},
                 {"node", text("Where it ran.")},
                 {"exitCode", described("integer", "128 + N for signal N; none for a lost or evicted Pod.")},
                 {"reason", text("The kind of its error, or Kubernetes' reason.")},
                 {"message", text("Its error message.")},
                 {"attempt", described("integer", "The attempt.")}})},
       {"conditions", conditions()},
       {"replicaStatuses",
        section("Counts of each role.", {{"Scheduler", counts()}, {"PS", counts()}, {"Worker", counts()}})},
       {"replacements", map_of(map_of(described("integer", ""), ""),
                               "How often single ranks of this attempt were replaced, by role and index.")},
       {"completedIndexes", map_of(text(""), "Ranks of this attempt that are done, by role, such as 0-2,7.")},
       {"selector", text("Labels of the workers' Pods.")}});
}

Json column(const char* name, const char* type, const char* path, int priority = 0) {
  Json made = {{"name", name}, {"type", type}, {"jsonPath", path}};
  if (priority > 0) made["priority"] = priority;
  return made;
}

}  // namespace

Json custom_resource_definition() {
  const Resource& jobs = lockstep_jobs();
  Json version = {{"name", jobs.version}, {"served", true}, {"storage", true}};
  version["additionalPrinterColumns"] = {
      column("State", "string", ".status.phase"), column("Step", "integer", ".status.step"),
      column("Restarts", "integer", ".status.restarts"), column("Age", "date", ".metadata.creationTimestamp"),
      column("Reason", "string", ".status.lastError", 1)};
  version["subresources"] = {{"status", Json::object()},
                             {"scale",
                              {{"specReplicasPath", ".spec.replicaSpecs.Worker.replicas"},
                               {"statusReplicasPath", ".status.replicaStatuses.Worker.active"},
                               {"labelSelectorPath", ".status.selector"}}}};
  version["schema"]["openAPIV3Schema"] =
      section("A training job of Lockstep: ranks in Pods, from their start to their end.",
              {{"apiVersion", described("string", "lockstep.dev/v1alpha1")},
               {"kind", described("string", "LockstepJob")},
               {"metadata", Json{{"type", "object"}}},
               {"spec", spec()},
               {"status", status()}},
              {"spec"});
  return {{"apiVersion", "apiextensions.k8s.io/v1"},
          {"kind", "CustomResourceDefinition"},
          {"metadata", {{"name", jobs.plural + "." + jobs.group}}},
          {"spec",
           {{"group", jobs.group},
            {"scope", "Namespaced"},
            {"names",
             {{"kind", jobs.kind},
              {"listKind", jobs.kind + "List"},
              {"plural", jobs.plural},
              {"singular", "lockstepjob"},
              {"shortNames", Json::array({"lsj"})},
              {"categories", Json::array({"all"})}}},
            {"versions", Json::array({version})}}}};
}

}  // namespace lockstep::kube
