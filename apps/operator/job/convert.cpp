// Converters from MindSpore's MSJob and Kubeflow's PyTorchJob and TrainJob, with remarks on what is left out.
#include <apps/operator/api/resource.h>
#include <apps/operator/job/convert.h>
#include <apps/operator/job/names.h>
#include <lockstep/base/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace lockstep::kube {
namespace {

using Json = nlohmann::ordered_json;

const Json& at(const Json& object, const char* key) {
  static const Json kNone = Json::object();
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : kNone;
}

/// The conversion of one job.
class Conversion {
 public:
  Conversion(const Json& from, const char* kind) : from_(from) {
    const std::string found = from.is_object() ? from.value("kind", "") : "";
    if (found != kind) {
      fail(ErrorKind::config, "convert", "the object is of kind '{}', and a {} is expected", found, kind);
    }
    result_.job = {{"apiVersion", lockstep_jobs().api_version()}, {"kind", lockstep_jobs().kind}};
    for (const char* key : {"name", "namespace", "labels", "annotations"}) {
      if (at(from, "metadata").contains(key)) result_.job["metadata"][key] = from["metadata"][key];
    }
  }

  std::string name() const { return at(from_, "metadata").value("name", ""); }
  const Json& spec() const { return at(from_, "spec"); }
  Json& made() { return result_.job["spec"]; }
  void remark(std::string text) { result_.remarks.push_back(std::move(text)); }
  Converted finish() { return std::move(result_); }

  /// A role, with its training container renamed to our name.
  Json role(const Json& given, const char* container) {
    Json made;
    for (const char* key : {"replicas", "restartPolicy", "template"}) {
      if (given.contains(key)) made[key] = given[key];
    }
    if (!made.contains("template")) return made;
    for (Json& each : made["template"]["spec"]["containers"]) {
      if (each.value("name", "") == container) each["name"] = "lockstep";
    }
    return made;
  }

  void copy_policy(const Json& policy) {
    for (const auto& [key, value] : policy.items()) {
      static constexpr std::initializer_list<const char*> kKnown = {
          "suspend",         "cleanPodPolicy", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished",
          "schedulingPolicy"};
      if (std::any_of(kKnown.begin(), kKnown.end(), [&](const char* known) { return key == known; })) {
        made()["runPolicy"][key] = value;
      } else {
        remark(fmt::format("runPolicy.{} has no counterpart and is left out", key));
      }
    }
  }

  void note_other_fields(std::initializer_list<const char*> known) {
    for (const auto& [key, value] : spec().items()) {
      if (std::any_of(known.begin(), known.end(), [&](const char* each) { return key == each; })) continue;
      remark(fmt::format("spec.{} has no counterpart and is left out", key));
    }
  }

 private:
  const Json& from_;
  Converted result_;
};

}  // namespace

Converted convert_msjob(const Json& object) {
  Conversion conversion(object, "MSJob");
  const Json& spec = conversion.spec();
  for (const auto& [role, given] : at(spec, "msReplicaSpecs").items()) {
    Json made = conversion.role(given, "mindspore");
    if (!made.contains("restartPolicy")) made["restartPolicy"] = "Never";  // MSJob's default
    conversion.made()["replicaSpecs"][role] = std::move(made);
  }
  conversion.made()["mode"] = at(spec, "msReplicaSpecs").contains("Scheduler") ? "Scheduler" : "None";
  if (spec.contains("successPolicy")) {
    const Json& policy = spec["successPolicy"];
    conversion.made()["successPolicy"] = policy.is_string() && policy == "AllWorkers" ? "AllWorkers" : "";
  }
  conversion.copy_policy(at(spec, "runPolicy"));
  if (spec.value("enableDynamicWorker", false)) {
    conversion.remark(
        "enableDynamicWorker: failed workers are not ignored here; recovery (recovery.enabled, recovery.path) "
        "replaces them");
  }
  conversion.note_other_fields({"msReplicaSpecs", "successPolicy", "runPolicy", "enableDynamicWorker"});
  conversion.remark(
      "the containers' image and command are MindSpore's: give an image with lockstep, and a command such as "
      "[lockstep, train, --config, run.yaml]");
  conversion.remark(
      "connections use TLS with certificates that the operator makes; security: {tls: Insecure} is as before");
  return conversion.finish();
}

namespace {

constexpr int kMasterPort = 23456;  // Kubeflow's

/// Whether the container's command begins with a program that starts the ranks of a node.
bool has_launcher(const Json& container) {
  std::string words;
  for (const char* key : {"command", "args"}) {
    for (const Json& word : at(container, key))
      words.append(" ").append(word.is_string() ? word.get<std::string>() : "");
  }
  return std::ranges::any_of(
      std::initializer_list<std::string_view>{"torchrun", "torch.distributed.run", "torch.distributed.launch",
                                              "lockstep run", "lockstep launch", "deepspeed", "accelerate launch"},
      [&](std::string_view launcher) { return words.find(launcher) != std::string::npos; });
}

void set_variable(Json& container, const char* name, Json value_or_source) {
  Json& list = container["env"];
  const auto has = [&](const Json& one) { return one.value("name", "") == name; };
  if (list.is_array() && std::ranges::any_of(list, has)) return;
  Json variable = {{"name", name}};
  const char* key = value_or_source.is_object() ? "valueFrom" : "value";
  variable[key] = std::move(value_or_source);
  list.push_back(std::move(variable));
}

/// The container that trains; nullptr without one.
Json* trainer_of(Json& role) {
  if (at(at(at(role, "template"), "spec"), "containers").empty()) return nullptr;
  Json& containers = role["template"]["spec"]["containers"];
  for (Json& each : containers) {
    if (each.value("name", "") == "lockstep") return &each;
  }
  return &containers.front();
}

/// Rank and address for a command that starts no launcher: one rank in each Pod, as in Kubeflow.
void give_rank(const std::string& job, int replicas, Json& container) {
  const auto label = fmt::format("metadata.labels['{}']", kIndexLabel);
  Json source;
  source["fieldRef"]["fieldPath"] = label;
  set_variable(container, "RANK", std::move(source));
  set_variable(container, "WORLD_SIZE", std::to_string(replicas));
  set_variable(container, "MASTER_ADDR", fmt::format("{0}-worker-0.{0}", job));
  set_variable(container, "MASTER_PORT", std::to_string(kMasterPort));
}

/// Sets the rendezvous of the container's ranks, and adds remarks on it for the user.
void let_ranks_meet(Conversion& conversion, Json& worker, bool elastic, bool several_processes) {
  Json* container = trainer_of(worker);
  if (container == nullptr) return;
  if (elastic || several_processes || has_launcher(*container)) {
    conversion.remark(
        "MASTER_ADDR, RANK and WORLD_SIZE are not set for the Pod: its command must be 'torchrun ...' or "
        "'lockstep run ...', which find each other by PET_ variables and set them for each rank");
    return;
  }
  give_rank(conversion.name(), worker.value("replicas", 1), *container);
  conversion.remark(
      "the command starts no launcher, so each Pod is one rank: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are "
      "variables of the container; 'lockstep run ...' or 'torchrun ...' would need none of them");
}

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

void copy_elastic_policy(Conversion& conversion, const Json& elastic, Json& worker) {
  Json* container = trainer_of(worker);
  const bool c10d = elastic.value("rdzvBackend", "c10d") == "c10d";
  for (const auto& [key, value] : elastic.items()) {
    if (key == "minReplicas" || key == "maxReplicas") {
      conversion.made()["elastic"][key] = value;
    } else if (key == "maxRestarts") {
      conversion.made()["runPolicy"]["backoffLimit"] = value;
    } else if (key == "rdzvBackend") {
      if (!c10d && container != nullptr) set_variable(*container, "PET_RDZV_BACKEND", text_of(value));
    } else if (key == "nProcPerNode") {
      if (container != nullptr) set_variable(*container, "PET_NPROC_PER_NODE", text_of(value));
    } else if (key == "rdzvHost" && !c10d) {
      auto endpoint = text_of(value);
      if (elastic.contains("rdzvPort")) endpoint.append(":").append(text_of(elastic["rdzvPort"]));
      if (container != nullptr) set_variable(*container, "PET_RDZV_ENDPOINT", endpoint);
    } else if (key == "rdzvHost" || key == "rdzvPort" || key == "rdzvId") {
      // Worker 0, and a name for each attempt, as set by the operator.
    } else {
      conversion.remark(
          fmt::format("elasticPolicy.{} has no counterpart and is left out; PET_ variables of the container "
                      "have the same effect",
                      key));
    }
  }
}

}  // namespace

Converted convert_pytorchjob(const Json& object) {
  Conversion conversion(object, "PyTorchJob");
  const Json& spec = conversion.spec();
  const Json& roles = at(spec, "pytorchReplicaSpecs");
  const bool has_master = roles.contains("Master");
  Json worker = conversion.role(at(roles, has_master && !roles.contains("Worker") ? "Master" : "Worker"), "pytorch");
  if (has_master && roles.contains("Worker")) {
    const auto count = [&](const char* role) { return roles[role].value("replicas", 1); };
    worker["replicas"] = count("Master") + count("Worker");
    if (at(roles["Master"], "template") != at(roles["Worker"], "template")) {
      conversion.remark(
          "Master's template differs from Worker's and is left out: all ranks are Workers here, and rank 0 is "
          "worker 0");
    }
  }
  conversion.made()["mode"] = "Run";
  conversion.copy_policy(at(spec, "runPolicy"));
  const Json& elastic = at(spec, "elasticPolicy");
  copy_elastic_policy(conversion, elastic, worker);
  if (Json* container = trainer_of(worker); spec.contains("nprocPerNode") && container != nullptr) {
    set_variable(*container, "PET_NPROC_PER_NODE", text_of(spec["nprocPerNode"]));
  }
  const bool several = spec.contains("nprocPerNode") && text_of(spec["nprocPerNode"]) != "1";
  let_ranks_meet(conversion, worker, !elastic.empty(), several || elastic.contains("nProcPerNode"));
  conversion.made()["replicaSpecs"]["Worker"] = std::move(worker);
  conversion.note_other_fields({"pytorchReplicaSpecs", "elasticPolicy", "nprocPerNode", "runPolicy"});
  return conversion.finish();
}

Converted convert_trainjob(const Json& object) {
  Conversion conversion(object, "TrainJob");
  const Json& spec = conversion.spec();
  const Json& trainer = at(spec, "trainer");
  Json container = {{"name", "lockstep"}};
  for (const char* key : {"image", "command", "args", "env"}) {
    if (trainer.contains(key)) container[key] = trainer[key];
  }
  if (trainer.contains("resourcesPerNode")) container["resources"] = trainer["resourcesPerNode"];
  const std::string processes = trainer.contains("numProcPerNode") ? text_of(trainer["numProcPerNode"]) : "";
  if (!processes.empty()) set_variable(container, "PET_NPROC_PER_NODE", processes);
  Json worker = {{"replicas", trainer.value("numNodes", 1)}};
  for (const char* key : {"labels", "annotations"}) {
    if (spec.contains(key)) worker["template"]["metadata"][key] = spec[key];
  }
  worker["template"]["spec"]["containers"] = Json::array({std::move(container)});
  conversion.made()["mode"] = "Run";
  for (const char* key : {"suspend", "activeDeadlineSeconds"}) {
    if (spec.contains(key)) conversion.made()["runPolicy"][key] = spec[key];
  }
  let_ranks_meet(conversion, worker, false, !processes.empty() && processes != "1");
  conversion.made()["replicaSpecs"]["Worker"] = std::move(worker);
  const auto runtime = at(spec, "runtimeRef").value("name", "");
  if (!trainer.contains("image")) {
    conversion.remark(fmt::format(
        "the image is that of the runtime '{}', which is not in this file: give the container an image with "
        "lockstep",
        runtime));
  }
  if (!trainer.contains("command") && !trainer.contains("args")) {
    conversion.remark(
        fmt::format("the command is that of the runtime '{}' or of the image: give the container one, such "
                    "as [lockstep, run, lockstep, train, --config, run.yaml]",
                    runtime));
  }
  if (spec.contains("initializer")) {
    conversion.remark(
        "initializer has no counterpart and is left out: download data and model in an initContainer of the template, "
        "or "
        "put them on a volume");
  }
  for (const char* key : {"podSpecOverrides", "podTemplateOverrides", "runtimePatches"}) {
    if (spec.contains(key))
      conversion.remark(fmt::format("{} is left out: write into the Worker's template what it changes", key));
  }
  conversion.note_other_fields({"runtimeRef", "trainer", "suspend", "activeDeadlineSeconds", "labels", "annotations",
                                "initializer", "podSpecOverrides", "podTemplateOverrides", "runtimePatches",
                                "managedBy"});
  return conversion.finish();
}

}  // namespace lockstep::kube
